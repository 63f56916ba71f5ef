"""Running scores of one-step predictions, against the guess that nothing changes."""

import math
from typing import Any

import numpy as np

from rmcvi.app.run.refusal import Refusal
from rmcvi.core.remarks import PAUSE, WARM_UP, lost, remarks

_SUMS = ("seen", "scored", "error", "repeat", "inside", "total", "square", "lost", "lost_at_end")


class Scores:
    """Sums per column; errors and coverage over values that persistence could predict, too."""

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

    def add(self, y: np.ndarray, told: Any) -> None:
        """One row and what was told of it."""
        self.rows += 1
        seen = np.isfinite(y)
        if math.isfinite(told.log_score):
            self.score += told.log_score
            self.values += int(seen.sum())
        self._raise(told.alarms)
        self.recoveries = told.recoveries
        sums = self._sums
        told_of = np.isfinite(told.mean) & np.isfinite(told.low) & np.isfinite(told.high)
        missed = seen & ~told_of & (sums["seen"] >= WARM_UP)
        sums["lost"] += missed
        sums["lost_at_end"] = np.where(
            seen, np.where(missed, sums["lost_at_end"] + 1.0, 0.0), sums["lost_at_end"]
        )
        both = seen & np.isfinite(told.mean) & ~np.isnan(self._last)
        sums["seen"] += seen
        sums["scored"] += both
        sums["error"] += np.where(both, (told.mean - y) ** 2, 0.0)
        sums["repeat"] += np.where(both, (self._last - y) ** 2, 0.0)
        sums["inside"] += both & (y >= told.low) & (y <= told.high)
        new = np.isnan(self._origin)
        if new.any():
            self._origin = np.where(new & seen, y, self._origin)
        away = np.where(seen, y - self._origin, 0.0)
        sums["total"] += away
        sums["square"] += away**2
        self._last = np.where(seen, y, self._last)

    def _raise(self, alarms: tuple[str, ...]) -> None:
        for sentence in dict.fromkeys(alarms):
            if sentence not in self._raised:
                self.alarms[sentence] = self.alarms.get(sentence, 0) + 1
            self._raised[sentence] = self.rows
        if self._raised:
            going = self._raised.items()
            self._raised = {s: row for s, row in going if self.rows - row < PAUSE}

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
        sums, variance = self._sums, self._variance()
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
        told = {}
        for i, name in enumerate(self.columns):
            sums = {k: float(v[i]) for k, v in self._sums.items()}
            n = sums["scored"]
            told[name] = {
                "rmse": math.sqrt(sums["error"] / n) if n else None,
                "persistence_rmse": math.sqrt(sums["repeat"] / n) if n else None,
                "coverage": sums["inside"] / n if n else None,
                "log_score": None,
                "values": int(sums["seen"]),
                "scored": int(n),
                "lost_predictions": int(sums["lost"]),
                "lost_at_end": int(sums["lost_at_end"]),
                "missing": 1.0 - sums["seen"] / self.rows if self.rows else None,
            }
        return told

    def summary(self, seconds: float, counts: dict[str, Any]) -> dict[str, Any]:
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
            "lost_predictions": sum(told["lost_predictions"] for told in columns.values()),
            "recoveries": self.recoveries,
            "remarks": remarks(columns, self.recoveries),
            "alarms": self.alarms,
            "source": counts,
            "seconds": seconds,
            "rows_per_second": self.rows / seconds if seconds > 0.0 else None,
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

    def _variance(self) -> np.ndarray:
        n = np.maximum(self._sums["seen"], 1.0)
        return np.maximum(self._sums["square"] / n - (self._sums["total"] / n) ** 2, 0.0)
