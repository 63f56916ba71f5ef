"""Long streams of every plain kind, with every fault put in and taken out, in single precision.

Column 0 has the fault, column 1 is healthy. What comes back is a handful of sums for each block of
rows, made inside the compiled loop, so that a million rows need no memory.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rmcvi._core.inputs import Inputs

BLOCK = 1000
DAY = 24


def _autoregression(rng: np.random.Generator, rows: int) -> np.ndarray:
    x, noise = np.zeros((rows, 2)), rng.standard_normal((rows, 2))
    for t in range(1, rows):
        x[t] = 0.9 * x[t - 1] + noise[t]
    return x


def _season(rng: np.random.Generator, rows: int) -> np.ndarray:
    wave = 3.0 * np.sin(2.0 * np.pi * np.arange(rows) / DAY)
    return 20.0 + wave[:, None] + rng.standard_normal((rows, 2))


def _gappy(rng: np.random.Generator, rows: int) -> np.ndarray:
    y, t = 20.0 + _autoregression(rng, rows), 0
    while t < rows:
        t += int(rng.integers(20, 200))
        length = int(rng.integers(1, 60))
        y[t : t + length, rng.integers(2)] = np.nan
        t += length
    return y


def _column(make: Callable[[np.random.Generator, int], np.ndarray]) -> Any:
    return lambda rng, rows: np.stack([make(rng, rows), make(rng, rows)], 1)


KINDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "white noise": lambda rng, rows: rng.standard_normal((rows, 2)),
    "random walk": lambda rng, rows: np.cumsum(rng.standard_normal((rows, 2)), 0),
    "ramp": _column(lambda rng, rows: np.arange(rows) + 0.0),
    "sine": _column(lambda rng, rows: np.sin(2.0 * np.pi * np.arange(rows) / 50.0)),
    "counter": _column(lambda rng, rows: np.cumsum(rng.poisson(3.0, rows)) + 0.0),
    "season": _season,
    "zero-inflated": lambda rng, rows: np.where(
        rng.random((rows, 2)) < 0.7, 0.0, rng.exponential(2.0, (rows, 2))
    ),
    "quantised": lambda rng, rows: np.round(_autoregression(rng, rows)),
    "gappy": _gappy,
}
EXACT = ("ramp", "sine")
"""Kinds without noise, of which no interval can hold nine values in ten."""


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
    "stuck": Fault(lambda y, rng: np.full_like(y, y[0]), 0.1, 0.9),
    "dead": Fault(lambda y, rng: np.full_like(y, np.nan), 0.1, 0.9),
    "noise of 1e6": Fault(lambda y, rng: 1e6 * rng.standard_normal(len(y))),
    "codes": Fault(_codes),
    "a spike of 1e30": Fault(lambda y, rng: np.where(np.arange(len(y)) == 0, 1e30, y)),
}


def faulty(name: str, rows: int, seed: int) -> np.ndarray:
    """A seasonal stream with a fault in column 0."""
    rng, fault = np.random.default_rng(seed), FAULTS[name]
    y = _season(rng, rows)
    part = slice(int(fault.begin * rows), int(fault.end * rows))
    y[part, 0] = fault.change(y[part, 0], rng)
    return y


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

    return jax.lax.map(lambda pair: stream(*pair), (carry, jnp.swapaxes(ys, 0, 1)))


def soak(learner: Any, streams: np.ndarray) -> Sums:
    """Sums of every block (blocks, streams, columns) for streams (rows, streams, columns)."""
    rows, number, size = streams.shape
    key = jax.random.key(0)
    one = (learner.init(key), jnp.full(size, jnp.nan, float))
    carry = jax.tree.map(lambda v: jnp.broadcast_to(v, (number, *v.shape)), one)
    found = []
    for begin in range(0, rows - BLOCK + 1, BLOCK):
        ys = jnp.asarray(streams[begin : begin + BLOCK], float)
        carry, sums = _block(learner, carry, ys)
        found.append(jax.tree.map(np.asarray, sums))
    return Sums(*(np.stack(part).astype(float) for part in zip(*found, strict=True)))
