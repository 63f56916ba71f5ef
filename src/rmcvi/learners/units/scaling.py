"""What is known of the units of each column, and how it begins."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rmcvi.core.moments import MEDIAN_TO_DEVIATION

Vector = NDArray[np.float64]

_FLOOR = 0.01
"""The smallest scale, in first ones."""
_FADE = 0.98
"""What is left of a trend after a row ahead."""
STEADY = 100.0
"""Memory from which a column has no trend; it stays below while the trend matters."""


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
    jumps: Vector
    """Share of the values that were jumps, of late."""
    frozen: bool = False

    @property
    def ready(self) -> np.ndarray:
        """Columns with statistics."""
        return ~np.isnan(self.mean)

    @property
    def trending(self) -> np.ndarray:
        """Columns whose trend matters: it moves them by their scale within a memory."""
        return STEADY * np.abs(self.trend) > 2.0 * self.scale

    def transform(self, y: ArrayLike) -> np.ndarray:
        """Raw to standard units, for (dy,) or (..., dy)."""
        return (np.asarray(y, float) - self.mean) / self.scale

    def inverse(self, z: ArrayLike) -> np.ndarray:
        """Standard to raw units: the inverse of `transform`."""
        return self.mean + self.scale * np.asarray(z, float)

    def inverse_ahead(self, z: ArrayLike) -> np.ndarray:
        """`inverse` for the rows that follow, (horizon, dy): a clear trend goes on, and fades."""
        ahead = np.asarray(z, float)
        path = np.cumsum(_FADE ** np.arange(len(ahead))) - 1.0
        return self.inverse(ahead) + path[:, None] * np.where(self.trending, self.trend, 0.0)

    def log_jacobian(self, y: ArrayLike) -> float:
        """What to add to log p(z) for log p(y): minus the log scales of the observed columns."""
        seen = ~np.isnan(np.asarray(y, float) + self.mean + self.scale)
        return -float(np.log(self.scale, where=seen, out=np.zeros_like(self.scale)).sum())

    def freeze(self) -> "Scaling":
        """The same, never to move again; a warm-up ends with the values it has."""
        return replace(begin(self, ~self.ready), frozen=True)

    def as_it_comes(self) -> "Scaling":
        """Values as they are, never to be scaled."""
        return replace(
            self, mean=np.zeros_like(self.mean), scale=np.ones_like(self.scale), frozen=True
        )

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
            raise ValueError(message) from None


def begin(scaling: Scaling, columns: np.ndarray) -> Scaling:
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
    robust = MEDIAN_TO_DEVIATION * float(np.median(np.abs(deviations)))
    # Half the values repeat: the spread of the rest is all there is.
    spread = robust or float(np.sqrt(np.mean(deviations**2)))
    return spread if spread > 1e-9 * abs(centre) else 0.1 * abs(centre) or 1.0


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return None if math.isnan(value) else value
