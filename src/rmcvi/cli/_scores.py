"""Running scores of one-step predictions, against the guess that nothing changes."""

import math
from typing import Any

import numpy as np

_SUMS = ("seen", "scored", "error", "repeat", "inside", "total", "square")


class Scores:
    """Sums per column; errors and coverage over values that persistence could predict, too."""

    def __init__(self, columns: list[str], plain: dict[str, Any] | None = None):
        self.columns, size = columns, len(columns)
        self.rows, self.score, self.values = 0, 0.0, 0
        self.alarms: dict[str, int] = {}
        self._raised: tuple[str, ...] = ()
        self._sums = {name: np.zeros(size) for name in _SUMS}
        self._last = np.full(size, np.nan)
        self._origin = np.full(size, np.nan)
        if plain is not None:
            self._restore(plain)

    def add(self, y: np.ndarray, told: Any) -> None:
        """One row and what was told of it."""
        self.rows += 1
        seen = np.isfinite(y)
        if math.isfinite(told.log_score):
            self.score += told.log_score
            self.values += int(seen.sum())
        for sentence in told.alarms:
            if sentence not in self._raised:
                self.alarms[sentence] = self.alarms.get(sentence, 0) + 1
        self._raised = told.alarms
        sums = self._sums
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

    def by_column(self) -> dict[str, dict[str, float | None]]:
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
                "values": sums["seen"],
                "missing": 1.0 - sums["seen"] / self.rows if self.rows else None,
            }
        return told

    def summary(self, seconds: float, counts: dict[str, Any]) -> dict[str, Any]:
        """Everything in `summary.json`."""
        values = int(self._sums["seen"].sum())
        cells = self.rows * len(self.columns)
        return {
            "rows": self.rows,
            "values": values,
            "missing_share": 1.0 - values / cells if cells else None,
            "columns": self.by_column(),
            "overall": self.overall(),
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
            "raised": list(self._raised),
            "last": self._last.tolist(),
            "origin": self._origin.tolist(),
            "sums": {name: v.tolist() for name, v in self._sums.items()},
        }

    def _restore(self, plain: dict[str, Any]) -> None:
        self.rows, self.score = plain["rows"], plain["score"]
        self.values, self.alarms = plain["values"], dict(plain["alarms"])
        self._raised = tuple(plain["raised"])
        self._last, self._origin = np.array(plain["last"]), np.array(plain["origin"])
        self._sums = {name: np.array(v) for name, v in plain["sums"].items()}

    def _variance(self) -> np.ndarray:
        n = np.maximum(self._sums["seen"], 1.0)
        return np.maximum(self._sums["square"] / n - (self._sums["total"] / n) ** 2, 0.0)
