"""Streams that run for long, faults in them, and `Live`'s default learner on all of them at once.

Each stream is the first of two columns; the second is a healthy sensor, the same for all. The
standardiser works column by column and does not know the learner, so it runs beforehand.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

import rmcvi
from rmcvi.learners.units import Standardiser

OPTIMISED = {"xla_backend_optimization_level": 1}
"""This program runs for long: a third of the time, for three times that of compiling."""


def streams(length: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Ordinary streams, each of about unit size."""
    rng, t = np.random.default_rng(seed), np.arange(float(length))
    noise = rng.standard_normal((8, length))
    slow = np.zeros(length)
    for i in range(1, length):
        slow[i] = 0.9 * slow[i - 1] + noise[0, i]
    gappy = slow + 0.3 * noise[1]
    gappy[rng.random(length) < 0.3] = np.nan
    return {
        "white noise": noise[2],
        "random walk": np.cumsum(noise[3]),
        "ramp": t + 0.3 * noise[4],
        "sine": np.sin(2 * np.pi * t / 97.0),
        "counter": np.cumsum(rng.poisson(3.0, length)).astype(float),
        "season": 3.0 * np.sin(2 * np.pi * t / 24.0) + noise[5],
        "zero-inflated": np.where(rng.random(length) < 0.7, 0.0, rng.exponential(2.0, length)),
        "quantised": np.round(slow),
        "gappy": gappy,
    }


def healthy(length: int) -> np.ndarray:
    """The other column."""
    rng, values = np.random.default_rng(99), np.zeros(length)
    for i in range(1, length):
        values[i] = 0.9 * values[i - 1] + rng.standard_normal()
    return values


def faults(length: int, seed: int = 1) -> tuple[dict[str, np.ndarray], slice]:
    """One stream with every fault, and the rows of the fault."""
    good = streams(length, seed)["gappy"]
    good = np.where(np.isnan(good), 0.0, good)
    bad = slice(length // 3, 2 * length // 3)
    short = slice(bad.stop - 60, bad.stop)
    out = {name: good.copy() for name in ("none", "stuck", "dead", "level 1e3", "level 1e6")}
    out["stuck"][bad] = good[bad.start]
    out["dead"][bad] = np.nan
    out["level 1e3"][bad] += 1e3
    out["level 1e6"][bad] += 1e6
    out["60 rows of 1e6"] = good.copy()
    out["60 rows of 1e6"][short] = 1e6
    out["outliers"] = good.copy()
    out["outliers"][bad][::20] = 1e6
    out["noise of 1e6"] = good.copy()
    out["noise of 1e6"][short] *= 1e6
    return out, bad


@dataclass
class Told:
    """What was said of every stream, in its units: (streams, rows, 2)."""

    y: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @cached_property
    def last(self) -> np.ndarray:
        """The last value before each row, NaN before the first."""
        out = np.full(self.y.shape, np.nan)
        for t in range(1, self.y.shape[1]):
            now = self.y[:, t - 1]
            out[:, t] = np.where(np.isnan(now), out[:, t - 1], now)
        return out

    def error(self, rows: slice, column: int = 0) -> np.ndarray:
        """Root mean square error over the last value's, per stream."""
        y = self.y[:, rows, column]
        ours = np.nanmean((self.mean[:, rows, column] - y) ** 2, 1)
        return np.sqrt(ours / np.nanmean((self.last[:, rows, column] - y) ** 2, 1))

    def coverage(self, rows: slice, column: int = 0) -> np.ndarray:
        """Share of the values in their band, per stream."""
        y, low, high = (v[:, rows, column] for v in (self.y, self.low, self.high))
        return np.nanmean(np.where(np.isnan(y), np.nan, (low <= y) & (y <= high)), 1)


def soak(firsts: list[np.ndarray]) -> Told:
    """Every stream through `default_learner`, in single precision."""
    length = len(firsts[0])
    ys = np.stack([np.stack([first, healthy(length)], 1) for first in firsts])
    standardiser, flat = Standardiser(), np.moveaxis(ys, 0, 1).reshape(length, -1)
    scaling = standardiser.init(flat.shape[1])
    z, centre, scale = (np.empty(flat.shape) for _ in range(3))
    for t, row in enumerate(flat):
        centre[t], scale[t] = scaling.mean, scaling.scale
        scaling, z[t] = standardiser.step(scaling, row)
    said = _learned(_by_stream(z, ys.shape))
    parts = [_by_stream(centre, ys.shape) + _by_stream(scale, ys.shape) * v for v in said]
    return Told(ys, *parts)


def _by_stream(flat: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.moveaxis(flat.reshape(shape[1], shape[0], shape[2]), 1, 0)


def _learned(z: np.ndarray) -> list[np.ndarray]:
    """Mean, low and high in standard units."""
    with jax.enable_x64(False):
        learner = rmcvi.default_learner(2)
        inputs = rmcvi.Inputs.of()
        keys = jax.random.split(jax.random.key(0), len(z))
        state = jax.jit(jax.vmap(learner.init))(keys)

        @partial(jax.jit, compiler_options=OPTIMISED)
        def run(state, rows):
            def step(state, y):
                state, info = jax.vmap(lambda s, v: learner.step(s, v, inputs))(state, y)
                said = info.prediction
                assert said is not None
                return state, (said.mean, said.low, said.high)

            return jax.lax.scan(step, state, rows)

        _, said = run(state, jnp.asarray(np.moveaxis(z, 0, 1), jnp.float32))
        return [np.moveaxis(np.asarray(v, float), 0, 1) for v in said]
