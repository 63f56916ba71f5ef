"""What the page says of a run's scores: episodes, curves, summary.

The rules are those of `rmcvi.app.run.scores`.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from rmcvi.app.run.directory import SUMMARY
from rmcvi.app.run.estimates import Run
from rmcvi.app.run.scores import RunningScores, is_new_episode
from rmcvi.core.files import replace, to_json

GRID = 800
"""Points of a curve at most."""
FEWEST = 20
"""Values below which a share is not worth drawing."""


@dataclass(frozen=True)
class Episode:
    """One sentence without a long pause; `first` and `last` are indices of rows."""

    sentence: str
    first: int
    last: int
    rows: int


def episodes(alarms: dict[str, list[int]]) -> list[Episode]:
    """All episodes, by their beginning."""
    found = []
    for sentence, rows in alarms.items():
        first, last, count = rows[0], rows[0], 0
        for row in rows:
            if is_new_episode(row, last):
                found.append(Episode(sentence, first, last, count))
                first, count = row, 0
            last, count = row, count + 1
        found.append(Episode(sentence, first, last, count))
    return sorted(found, key=lambda episode: (episode.first, episode.sentence))


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


def refresh(directory: Path, run: Run, scores: Scores) -> dict[str, Any]:
    """The summary, written if it was missing, unreadable or of fewer or more rows."""
    path = directory / SUMMARY
    kept = _kept(path)
    if kept.get("rows") == run.rows and isinstance(kept.get("overall"), dict):
        return kept
    summary = summarise(run, scores)
    text = to_json(summary, indent=1, ensure_ascii=False)
    replace(path, f"{text}\n".encode("utf-8", "replace"))
    return summary


def _kept(path: Path) -> dict[str, Any]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def thin(scores: Scores, every: int) -> np.ndarray:
    """Indices of the rows that are kept: the largest |z| of each `every`, the last of the rest."""
    rows = len(scores.z)
    if every <= 1:
        return np.arange(rows)
    away = np.abs(np.where(np.isfinite(scores.z), scores.z, 0.0)).max(1, initial=0.0)
    parts = rows // every
    best = away[: parts * every].reshape(parts, every).argmax(1) + np.arange(parts) * every
    tail = [rows - 1] if rows > parts * every else []
    return np.concatenate([best, np.array(tail, best.dtype)])


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
