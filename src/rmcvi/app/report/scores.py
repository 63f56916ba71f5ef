"""What the page draws of a run's scores; the rules are those of `rmcvi.app.run.scores`."""

from collections import Counter
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from rmcvi.app.report.alarms import episodes
from rmcvi.app.run.estimates import Run
from rmcvi.app.run.scores import RunningScores


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
    total: RunningScores
    """Over all rows."""

    def squares(self, column: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Squared errors of learner and persistence for one column, or for all in one scale."""
        if column is not None:
            return self.error[:, column] ** 2, self.persistence[:, column] ** 2
        return (self.error / self.scale) ** 2, (self.persistence / self.scale) ** 2


def score(run: Run) -> Scores:
    """Errors of a run's predictions."""
    total = RunningScores(run.columns)
    judged = total.add_rows(run.value, run.mean, run.low, run.high, run.log_score)
    total.alarms = dict(Counter(episode.sentence for episode in episodes(run.alarms)))
    error, persistence, inside = (
        np.where(judged.scored, part, np.nan)
        for part in (judged.error, judged.persistence, judged.inside)
    )
    half = np.where(error > 0, run.high - run.mean, run.mean - run.low)
    width = NormalDist().inv_cdf(0.5 + run.level / 2)
    z = np.full(error.shape, np.nan)
    np.divide(error * width, half, out=z, where=judged.scored & (half > 0))
    variance = total.variance()
    scale = np.sqrt(np.where(variance > 0.0, variance, np.nan))
    return Scores(error, persistence, inside, scale, z, total)


def summarise(run: Run, scores: Scores, seconds: float | None = None) -> dict[str, Any]:
    """The numbers of `summary.json`, as far as the estimates tell them."""
    return scores.total.summary(seconds, {}) | {"level": run.level}
