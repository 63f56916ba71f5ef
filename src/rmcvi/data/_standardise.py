"""Running mean m and scale s of each column: z_t = (y_t - m_{t-1}) / s_{t-1}, then update.

Statistics move after the row: nothing looks ahead, not even at the row itself. The first `warmup`
values of a column only teach and are NaN = not observed to whoever learns from z; their median and
median absolute deviation start the recursion. Then, with e = y - m clipped to k s and rate
a = 1 / min(n, memory),

    m <- m + a e,    v <- v + a (e^2 / c_k - v),    s = max(sqrt(v), floor),

where c_k = E min(Z^2, k^2), Z standard normal, makes s the standard deviation of clean Gaussian
data, and the floor, a hundredth of the first scale, is for sensors that stick.

A column that fails is an island: a value that is doubted is NaN to whoever learns from z, and
teaches nothing. Doubted is what lies more than `gate` s from the last trusted value, and what
repeats itself far longer than the column ever did. As many doubted jumps in a row as a `streak`
holds are no fault but a new level: m (and s, if the streak is much wider or narrower) moves so that
the new level stands where the old one stood, and z goes on as if nothing had happened.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rmcvi._core.checks import check_int, check_real
from rmcvi.data._errors import DataError
from rmcvi.data._observation import Vector

_FLOOR = 0.01
_NORMAL = 1.4826
"""Standard deviations in a median absolute deviation of normal data."""
_STREAK = 6
"""Doubted values in a row that are a new level."""
_LEVEL = 1.0 / 8.0
"""Rate of the recent level."""
_RENEWED = 50.0
"""Values that statistics are worth after a new level: they may have to change quickly."""
_NARROW = 100.0
"""Scales in a streak's spread beyond which its scale is another one; a walk's is a tenth."""
_SMOOTH = 0.05
"""One less the correlation of neighbours: of slower columns the memory shrinks, else it grows."""
_SHORTEST, _FIRST_MEMORY = 10.0, 30.0
"""The least memory, and the first."""
_STEADY = 100.0
"""Memory from which a column has no trend; it stays below while the trend matters."""
_PACE, _CHANGE = 0.01, 0.02
"""Share of its memory by which it changes per value, and rate of the mean square change."""
_WIDE = 10.0
"""Scales in a streak's spread beyond which the old scale is remembered: it may come back."""
_REPEATS, _LONGER = 10.0, 3.0
"""A run of repeats is doubted beyond these many, and so many times the longest one before."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """Statistics so far; a column that is not `ready` has NaN for mean and scale."""

    mean: Vector
    scale: Vector
    count: Vector
    """Values that the mean averages, at most the memory."""
    floor: Vector
    """Smallest scale."""
    early: np.ndarray
    """The values of the warm-up, (warmup, dy), NaN where there is none yet."""
    trusted: Vector
    """The last value that was not doubted."""
    level: Vector
    """Running mean of the last few of them."""
    streak: np.ndarray
    """Jumps that were doubted since then, (streak, dy), NaN where there is none."""
    home: np.ndarray
    """Mean and scale before the scale was widened, and values in a row near them, (3, dy)."""
    latest: Vector
    """The last value, doubted or not."""
    run: Vector
    """Repeats of it."""
    longest: Vector
    """The longest run of repeats that ended."""
    change: Vector
    """Mean square of the change from row to row."""
    memory: Vector
    """Values that mean and scale remember."""
    trend: Vector
    """What the mean moves by from value to value, in columns of short memory."""
    frozen: bool = False

    @property
    def ready(self) -> np.ndarray:
        """Columns with statistics."""
        return ~np.isnan(self.mean)

    def transform(self, y: ArrayLike) -> np.ndarray:
        """Raw to standard units, for (dy,) or (..., dy)."""
        return (np.asarray(y, float) - self.mean) / self.scale

    def inverse(self, z: ArrayLike) -> np.ndarray:
        """Standard to raw units: the inverse of `transform`."""
        return self.mean + self.scale * np.asarray(z, float)

    def inverse_scale(self, spread: ArrayLike | float) -> np.ndarray:
        """Standard deviations, or other lengths, in raw units."""
        return self.scale * np.asarray(spread, float)

    def inverse_interval(self, low: ArrayLike, high: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Intervals in raw units."""
        return self.inverse(low), self.inverse(high)

    def log_jacobian(self, y: ArrayLike) -> float:
        """What to add to log p(z) for log p(y): minus the log scales of the observed columns."""
        seen = ~np.isnan(self.transform(y))
        return -float(np.log(self.scale, where=seen, out=np.zeros_like(self.scale)).sum())

    def freeze(self) -> "Scaling":
        """The same, never to move again; a warm-up ends with the values it has."""
        return replace(_begin(self, ~self.ready), frozen=True)

    def to_json(self) -> dict[str, Any]:
        """Plain lists, None for NaN; floats survive to the bit."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "frozen"}
        return {**{k: _plain(v.tolist()) for k, v in arrays.items()}, "frozen": self.frozen}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Scaling":
        """The inverse of `to_json`."""
        try:
            arrays = {k: np.array(v, float) for k, v in plain.items() if k != "frozen"}
            size = len(arrays["mean"])
            wide = {k: arrays[k].reshape(-1, size) for k in ("early", "streak", "home")}
            return cls(**{**arrays, **wide}, frozen=bool(plain["frozen"]))
        except (KeyError, TypeError, ValueError):
            message = "scaling: got something that Scaling.to_json did not write"
            raise DataError(message) from None


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
        early, streak, home = (np.full((n, dim), np.nan) for n in (self.warmup, _STREAK, 3))
        return Scaling(
            *(unknown, unknown, zero, zero, early),
            *(unknown, unknown, streak, home, unknown, zero, zero),
            *(unknown, np.full(dim, _FIRST_MEMORY), zero),
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
            moved, stuck = _repeats(scaling, values, seen)
            jump = np.abs(values - scaling.trusted) > self.gate * scaling.scale
            doubted = (stuck | jump) & seen & scaling.ready
            moved = _new_level(moved, values, jump & ~stuck & seen, seen & ~doubted)
            moved = _come_home(moved, values, seen)
        moved = self._move(moved, values, seen & ~doubted & scaling.ready)
        new = seen & ~scaling.ready
        if not new.any():
            return moved, doubted
        early, count = scaling.early.copy(), moved.count.copy()
        early[count[new].astype(int), np.flatnonzero(new)] = values[new]
        count[new] += 1.0
        moved = replace(moved, early=early, count=count)
        return _begin(moved, new & (count >= self.warmup)), doubted

    def transform_stream(
        self, ys: ArrayLike, scaling: Scaling | None = None
    ) -> tuple[np.ndarray, Scaling]:
        """The rows of `ys` (T, dy) one after the other: the numbers of `step`, to the bit."""
        rows = np.asarray(ys, float)
        scaling = self.init(rows.shape[-1]) if scaling is None else scaling
        self._check(scaling, rows, 2)
        zs = np.empty(rows.shape)
        for t, row in enumerate(rows):
            scaling, zs[t] = self.step(scaling, row)
        return zs, scaling

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
        variance = scale**2 + rate * (e**2 / _consistency(self.clip) - scale**2)
        scale = np.where(seen, np.maximum(np.sqrt(variance), scaling.floor), scale)
        level = scaling.level + np.where(seen, _LEVEL * (y - scaling.level), 0.0)
        trusted = np.where(seen, y, scaling.trusted)
        trend = scaling.trend
        if self.memory is not None:
            slow = smooth["memory"] < _STEADY
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
        trending = _STEADY * np.abs(scaling.trend) > 2.0 * scaling.scale
        most = np.where(trending, min(_STEADY - 1.0, self.memory), self.memory)
        memory = np.where(seen, np.clip(memory, _SHORTEST, most), scaling.memory)
        return {"change": change, "memory": memory}

    def _check(self, scaling: Scaling, y: ArrayLike, rank: int) -> np.ndarray:
        values = np.asarray(y, float)
        if values.ndim != rank or values.shape[-1] != len(scaling.mean):
            expected = ("T, " if rank == 2 else "") + str(len(scaling.mean))
            raise DataError(f"y: got an array of shape {values.shape}, expected ({expected})")
        return values


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return None if math.isnan(value) else value


def _consistency(clip: float) -> float:
    """c_k = E min(Z^2, k^2) for a standard normal Z."""
    tail = math.erfc(clip / math.sqrt(2.0))
    density = math.exp(-0.5 * clip**2) / math.sqrt(2.0 * math.pi)
    return 1.0 - tail - 2.0 * clip * density + clip**2 * tail


def _repeats(scaling: Scaling, y: np.ndarray, seen: np.ndarray) -> tuple[Scaling, np.ndarray]:
    """Count the repeats; and which columns repeat themselves far longer than ever before."""
    same = y == scaling.latest
    run, longest = np.where(same, scaling.run + 1.0, scaling.run), scaling.longest
    ended = seen & ~same & (run > longest)
    if ended.any():
        # A run teaches no more than it takes to be doubted, lest a stuck sensor become normal.
        most = _REPEATS + _LONGER * longest
        longest = np.where(ended, np.minimum(run, most), longest)
    run = np.where(seen & ~same, 0.0, run)
    latest = np.where(seen, y, scaling.latest)
    stuck = same & (run > _REPEATS + _LONGER * longest)
    return replace(scaling, latest=latest, run=run, longest=longest), stuck


def _new_level(scaling: Scaling, y: np.ndarray, jump: np.ndarray, trusted: np.ndarray) -> Scaling:
    """Gather jumps; move the statistics of columns whose streak is full."""
    if not jump.any() and np.isnan(scaling.streak[0]).all():
        return scaling
    streak = np.where(trusted, np.nan, scaling.streak)
    shifted = np.concatenate([np.where(jump, y, np.nan)[None], streak[:-1]])
    streak = np.where(jump, shifted, streak)
    full = jump & ~np.isnan(streak[-1])
    scaling = replace(scaling, streak=streak)
    return _relocate(scaling, full) if full.any() else scaling


def _relocate(scaling: Scaling, columns: np.ndarray) -> Scaling:
    """The new level stands where the old one stood."""
    names = ("mean", "scale", "count", "floor", "trusted", "level", "streak", "home")
    new = {name: getattr(scaling, name).copy() for name in names}
    for i in np.flatnonzero(columns):
        values, scale = scaling.streak[:, i], float(scaling.scale[i])
        middle = float(np.median(values))
        spread = _NORMAL * float(np.median(np.abs(values - middle)))
        if spread > scale or 0.0 < _NARROW * spread < scale:
            new["scale"][i] = spread
            new["floor"][i] = scaling.floor[i] * spread / scale
        if spread > _WIDE * scale and np.isnan(scaling.home[0, i]):
            new["home"][:, i] = scaling.mean[i], scale, 0.0
        stood = np.clip((scaling.level[i] - scaling.mean[i]) / scale, -3.0, 3.0)
        new["mean"][i] = middle - stood * new["scale"][i]
        new["trusted"][i], new["level"][i], new["streak"][:, i] = values[0], middle, np.nan
        new["count"][i] = min(scaling.count[i], _RENEWED)
    return replace(scaling, **new)


def _come_home(scaling: Scaling, y: np.ndarray, seen: np.ndarray) -> Scaling:
    """After a time of wide values: those of the narrow old scale would hardly be seen to move."""
    mean, scale, run = scaling.home
    if np.isnan(mean).all():
        return scaling
    near = np.abs(y - mean) < 5.0 * scale
    run = np.where(seen, np.where(near, run + 1.0, 0.0), run)
    back = run >= _STREAK
    floor = np.where(back, scaling.floor * scale / scaling.scale, scaling.floor)
    home = np.where(back, np.nan, np.stack([mean, scale, run]))
    return replace(
        scaling,
        mean=np.where(back, mean, scaling.mean),
        scale=np.where(back, scale, scaling.scale),
        floor=floor,
        level=np.where(back, y, scaling.level),
        home=home,
    )


def _begin(scaling: Scaling, columns: np.ndarray) -> Scaling:
    """Start the recursion of these columns from their early values, if they have any."""
    mean, scale, floor = scaling.mean.copy(), scaling.scale.copy(), scaling.floor.copy()
    level, trusted, change = (v.copy() for v in (scaling.level, scaling.trusted, scaling.change))
    for i in np.flatnonzero(columns & (scaling.count > 0.0)):
        values = scaling.early[:, i]
        values = values[~np.isnan(values)]
        mean[i] = np.median(values)
        scale[i] = _first_scale(values - mean[i], float(mean[i]))
        floor[i] = _FLOOR * scale[i]
        level[i] = trusted[i] = mean[i]
        change[i] = scale[i] ** 2
    moved = {"floor": floor, "level": level, "trusted": trusted, "change": change}
    return replace(scaling, mean=mean, scale=scale, **moved)


def _first_scale(deviations: np.ndarray, centre: float) -> float:
    """The robust scale of a few values; of constant ones a tenth of their size, or 1 at zero."""
    robust = _NORMAL * float(np.median(np.abs(deviations)))
    # Half the values repeat: the spread of the rest is all there is.
    spread = robust or float(np.sqrt(np.mean(deviations**2)))
    return spread if spread > 1e-9 * abs(centre) else 0.1 * abs(centre) or 1.0
