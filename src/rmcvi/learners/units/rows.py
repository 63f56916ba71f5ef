"""Rows in standard units, each by the statistics of those before it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rmcvi.learners.units.scaling import Scaling


@dataclass(frozen=True, eq=False)
class Units:
    """Rows, and what makes their units: arrays (rows, dy)."""

    z: np.ndarray
    """In standard units; NaN if doubted."""
    mean: np.ndarray
    scale: np.ndarray
    log_jacobian: np.ndarray
    """What to add to log p(z) for log p(y), (rows,)."""
    scalings: Sequence[Scaling]
    """Before each row, and after the last."""

    @classmethod
    def of(cls, z: np.ndarray, scalings: Sequence[Scaling]) -> "Units":
        """Rows with the statistics before each, and after the last."""
        before = scalings[:-1]
        return cls(
            z,
            np.array([s.mean for s in before]).reshape(z.shape),
            np.array([s.scale for s in before]).reshape(z.shape),
            np.array([s.log_jacobian(v) for s, v in zip(before, z, strict=True)]),
            scalings,
        )

    @classmethod
    def raw(cls, scaling: Scaling, rows: np.ndarray) -> "Units":
        """Rows that are taken as they are, with mean 0 and scale 1."""
        mean, scale = (np.broadcast_to(v, rows.shape) for v in (scaling.mean, scaling.scale))
        return cls(rows, mean, scale, np.full(len(rows), -0.0), [scaling] * (len(rows) + 1))

    def first(self, count: int) -> "Units":
        """Of the first rows alone."""
        z, mean, scale = self.z[:count], self.mean[:count], self.scale[:count]
        return Units(z, mean, scale, self.log_jacobian[:count], self.scalings[: count + 1])
