"""The alarms of many streams in words, each as in a run of its own."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rmcvi.learners.episodes import Episodes
from rmcvi.learners.judged import Counted, Judged
from rmcvi.scale import Results


class Alarms:
    """What goes on in streams; of a stream in which nothing does, nothing is remembered."""

    def __init__(self, columns: list[str], sensitivity: float):
        self._columns, self._sensitivity = columns, sensitivity
        self._going: dict[str, Episodes] = {}

    def sentences(
        self, keys: Sequence[str], numbers: Sequence[int], y: np.ndarray, results: Results
    ) -> list[tuple[str, ...]]:
        """Those of each row.

        Args:
            keys: whose rows they are.
            numbers: of the rows in their streams, from 1.
            y: their values.
            results: what was told of them.
        """
        judged = _judged(y, results, self._limit)
        told: list[tuple[str, ...]] = [()] * len(keys)
        for i, is_loud in enumerate(judged.loud.tolist()):
            now = self._going.get(keys[i])
            if is_loud and now is None:
                now = self._going[keys[i]] = self._begin()
            if now is not None and (is_loud or now.open):
                told[i] = now.tell(numbers[i], judged, i)
            elif now is not None and now.is_over(numbers[i]):
                del self._going[keys[i]]
        return told

    def _begin(self, plain: dict[str, Any] | None = None) -> Episodes:
        return Episodes(self._columns, plain, self._sensitivity)

    @property
    def _limit(self) -> float:
        return 1.0 / (1.0 + self._sensitivity)

    def kept(self, key: str) -> dict[str, Any] | None:
        """What goes on in a stream, in plain values."""
        return self._going[key].to_json() if key in self._going else None

    def recall(self, key: str, plain: dict[str, Any]) -> None:
        """What `kept` gave."""
        self._going[key] = self._begin(plain)

    def forget(self, key: str) -> None:
        """A stream leaves."""
        self._going.pop(key, None)


def _judged(y: np.ndarray, results: Results, limit: float) -> Judged:
    values, counts = np.where(np.isfinite(y), y, np.nan), results.counts
    kind = np.where(results.anomaly > limit, results.kind, 0.0).astype(int)
    about = (kind, results.anomaly, results.age, counts.dead > 0.0, values)
    band = (results.mean, results.low, results.high)
    counted = Counted(counts.since, counts.missing, counts.longest, counts.repeats)
    return Judged(*about, *band, flags=results.alarms, counted=counted)
