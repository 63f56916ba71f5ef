"""Long streams of every plain kind, with every fault put in and taken out again.

    python -m tests.seasonal.soak 60000       prints a table; float32 unless JAX is told otherwise


Three columns a stream cost little more than two. Of a faulty stream the first two have a fault
each, the third is healthy. What comes back is a handful of sums for each block of rows, made inside
the compiled loop, so that a million rows need no memory.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rmcvi.core.inputs import Inputs
from rmcvi.learners.seasonal import SeasonalLearner

BLOCK = 1000
DAY = 24
COLUMNS = 3
"""Of a stream."""


def _autoregression(rng: np.random.Generator, rows: int) -> np.ndarray:
    x, noise = np.zeros(rows), rng.standard_normal(rows)
    for t in range(1, rows):
        x[t] = 0.9 * x[t - 1] + noise[t]
    return x


def _season(rng: np.random.Generator, rows: int) -> np.ndarray:
    return 20.0 + 3.0 * np.sin(2.0 * np.pi * np.arange(rows) / DAY) + rng.standard_normal(rows)


def _gappy(rng: np.random.Generator, rows: int) -> np.ndarray:
    y, t = 20.0 + _autoregression(rng, rows), 0
    while t < rows:
        t += int(rng.integers(20, 200))
        length = int(rng.integers(1, 60))
        y[t : t + length] = np.nan
        t += length
    return y


KINDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "white noise": lambda rng, rows: rng.standard_normal(rows),
    "random walk": lambda rng, rows: np.cumsum(rng.standard_normal(rows)),
    "ramp": lambda rng, rows: np.arange(rows) + 0.0,
    "sine": lambda rng, rows: np.sin(2.0 * np.pi * np.arange(rows) / 50.0),
    "counter": lambda rng, rows: np.cumsum(rng.poisson(3.0, rows)) + 0.0,
    "season": _season,
    "zero-inflated": lambda rng, rows: np.where(
        rng.random(rows) < 0.7, 0.0, rng.exponential(2.0, rows)
    ),
    "quantised": lambda rng, rows: np.round(_autoregression(rng, rows)),
    "gappy": _gappy,
    "autoregression": _autoregression,
}
EXACT = ("ramp", "sine")
"""Kinds without noise, of which no interval can hold nine values in ten."""


def plain(rows: int, seed: int) -> np.ndarray:
    """All kinds, three a stream, the last one filled up with the last kind."""
    rng = np.random.default_rng(seed)
    columns = [make(rng, rows) for make in KINDS.values()]
    columns += [_autoregression(rng, rows) for _ in range(-len(columns) % COLUMNS)]
    return np.stack(columns, 1).reshape(rows, -1, COLUMNS)


class Fault(NamedTuple):
    """What happens to a column between two shares of the stream."""

    change: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    begin: float = 0.3
    end: float = 0.6


def _codes(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(len(y)) < 0.05, -999.0, y)


FAULTS: dict[str, Fault] = {
    "level + 1e6": Fault(lambda y, rng: y + 1e6),
    "level + 1e3": Fault(lambda y, rng: y + 1e3),
    "level + 10, to stay": Fault(lambda y, rng: y + 10.0, end=1.0),
    "level + 1e3, to stay": Fault(lambda y, rng: y + 1e3, end=1.0),
    "60 rows of 1e6": Fault(lambda y, rng: np.where(np.arange(len(y)) < 60, 1e6, y)),
    "stuck": Fault(lambda y, rng: np.full_like(y, y[0]), 0.1, 0.7),
    "dead": Fault(lambda y, rng: np.full_like(y, np.nan), 0.1, 0.7),
    "dead, back 1e3 higher": Fault(
        lambda y, rng: np.where(np.arange(len(y)) < len(y) // 2, np.nan, y + 1e3), 0.1, 1.0
    ),
    "noise of 1e6": Fault(lambda y, rng: 1e6 * rng.standard_normal(len(y))),
    "codes": Fault(_codes),
    "a spike of 1e30": Fault(lambda y, rng: np.where(np.arange(len(y)) == 0, 1e30, y)),
}


def faulty(rows: int, seed: int) -> np.ndarray:
    """The same seasonal columns for all faults, two of them a stream; lastly without any."""
    streams, faults = [], list(FAULTS.values())
    for first in [*range(0, len(faults), COLUMNS - 1), len(faults)]:
        rng = np.random.default_rng(seed)
        y = np.stack([_season(rng, rows) for _ in range(COLUMNS)], 1)
        for column, fault in enumerate(faults[first : first + COLUMNS - 1]):
            part = slice(int(fault.begin * rows), int(fault.end * rows))
            y[part, column] = fault.change(y[part, column], rng)
        streams.append(y)
    return np.stack(streams, 1)


class Sums(NamedTuple):
    """Sums over the rows of a block, a column each."""

    values: Any
    error: Any
    last: Any
    """Squared errors of the prediction and of the last value."""
    inside: Any
    lost: Any
    """Values of which the prediction or an end of its interval was not finite."""


@partial(jax.jit, static_argnums=0)
def _block(learner: Any, carry: Any, ys: jax.Array) -> tuple[Any, Sums]:
    nothing, one = jnp.zeros(0, ys.dtype), jnp.ones((), ys.dtype)

    def row(carry, y):
        state, last, sums = carry
        state, info = learner.step(state, y, Inputs(nothing, one))
        told = info.prediction
        sound = jnp.isfinite(told.mean) & jnp.isfinite(told.low) & jnp.isfinite(told.high)
        seen = jnp.isfinite(y) & jnp.isfinite(last)
        scored = seen & sound
        new = (
            scored,
            jnp.where(scored, (told.mean - y) ** 2, 0.0),
            jnp.where(scored, (last - y) ** 2, 0.0),
            scored & (y >= told.low) & (y <= told.high),
            seen & ~sound,
        )
        sums = Sums(*(a + b for a, b in zip(sums, new, strict=True)))
        return (state, jnp.where(jnp.isnan(y), last, y), sums), None

    def stream(carry, ys):
        state, last = carry
        zeros = Sums(*(jnp.zeros(ys.shape[1], ys.dtype),) * 5)
        (state, last, sums), _ = jax.lax.scan(row, (state, last, zeros), ys)
        return (state, last), sums

    return jax.vmap(stream, in_axes=(0, 1))(carry, ys)


def soak(learner: Any, streams: np.ndarray, carry: Any = None) -> tuple[Any, Sums]:
    """Sums of every block (blocks, streams, columns) for streams (rows, streams, columns).

    From nothing, or from the carry after earlier rows, which comes first.
    """
    rows, number, size = streams.shape
    carry = nothing_learned(learner, number, size) if carry is None else carry
    found = []
    for begin in range(0, rows - BLOCK + 1, BLOCK):
        ys = jnp.asarray(streams[begin : begin + BLOCK], float)
        carry, sums = _block(learner, carry, ys)
        found.append(jax.tree.map(np.asarray, sums))
    return carry, Sums(*(np.stack(part).astype(float) for part in zip(*found, strict=True)))


def nothing_learned(learner: Any, number: int, size: int) -> Any:
    """What so many streams begin with."""
    one = (learner.init(jax.random.key(0)), jnp.full(size, jnp.nan, float))
    return jax.tree.map(lambda v: jnp.broadcast_to(v, (number, *v.shape)), one)


def in_shifts(learner: Any, ordinary: np.ndarray, faults: np.ndarray) -> tuple[Sums, Sums]:
    """Sums of ordinary streams, and of faulty ones of half their length, a half beside each half.

    As many lanes in both shifts, so that one program serves: the last faulty stream may come twice.
    """
    (half, number), lanes = faults.shape[:2], ordinary.shape[1]
    places = np.minimum(np.arange(2 * lanes), number - 1)
    first, second = faults[:, places[:lanes]], faults[:, places[lanes:]]
    carry, early = soak(learner, np.concatenate([ordinary[:half], first], 1))
    fresh = nothing_learned(learner, 2 * lanes, ordinary.shape[2])
    carry = jax.tree.map(lambda old, new: jnp.concatenate([old[:lanes], new[lanes:]]), carry, fresh)
    _, late = soak(learner, np.concatenate([ordinary[half:], second], 1), carry)
    pairs = [*zip(early, late, strict=True)]
    return (
        Sums(*(np.concatenate([a[:, :lanes], b[:, :lanes]]) for a, b in pairs)),
        Sums(*(np.concatenate([a[:, lanes:], b[:, lanes:]], 1)[:, :number] for a, b in pairs)),
    )


def ratios(sums: Sums) -> np.ndarray:
    """Root mean square error over the last value's, block by block; NaN where nothing changed."""
    return np.sqrt(
        np.divide(sums.error, sums.last, np.full_like(sums.error, np.nan), where=sums.last > 0)
    )


def coverage(sums: Sums) -> np.ndarray:
    """Share of the values within their intervals, over all blocks but the first."""
    return sums.inside[1:].sum(0) / np.maximum(sums.values[1:].sum(0), 1.0)


def after(fault: Fault, blocks: int) -> list[int]:
    """Blocks but the first and those in which a fault comes or goes, and one after each."""
    turns = [
        int(share * blocks) for share in (fault.begin, 0.5 * (fault.begin + fault.end), fault.end)
    ]
    return [b for b in range(1, blocks) if not any(turn <= b <= turn + 1 for turn in turns)]


def main(rows: int) -> dict[str, dict[str, dict[str, float]]]:
    """Both tables."""
    learner = SeasonalLearner(COLUMNS, period=DAY, long_period=7 * DAY)
    found, broken = in_shifts(learner, plain(rows, 1), faulty(rows // 2, 5))
    ratio, inside = ratios(found), coverage(found)
    told: dict[str, dict[str, dict[str, float]]] = {"plain": {}, "faults": {}}
    for i, name in enumerate(KINDS):
        place = divmod(i, COLUMNS)
        told["plain"][name] = {
            "worst": float(np.nanmax(ratio[1:, *place])),
            "coverage": float(inside[place]),
            "lost": float(found.lost[:, *place].sum()),
        }
    found, ratio = broken, ratios(broken)
    healthy = np.sqrt(found.error[1:, :, -1].sum(0) / found.last[1:, :, -1].sum(0))
    for i, (name, fault) in enumerate(FAULTS.items()):
        blocks, place = after(fault, len(ratio)), divmod(i, COLUMNS - 1)
        values, inside = (v[blocks, *place].sum() for v in (found.values, found.inside))
        told["faults"][name] = {
            "worst": float(np.nanmax(ratio[blocks, *place])),
            "coverage": float(inside / values),
            "healthy": float(healthy[place[0]] / healthy[-1]),
            "lost": float(found.lost[:, place[0]].sum()),
        }
    return told


if __name__ == "__main__":
    tables = main(int(sys.argv[1]))
    if "--json" in sys.argv:
        print(json.dumps(tables))
    else:
        for title, table in tables.items():
            print(title)
            for name, numbers in table.items():
                told = ", ".join(f"{k} {v:.3f}" for k, v in numbers.items())
                print(f"  {name}: {told}")
