"""How good one-step predictions are, beside the guess that nothing changes.

A value is scored if it was observed, predicted, and not the first of its column; persistence
predicts the column's last value. Over all columns, errors are in each column's standard deviations,
so that units do not mix; a constant column has none and is left out there. The engine adds some
rows at a time, a report all rows at once: sums are taken in the order of the rows, so that they do
not depend on the cut, to the bit.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from rmcvi.app.run.speech import Refusal
from rmcvi.core.past import last_value
from rmcvi.core.remarks import PAUSE, WARM_UP, lost, remarks

_SUMS = ("seen", "scored", "error", "repeat", "inside", "total", "square", "lost", "lost_at_end")


class Judged(NamedTuple):
    """Values (rows, columns) against their predictions and against the values before them."""

    scored: np.ndarray
    error: np.ndarray
    """Of the prediction, whether it is scored or not; NaN without one."""
    persistence: np.ndarray
    """The same of the last value."""
    inside: np.ndarray
    """Whether the value is in its interval."""
    lost: np.ndarray
    """Whether a value should have been predicted, after the warm-up, and was not."""


def _added(total: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """The sum with one term after the other, (rows, ...), added to it."""
    return np.cumsum(np.concatenate([total[None], terms]), 0)[-1]


def is_new_episode(row: int, last: int | None) -> bool:
    """Whether an alarm at a row, raised `last` at another one, begins an episode."""
    return last is None or row - last > PAUSE


class RunningScores:
    """Sums per column."""

    def __init__(self, columns: list[str], plain: dict[str, Any] | None = None):
        self.columns, size = columns, len(columns)
        self.rows, self.score, self.values = 0, 0.0, 0
        self.alarms: dict[str, int] = {}
        """Episodes of each sentence; within one it is silent for at most `PAUSE` rows."""
        self._raised: dict[str, int] = {}
        self.recoveries = 0
        """Rows on which the learner went back to a sound state."""
        self._sums = {name: np.zeros(size) for name in _SUMS}
        self._last = np.full(size, np.nan)
        self._origin = np.full(size, np.nan)
        if plain is not None:
            try:
                self._restore(plain)
            except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
                message = "checkpoint: its scores are not as `learn` writes them"
                raise Refusal(f"{message}; `rmcvi learn --force` starts anew") from None

    def add(self, y: np.ndarray, estimates: Any) -> None:
        """Rows and what was predicted of them (`Estimates`)."""
        before = self.rows
        self.add_rows(y, estimates.mean, estimates.low, estimates.high, estimates.log_score)
        self.recoveries = int(estimates.recoveries[-1])
        for row, sentences in enumerate(estimates.alarms, before + 1):
            if sentences:
                self._forget(row - 1)
                for sentence in dict.fromkeys(sentences):
                    if is_new_episode(row, self._raised.get(sentence)):
                        self.alarms[sentence] = self.alarms.get(sentence, 0) + 1
                    self._raised[sentence] = row
        self._forget(self.rows)

    def _forget(self, row: int) -> None:
        """A service that runs for years keeps what goes on, no more."""
        going = self._raised.items()
        self._raised = {s: last for s, last in going if not is_new_episode(row, last)}

    def add_rows(
        self,
        value: np.ndarray,
        mean: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        log_score: np.ndarray,
    ) -> Judged:
        """Rows (rows, columns) and their predictions; says how each value fared."""
        sums, seen = self._sums, np.isfinite(value)
        finite = np.isfinite(log_score)
        self.rows += len(value)
        terms = np.where(finite, log_score, 0.0)[:, None]
        self.score = float(_added(np.array([self.score]), terms)[0])
        self.values += int(seen[finite].sum())
        predicted = np.isfinite(mean)
        whole = predicted & np.isfinite(low) & np.isfinite(high)
        warm = sums["seen"] + np.cumsum(seen, 0) - seen >= WARM_UP
        last = last_value(value, self._last)
        scored = seen & predicted & ~np.isnan(last)
        inside = (value >= low) & (value <= high)
        judged = Judged(scored, value - mean, value - last, inside, seen & ~whole & warm)
        self._add(value, seen, judged)
        return judged

    def _add(self, value: np.ndarray, seen: np.ndarray, judged: Judged) -> None:
        sums, scored, missed = self._sums, judged.scored, judged.lost
        later = np.cumsum((seen & ~missed)[::-1], 0)[::-1] == 0  # no prediction from here on
        at_end = (missed & later).sum(0)
        sums["lost_at_end"] = at_end + np.where(later.all(0), sums["lost_at_end"], 0.0)
        sums["lost"] += missed.sum(0)
        sums["seen"] += seen.sum(0)
        sums["scored"] += scored.sum(0)
        sums["error"] = _added(sums["error"], np.where(scored, judged.error**2, 0.0))
        sums["repeat"] = _added(sums["repeat"], np.where(scored, judged.persistence**2, 0.0))
        sums["inside"] += (scored & judged.inside).sum(0)
        if not len(value):
            return
        if np.isnan(self._origin).any():
            first = np.take_along_axis(value, seen.argmax(0)[None], 0)[0]
            self._origin = np.where(np.isnan(self._origin), first, self._origin)
        away = np.where(seen, value - self._origin, 0.0)
        sums["total"] = _added(sums["total"], away)
        sums["square"] = _added(sums["square"], away**2)
        self._last = np.where(seen[-1], value[-1], last_value(value, self._last)[-1])

    @property
    def lost(self) -> bool:
        """Whether a column has lost its predictions."""
        return any(map(lost, self.by_column().values()))

    @property
    def better(self) -> float:
        """Share of persistence's root mean square error that is left; NaN before any."""
        overall = self.overall()
        return (overall["rmse"] or math.nan) / (overall["persistence_rmse"] or math.nan)

    def overall(self) -> dict[str, float | None]:
        """All columns together; errors in standard deviations of their columns."""
        sums, variance = self._sums, self.variance()
        usable = variance > 0.0
        number = float(sums["scored"][usable].sum())
        unit = np.where(usable, variance, 1.0)

        def rmse(name: str) -> float | None:
            total = float((sums[name] / unit)[usable].sum())
            return math.sqrt(total / number) if number else None

        shift = float((sums["seen"] * np.log(np.sqrt(unit))).sum())
        inside, scored = float(sums["inside"].sum()), float(sums["scored"].sum())
        return {
            "rmse": rmse("error"),
            "persistence_rmse": rmse("repeat"),
            "coverage": inside / scored if scored else None,
            "log_score": self.score / self.values if self.values else None,
            "log_score_standard": (self.score + shift) / self.values if self.values else None,
        }

    def by_column(self) -> dict[str, dict[str, Any]]:
        """Errors in the units of each column."""
        columns = {}
        per_value = self.score / self.values if self.values else None
        for i, name in enumerate(self.columns):
            sums = {k: float(v[i]) for k, v in self._sums.items()}
            n = sums["scored"]
            columns[name] = {
                "rmse": math.sqrt(sums["error"] / n) if n else None,
                "persistence_rmse": math.sqrt(sums["repeat"] / n) if n else None,
                "coverage": sums["inside"] / n if n else None,
                "log_score": per_value if len(self.columns) == 1 else None,
                "values": int(sums["seen"]),
                "scored": int(n),
                "lost_predictions": int(sums["lost"]),
                "lost_at_end": int(sums["lost_at_end"]),
                "missing": 1.0 - sums["seen"] / self.rows if self.rows else None,
            }
        return columns

    def summary(self, seconds: float | None, counts: dict[str, Any]) -> dict[str, Any]:
        """Everything in `summary.json`."""
        values = int(self._sums["seen"].sum())
        cells = self.rows * len(self.columns)
        columns = self.by_column()
        return {
            "rows": self.rows,
            "values": values,
            "missing_share": 1.0 - values / cells if cells else None,
            "columns": columns,
            "overall": self.overall(),
            "lost_predictions": sum(column["lost_predictions"] for column in columns.values()),
            "recoveries": self.recoveries,
            "remarks": remarks(columns, self.recoveries),
            "alarms": self.alarms,
            "source": counts,
            "seconds": seconds,
            "rows_per_second": self.rows / seconds if seconds else None,
        }

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, to the bit."""
        return {
            "rows": self.rows,
            "score": self.score,
            "values": self.values,
            "alarms": self.alarms,
            "raised": self._raised,
            "recoveries": self.recoveries,
            "last": self._last.tolist(),
            "origin": self._origin.tolist(),
            "sums": {name: v.tolist() for name, v in self._sums.items()},
        }

    def _restore(self, plain: dict[str, Any]) -> None:
        self.rows, self.score = int(plain["rows"]), float(plain["score"])
        self.values = int(plain["values"])
        self.alarms = {str(sentence): int(n) for sentence, n in dict(plain["alarms"]).items()}
        # 0.1 kept a list, the alarms of the last row
        raised: Any = plain["raised"]
        ages = raised if isinstance(raised, dict) else {sentence: self.rows for sentence in raised}
        self._raised = {str(sentence): int(row) for sentence, row in ages.items()}
        self.recoveries = int(plain.get("recoveries", 0))
        shape = len(self.columns)
        self._last = np.array(plain["last"], float).reshape(shape)
        self._origin = np.array(plain["origin"], float).reshape(shape)
        self._sums |= {n: np.array(v, float).reshape(shape) for n, v in plain["sums"].items()}

    def variance(self) -> np.ndarray:
        """Of the values seen, by column; 0 of a constant one."""
        n = np.maximum(self._sums["seen"], 1.0)
        return np.maximum(self._sums["square"] / n - (self._sums["total"] / n) ** 2, 0.0)
