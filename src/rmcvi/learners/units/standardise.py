"""Running mean m and scale s of each column: z_t = (y_t - m_{t-1}) / s_{t-1}, then update.

Statistics move after the row: nothing looks ahead, not even at the row itself. The first `warmup`
values of a column only teach and are NaN = not observed to whoever learns from z; their median and
median absolute deviation start the recursion. Then, with e = y - m clipped to k s and rate
a = 1 / min(n, memory),

    m <- m + a e + b,    v <- v + a (e^2 / c_k - v),    s = max(sqrt(v), floor),

where c_k = E min(Z^2, k^2), Z standard normal, makes s the standard deviation of clean Gaussian
data, and the floor, a hundredth of the first scale, is for sensors that stick. A column that hardly
moves from row to row is given a short memory and a trend, b <- b + a^2 e / 4.

A value that is doubted (`islands`) is NaN to whoever learns from z, and teaches nothing; after a
new level, z goes on as if nothing had happened.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rmcvi.core.checks import check_int, check_real
from rmcvi.core.moments import clipped_square
from rmcvi.learners.units.islands import STREAK, accustom, come_home, new_level, repeats
from rmcvi.learners.units.rows import Units
from rmcvi.learners.units.scaling import STEADY, Scaling, begin

_LEVEL = 1.0 / 8.0
"""Rate of the recent level."""
_SMOOTH = 0.05
"""One less the correlation of neighbours: of slower columns the memory shrinks, else it grows."""
_SHORTEST, _FIRST_MEMORY = 10.0, 30.0
"""The least memory, and the first."""
_PACE, _CHANGE = 0.01, 0.02
"""Share of its memory by which it changes per value, and rate of the mean square change."""


@dataclass(frozen=True)
class Standardiser:
    """Running standardisation of streams with missing values, outliers and constants."""

    memory: int | None = 1000
    """Longest time constant of forgetting, in observed values; None = never forget.

    A column that hardly changes from row to row (a walk, a ramp, a counter) is given a shorter one,
    so that its standard values move enough to be learned from, and do not wander off.
    """
    clip: float = 3.0
    """k: scales beyond which a value teaches no more than one at k."""
    warmup: int = 10
    """Values of a column before it is standardised."""
    gate: float | None = 10.0
    """Scales from the last trusted value beyond which a value is doubted; None = nothing is."""

    def __post_init__(self):
        check_int("warmup", self.warmup, 2)
        check_real("clip", self.clip, 0.5)
        if self.memory is not None:
            check_int("memory", self.memory, self.warmup)
        if self.gate is not None:
            check_real("gate", self.gate, 1.0)

    def init(self, dim: int) -> Scaling:
        """Nothing known of `dim` columns."""
        unknown, zero = np.full(dim, np.nan), np.zeros(dim)
        early, streak, home = (np.full((n, dim), np.nan) for n in (self.warmup, STREAK, 3))
        return Scaling(
            *(unknown, unknown, zero, zero, early),
            *(unknown, unknown, streak, home, unknown, zero, zero),
            *(unknown, np.full(dim, _FIRST_MEMORY), zero, zero),
        )

    def step(self, scaling: Scaling, y: ArrayLike) -> tuple[Scaling, np.ndarray]:
        """Standardise a row by what came before it, then learn from it; NaN if doubted."""
        values = self._check(scaling, y, 1)
        moved, doubted = self._learn(scaling, values)
        return moved, np.where(doubted, np.nan, scaling.transform(values))

    def update(self, scaling: Scaling, y: ArrayLike) -> Scaling:
        """The statistics after one more row."""
        return self._learn(scaling, self._check(scaling, y, 1))[0]

    def _learn(self, scaling: Scaling, values: np.ndarray) -> tuple[Scaling, np.ndarray]:
        """The statistics after a row, and which of its values are doubted."""
        seen = np.isfinite(values)
        doubted = np.zeros(values.shape, bool)
        if scaling.frozen:
            return scaling, doubted
        moved = scaling
        if self.gate is not None:
            moved, stuck = repeats(scaling, values, seen)
            jump = np.abs(values - scaling.trusted) > self.gate * scaling.scale
            doubted = (stuck | jump) & seen & scaling.ready
            moved = accustom(moved, values, jump, seen & scaling.ready, self.gate)
            moved = new_level(moved, values, jump & ~stuck & seen, seen & ~doubted)
            moved = come_home(moved, values, seen)
        moved = self._move(moved, values, seen & ~doubted & scaling.ready)
        new = seen & ~scaling.ready
        if not new.any():
            return moved, doubted
        early, count = scaling.early.copy(), moved.count.copy()
        early[count[new].astype(int), np.flatnonzero(new)] = values[new]
        count[new] += 1.0
        moved = replace(moved, early=early, count=count)
        return begin(moved, new & (count >= self.warmup)), doubted

    def transform_stream(
        self, ys: ArrayLike, scaling: Scaling | None = None
    ) -> tuple[np.ndarray, Scaling]:
        """The rows of `ys` (T, dy) one after the other: the numbers of `step`, to the bit."""
        rows = np.asarray(ys, float)
        scaling = self.init(rows.shape[-1]) if scaling is None else scaling
        self._check(scaling, rows, 2)
        units = self.run(scaling, rows)
        return units.z, units.scalings[-1]

    def run(self, scaling: Scaling, rows: np.ndarray) -> Units:
        """`step` for each of the rows (T, dy), one after the other."""
        zs, scalings = np.empty(rows.shape), [scaling]
        for t, row in enumerate(rows):
            scaling, zs[t] = self.step(scaling, row)
            scalings.append(scaling)
        return Units.of(zs, scalings)

    def _move(self, scaling: Scaling, y: np.ndarray, seen: np.ndarray) -> Scaling:
        if not seen.any():
            return scaling
        mean, scale = scaling.mean, scaling.scale
        smooth = self._smoothness(scaling, y, seen)
        limit = math.inf if self.memory is None else smooth["memory"]
        count = np.where(seen, np.minimum(scaling.count + 1.0, limit), scaling.count)
        rate = np.where(seen, 1.0 / np.maximum(count, 1.0), 0.0)
        reach = self.clip * scale
        e = np.where(seen, np.clip(np.where(seen, y - mean, 0.0), -reach, reach), 0.0)
        variance = scale**2 + rate * (e**2 / clipped_square(self.clip) - scale**2)
        scale = np.where(seen, np.maximum(np.sqrt(variance), scaling.floor), scale)
        level = scaling.level + np.where(seen, _LEVEL * (y - scaling.level), 0.0)
        trusted = np.where(seen, y, scaling.trusted)
        trend = scaling.trend
        if self.memory is not None:
            slow = smooth["memory"] < STEADY
            trend = np.where(slow, trend + 0.25 * rate**2 * e, (1.0 - _CHANGE) * trend)
        return replace(
            scaling,
            mean=np.where(seen, mean + rate * e + trend, mean),
            trend=trend,
            scale=scale,
            count=count,
            level=level,
            trusted=trusted,
            **smooth,
        )

    def _smoothness(self, scaling: Scaling, y: np.ndarray, seen: np.ndarray) -> dict[str, Any]:
        """Memories that let each column move, from row to row, by a fair share of its scale."""
        if self.memory is None:
            return {}
        variance = scaling.scale**2
        square = np.minimum((y - scaling.trusted - scaling.trend) ** 2, 9.0 * variance)
        change = scaling.change + np.where(seen, _CHANGE * (square - scaling.change), 0.0)
        slow = change < 2.0 * _SMOOTH * variance
        memory = scaling.memory * np.where(slow, 1.0 - _PACE, 1.0 + _PACE)
        most = np.where(scaling.trending, min(STEADY - 1.0, self.memory), self.memory)
        memory = np.where(seen, np.clip(memory, _SHORTEST, most), scaling.memory)
        return {"change": change, "memory": memory}

    def _check(self, scaling: Scaling, y: ArrayLike, rank: int) -> np.ndarray:
        values = np.asarray(y, float)
        if values.ndim != rank or values.shape[-1] != len(scaling.mean):
            expected = ("T, " if rank == 2 else "") + str(len(scaling.mean))
            raise ValueError(f"y: got an array of shape {values.shape}, expected ({expected})")
        return values
