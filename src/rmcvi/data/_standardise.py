"""Running mean m and scale s of each column: z_t = (y_t - m_{t-1}) / s_{t-1}, then update.

Statistics move after the row: nothing looks ahead, not even at the row itself. The first `warmup`
values of a column only teach and are NaN = not observed to whoever learns from z; their median and
median absolute deviation start the recursion. Then, with e = y - m clipped to k s and rate
a = 1 / min(n, memory),

    m <- m + a e,    v <- v + a (e^2 / c_k - v),    s = max(sqrt(v), floor),

where c_k = E min(Z^2, k^2), Z standard normal, makes s the standard deviation of clean Gaussian
data, and the floor, a hundredth of the first scale, is for sensors that stick.
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
            early = arrays["early"].reshape(-1, len(arrays["mean"]))
            return cls(**{**arrays, "early": early}, frozen=bool(plain["frozen"]))
        except (KeyError, TypeError, ValueError):
            message = "scaling: got something that Scaling.to_json did not write"
            raise DataError(message) from None


@dataclass(frozen=True)
class Standardiser:
    """Running standardisation of streams with missing values, outliers and constants."""

    memory: int | None = None
    """Time constant of forgetting, in observed values of a column; None = never forget."""
    clip: float = 3.0
    """k: scales beyond which a value teaches no more than one at k."""
    warmup: int = 10
    """Values of a column before it is standardised."""

    def __post_init__(self):
        check_int("warmup", self.warmup, 2)
        check_real("clip", self.clip, 0.5)
        if self.memory is not None:
            check_int("memory", self.memory, self.warmup)

    def init(self, dim: int) -> Scaling:
        """Nothing known of `dim` columns."""
        unknown = np.full(dim, np.nan)
        early = np.full((self.warmup, dim), np.nan)
        return Scaling(unknown, unknown, np.zeros(dim), np.zeros(dim), early)

    def step(self, scaling: Scaling, y: ArrayLike) -> tuple[Scaling, np.ndarray]:
        """Standardise a row by what came before it, then learn from it."""
        values = self._check(scaling, y, 1)
        return self.update(scaling, values), scaling.transform(values)

    def update(self, scaling: Scaling, y: ArrayLike) -> Scaling:
        """The statistics after one more row."""
        values = self._check(scaling, y, 1)
        if scaling.frozen:
            return scaling
        seen = np.isfinite(values)
        moved = self._move(scaling, values, seen & scaling.ready)
        new = seen & ~scaling.ready
        if not new.any():
            return moved
        early, count = scaling.early.copy(), moved.count.copy()
        early[count[new].astype(int), np.flatnonzero(new)] = values[new]
        count[new] += 1.0
        moved = replace(moved, early=early, count=count)
        return _begin(moved, new & (count >= self.warmup))

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
        limit = math.inf if self.memory is None else float(self.memory)
        count = np.where(seen, np.minimum(scaling.count + 1.0, limit), scaling.count)
        rate = np.where(seen, 1.0 / np.maximum(count, 1.0), 0.0)
        reach = self.clip * scale
        e = np.where(seen, np.clip(np.where(seen, y - mean, 0.0), -reach, reach), 0.0)
        variance = scale**2 + rate * (e**2 / _consistency(self.clip) - scale**2)
        scale = np.where(seen, np.maximum(np.sqrt(variance), scaling.floor), scale)
        return replace(scaling, mean=mean + rate * e, scale=scale, count=count)

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


def _begin(scaling: Scaling, columns: np.ndarray) -> Scaling:
    """Start the recursion of these columns from their early values, if they have any."""
    mean, scale, floor = scaling.mean.copy(), scaling.scale.copy(), scaling.floor.copy()
    for i in np.flatnonzero(columns & (scaling.count > 0.0)):
        values = scaling.early[:, i]
        values = values[~np.isnan(values)]
        mean[i] = np.median(values)
        scale[i] = _first_scale(values - mean[i], float(mean[i]))
        floor[i] = _FLOOR * scale[i]
    return replace(scaling, mean=mean, scale=scale, floor=floor)


def _first_scale(deviations: np.ndarray, centre: float) -> float:
    """The robust scale of a few values; of constant ones a tenth of their size, or 1 at zero."""
    robust = _NORMAL * float(np.median(np.abs(deviations)))
    # Half the values repeat: the spread of the rest is all there is.
    spread = robust or float(np.sqrt(np.mean(deviations**2)))
    return spread if spread > 1e-9 * abs(centre) else 0.1 * abs(centre) or 1.0
