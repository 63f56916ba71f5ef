"""Curves over the rows, and calibration, from the scores of all rows."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from rmcvi.app.report.scores import Scores
from rmcvi.app.run.estimates import Run

GRID = 800
"""Points of a curve at most."""
FEWEST = 20
"""Values below which a share is not worth drawing."""


def grid(rows: int) -> np.ndarray:
    """Indices at which curves are drawn: the last of at most `GRID` equal parts of the rows."""
    parts = min(rows, GRID)
    return np.ceil(np.arange(1, parts + 1) * rows / max(parts, 1)).astype(int) - 1


def window(rows: int) -> int:
    """Rows over which shares and means are moving: a fortieth of the run, fifty at least."""
    return max(50, rows // 40)


def running_rmse(squares: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Root of the mean of all squares up to each index; rows (and columns) of NaN do not count."""
    total, count = _sums(squares)
    kept = np.full(len(total), np.nan)
    np.divide(total, count, out=kept, where=count > 0)
    return np.sqrt(kept)[at]


def moving_mean(values: np.ndarray, width: int, at: np.ndarray, fewest: int) -> np.ndarray:
    """Mean over the last `width` rows at each index, NaN where fewer than `fewest` are there."""
    total, count = (np.concatenate([[0.0], part]) for part in _sums(values))
    start = np.maximum(at + 1 - width, 0)
    number = count[at + 1] - count[start]
    kept = np.full(len(at), np.nan)
    np.divide(total[at + 1] - total[start], number, out=kept, where=number >= fewest)
    return kept


def _sums(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    table = values if values.ndim == 2 else values[:, None]
    known = np.isfinite(table)
    return np.cumsum(np.where(known, table, 0.0).sum(1)), np.cumsum(known.sum(1)).astype(float)


@dataclass(frozen=True)
class Calibration:
    """Levels and the shares of values inside, the four places where a value may fall, a histogram.

    Only `share` at the run's own level and the outer two `places` are free of an assumption: for
    the rest the halves of an interval are taken as those of a normal density.
    """

    levels: np.ndarray
    shares: np.ndarray
    places: np.ndarray
    """Shares below the interval, in its lower half, in its upper half, above."""
    histogram: np.ndarray
    """Shares of the probability integral transform in equal bins."""
    values: int


def calibrate(run: Run, scores: Scores, bins: int = 10) -> Calibration | None:
    """Calibration over all columns; None if there is too little to judge."""
    z = scores.z[np.isfinite(scores.z)]
    if z.size < FEWEST:
        return None
    normal = NormalDist()
    levels = np.unique(np.append(np.arange(0.05, 1.0, 0.05), run.level).round(6))
    edges = np.array([normal.inv_cdf(0.5 + level / 2) for level in levels])
    far = normal.inv_cdf(0.5 + run.level / 2)
    cuts = [-np.inf, -far, 0.0, far, np.inf]
    inner = [normal.inv_cdf(i / bins) for i in range(1, bins)]
    size = np.sort(np.abs(z))
    return Calibration(
        levels,
        np.searchsorted(size, edges * (1 + 1e-9), "right") / z.size,
        np.histogram(z, cuts)[0] / z.size,
        np.histogram(z, [-np.inf, *inner, np.inf])[0] / z.size,
        int(z.size),
    )
