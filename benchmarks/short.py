"""`SeasonalLearner` on simulated short streams of many kinds, against simple rivals.

    python benchmarks/short.py [SEEDS [NAME ...]]

Months with a trend and a season, added or multiplied, walks, autoregressions, counts with bursts,
levels that shift: 36 to 240 rows, each kind with SEEDS streams (default 32). "best" is the error
over that of the best simple rival of each stream (last value, season before, lags; without the
first 24 rows, as in `streams.py`), geometric means with standard errors; "early" is that of rows 5
to 24 over the last value's.
"""

import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from streams import SKIPPED, last_value, least_squares

from rmcvi.core.inputs import Inputs
from rmcvi.learners.seasonal import SeasonalLearner

LONGEST, YEAR = 240, 12
Rng = np.random.Generator


def walk(rng: Rng, rows: int, size: float = 1.0) -> np.ndarray:
    """A random walk."""
    return size * np.cumsum(rng.normal(size=rows))


def autoregression(rng: Rng, rows: int, *lags: float) -> np.ndarray:
    """With noise of deviation 1, from 50 rows before."""
    x = list(rng.normal(size=len(lags)))
    for e in rng.normal(size=rows + 50):
        x.append(sum(a * v for a, v in zip(lags, reversed(x), strict=False)) + e)
    return np.array(x[-rows:])


def season(rng: Rng, rows: int, size: float) -> np.ndarray:
    """Twelve months of their own."""
    months = rng.normal(size=YEAR) * size
    return (months - months.mean())[np.arange(rows) % YEAR]


def bursts(rng: Rng, rows: int) -> np.ndarray:
    """Counts whose rate wanders, and now and then many more."""
    rate = np.exp(1.0 + 0.4 * autoregression(rng, rows, 0.9))
    return rng.poisson(rate + (rng.random(rows) < 0.02) * rng.exponential(60.0, rows)).astype(float)


def shifts(rng: Rng, rows: int) -> np.ndarray:
    """A level that moves in one row of fifty."""
    moves = (rng.random(rows) < 0.02) * rng.normal(size=rows) * 8.0
    return 50.0 + np.cumsum(moves) + autoregression(rng, rows, 0.5)


def growth(rng: Rng, t: np.ndarray) -> np.ndarray:
    """A parabola under much noise."""
    return 150 + rng.uniform(0.1, 0.5) * t**2 + rng.uniform(30, 80) * rng.normal(size=len(t))


def waves(rng: Rng, t: np.ndarray) -> np.ndarray:
    """Months that are a sine."""
    turn = 2.0 * np.pi * t / YEAR + rng.uniform(0.0, 6.0)
    return 50 + 15 * np.sin(turn) + 2.5 * autoregression(rng, len(t), 0.3)


Kind = tuple[int, int | None, Callable[[Rng, np.ndarray], np.ndarray]]
KINDS: dict[str, Kind] = {
    "season times trend, little noise": (
        144,
        YEAR,
        lambda r, t: np.exp(5 + 0.01 * t + season(r, len(t), 0.15) + walk(r, len(t), 0.03)),
    ),
    "season times trend": (
        105,
        YEAR,
        lambda r, t: np.exp(8 + 0.005 * t + season(r, len(t), 0.4) + 0.12 * r.normal(size=len(t))),
    ),
    "season plus trend": (
        108,
        YEAR,
        lambda r, t: 80 + 0.6 * t + season(r, len(t), 30) + 12 * r.normal(size=len(t)),
    ),
    "season, autoregression": (240, YEAR, waves),
    "growth, no dates": (36, None, growth),
    "growth, dates": (36, YEAR, growth),
    "trend, no dates": (
        60,
        None,
        lambda r, t: 100 + r.uniform(0.5, 5) * t + 20 * r.normal(size=len(t)),
    ),
    "walk with noise": (120, None, lambda r, t: walk(r, len(t)) + 2.0 * r.normal(size=len(t))),
    "logarithm walks": (
        118,
        YEAR,
        lambda r, t: np.exp(3.5 + 0.015 * t + walk(r, len(t), 0.1) + 0.1 * r.normal(size=len(t))),
    ),
    "walk": (84, None, lambda r, t: 100 + walk(r, len(t))),
    "walk, dates": (240, YEAR, lambda r, t: 100 + walk(r, len(t))),
    "walk with drift": (79, None, lambda r, t: 400 + 3 * t + walk(r, len(t), 15)),
    "autoregression": (120, None, lambda r, t: 10 + autoregression(r, len(t), 0.7)),
    "cycle": (
        240,
        YEAR,
        lambda r, t: np.exp(3 + 0.25 * autoregression(r, len(t), 1.4, -0.55)),
    ),
    "counts with bursts": (240, None, lambda r, t: bursts(r, len(t))),
    "shifts of level": (240, None, lambda r, t: shifts(r, len(t))),
}


@eqx.filter_jit
def learn(learner: SeasonalLearner, ys: jax.Array) -> tuple[jax.Array, ...]:
    """Means and intervals of many streams."""

    def row(state: Any, y: jax.Array) -> tuple[Any, tuple[jax.Array, ...]]:
        state, info = learner.step(state, y[None], Inputs(jnp.zeros(0), jnp.ones(())))
        told = info.prediction
        return state, (told.mean[0], told.low[0], told.high[0])

    return jax.vmap(lambda y: jax.lax.scan(row, learner.init(jax.random.key(0)), y)[1])(ys)


def errors(predicted: np.ndarray, ys: np.ndarray, *rows: int) -> np.ndarray:
    """Root mean squares, one a stream."""
    return np.sqrt(np.nanmean((predicted - ys)[:, slice(*rows)] ** 2, 1))


def main(seeds: int, names: list[str]) -> None:
    """Print a row for each kind."""
    print("| kind | rows | best | early | coverage |\n|---|---|---|---|---|")
    learners = {p: SeasonalLearner(1, period=p, long_period=None) for p in (None, YEAR)}
    total = []
    for place, (name, (rows, period, draw)) in enumerate(KINDS.items()):
        if names and name not in names:
            continue
        rngs = [np.random.default_rng([place, seed]) for seed in range(seeds)]
        ys = np.stack([draw(rng, np.arange(float(rows))) for rng in rngs])
        # One program for all lengths: what is missing at the end is learned from by nobody.
        padded = np.pad(ys, ((0, 0), (0, LONGEST - rows)), constant_values=np.nan)
        told = learn(learners[period], jnp.asarray(padded))
        mean, low, high = (np.asarray(v)[:, :rows] for v in told)
        last = last_value(ys.T).T
        rivals = [last, np.concatenate([least_squares(y[:, None], period) for y in ys], 1).T]
        if period:
            rivals.append(np.pad(ys, ((0, 0), (period, 0)), constant_values=np.nan)[:, :rows])
        best = np.min([errors(r, ys, SKIPPED, None) for r in rivals], 0)
        over = np.log(errors(mean, ys, SKIPPED, None) / best)
        early = np.log(errors(mean, ys, 4, SKIPPED) / errors(last, ys, 4, SKIPPED))
        inside = np.mean(((ys >= low) & (ys <= high))[:, SKIPPED:])
        cells = [f"{np.exp(v.mean()):.3f} ({v.std() / seeds**0.5:.3f})" for v in (over, early)]
        print(f"| {name} | {rows} | {' | '.join(cells)} | {inside:.3f} |", flush=True)
        total.append(over.mean())
    print(f"\nGeometric mean over the best rival: {np.exp(np.mean(total)):.3f}")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main(int(sys.argv[1]) if sys.argv[1:] else 32, sys.argv[2:])
