"""How good the predictions were, beside those of persistence, over the same values.

A value is scored if it was observed, predicted, and not the first of its column. Persistence
predicts the column's last value. Over all columns, errors are in each column's standard
deviations, so that units do not mix; a constant column has none and is left out there.
"""

from collections import Counter
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from rmcvi.app.report.alarms import episodes
from rmcvi.app.run.estimates import Run
from rmcvi.core.remarks import WARM_UP, remarks


@dataclass(frozen=True)
class Scores:
    """Errors (rows, columns), NaN where not scored; `inside` is 1 or 0 likewise."""

    error: np.ndarray
    persistence: np.ndarray
    inside: np.ndarray
    scale: np.ndarray
    """Standard deviation of each column's observed values (NaN for a constant one)."""
    z: np.ndarray
    """Errors in standard deviations of the prediction, each half of its interval on its own,
    as if normal."""

    def squares(self, column: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Squared errors of learner and persistence for one column, or for all in one scale."""
        if column is not None:
            return self.error[:, column] ** 2, self.persistence[:, column] ** 2
        return (self.error / self.scale) ** 2, (self.persistence / self.scale) ** 2


def score(run: Run) -> Scores:
    """Errors of a run's predictions."""
    last = last_value(run.value)
    scored = ~np.isnan(run.value) & ~np.isnan(run.mean) & ~np.isnan(last)
    held = scored & ~np.isnan(run.low) & ~np.isnan(run.high)
    inside = (run.value >= run.low) & (run.value <= run.high)
    error = np.where(scored, run.value - run.mean, np.nan)
    half = np.where(error > 0, run.high - run.mean, run.mean - run.low)
    width = NormalDist().inv_cdf(0.5 + run.level / 2)
    z = np.full(error.shape, np.nan)
    np.divide(error * width, half, out=z, where=held & (half > 0))
    return Scores(
        error,
        np.where(scored, run.value - last, np.nan),
        np.where(held, inside, np.nan),
        np.array([_spread(column) for column in run.value.T]),
        z,
    )


def last_value(value: np.ndarray) -> np.ndarray:
    """For each row, the last value of each column before it (NaN if there is none)."""
    rows = np.arange(len(value))[:, None]
    seen = np.maximum.accumulate(np.where(np.isnan(value), -1, rows), 0)
    before = np.vstack([np.full((1, value.shape[1]), -1), seen[:-1]])[: len(value)]
    found = np.take_along_axis(value, np.maximum(before, 0), 0) if len(value) else value
    return np.where(before >= 0, found, np.nan)


def mean(values: np.ndarray) -> float | None:
    """The mean of what is finite, or None."""
    kept = values[np.isfinite(values)]
    return float(kept.mean()) if kept.size else None


def summarise(run: Run, scores: Scores, seconds: float | None = None) -> dict[str, Any]:
    """The numbers of `summary.json`."""
    observed = ~np.isnan(run.value)
    values = int(observed.sum())
    told = np.isfinite(run.log_score)
    counted = int(observed[told].sum())
    per_value = float(run.log_score[told].sum() / counted) if counted else None
    overall = _line(scores, None) | {"log_score": per_value}
    columns, lost = {}, lost_predictions(run)
    for i, name in enumerate(run.columns):
        line = _line(scores, i) | {"log_score": per_value if len(run.columns) == 1 else None}
        columns[name] = line | {
            "values": int(observed[:, i].sum()),
            "scored": int(np.isfinite(scores.error[:, i]).sum()),
            "lost_predictions": int(lost[:, i].sum()),
            "lost_at_end": _at_end(lost[observed[:, i], i]),
        }
    return {
        "rows": run.rows,
        "values": values,
        "missing_share": 1.0 - values / observed.size if observed.size else None,
        "level": run.level,
        "columns": columns,
        "overall": overall,
        "lost_predictions": int(lost.sum()),
        "remarks": remarks(columns),
        "alarms": dict(Counter(episode.sentence for episode in episodes(run.alarms))),
        "seconds": seconds,
        "rows_per_second": run.rows / seconds if seconds else None,
    }


def _line(scores: Scores, column: int | None) -> dict[str, Any]:
    learner, rival = (mean(part) for part in scores.squares(column))
    inside = scores.inside if column is None else scores.inside[:, column]
    return {
        "rmse": None if learner is None else learner**0.5,
        "persistence_rmse": None if rival is None else rival**0.5,
        "coverage": mean(inside),
    }


def lost_predictions(run: Run) -> np.ndarray:
    """Where a value (rows, columns) should have been predicted and was not."""
    seen = ~np.isnan(run.value)
    told = np.isfinite(run.mean) & np.isfinite(run.low) & np.isfinite(run.high)
    return seen & ~told & (np.cumsum(seen, 0) - seen >= WARM_UP)


def _at_end(lost: np.ndarray) -> int:
    """How many at the end of a column's values have no prediction."""
    return int(np.argmin(np.append(lost[::-1], False)))


def _spread(column: np.ndarray) -> float:
    kept = column[~np.isnan(column)]
    spread = float(kept.std()) if kept.size else 0.0
    return spread if spread > 0 else np.nan
