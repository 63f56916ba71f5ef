"""The alarms of many streams in words, each as in a run of its own."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rmcvi.app.run.scores import is_new_episode
from rmcvi.learners.episodes import Episodes
from rmcvi.learners.judged import Counted, Judged
from rmcvi.scale import Results

COUNT = "count"
"""In what is kept of a stream: its alarms so far."""


class Alarms:
    """What goes on in streams; of a stream in which nothing does, only how often something did."""

    def __init__(self, columns: list[str], sensitivity: float):
        self._columns, self._sensitivity = columns, sensitivity
        self._going: dict[str, Episodes] = {}
        self._raised: dict[str, dict[str, int]] = {}
        """Of a stream in which something goes on, the last row of each sentence."""
        self._counts: dict[str, int] = {}

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
                self._count(keys[i], numbers[i], told[i])
            elif now is not None and now.is_over(numbers[i]):
                del self._going[keys[i]]
                self._raised.pop(keys[i], None)
        return told

    def _count(self, key: str, row: int, sentences: tuple[str, ...]) -> None:
        """As a run does."""
        before = self._raised.get(key, {})
        raised = {told: last for told, last in before.items() if not is_new_episode(row, last)}
        for sentence in dict.fromkeys(sentences):
            self._counts[key] = self.count(key) + (sentence not in raised)
            raised[sentence] = row
        self._raised[key] = raised

    def count(self, key: str) -> int:
        """Alarms of a stream so far: one that goes on for many rows is one."""
        return self._counts.get(key, 0)

    def _begin(self, plain: dict[str, Any] | None = None) -> Episodes:
        return Episodes(self._columns, plain, self._sensitivity)

    @property
    def _limit(self) -> float:
        return 1.0 / (1.0 + self._sensitivity)

    def kept(self, key: str) -> dict[str, Any] | None:
        """What goes on in a stream, in plain values."""
        if key not in self._counts and key not in self._going:
            return None
        going = self._going[key].to_json() if key in self._going else {}
        return going | {COUNT: self.count(key), "raised": self._raised.get(key, {})}

    def recall(self, key: str, plain: dict[str, Any]) -> None:
        """What `kept` gave."""
        self._counts[key], self._raised[key] = plain.get(COUNT, 0), plain.get("raised", {})
        if "open" in plain:
            self._going[key] = self._begin(plain)

    def forget(self, key: str) -> None:
        """A stream leaves."""
        for known in (self._going, self._raised, self._counts):
            known.pop(key, None)


def _judged(y: np.ndarray, results: Results, limit: float) -> Judged:
    values, counts = np.where(np.isfinite(y), y, np.nan), results.counts
    kind = np.where(results.anomaly > limit, results.kind, 0.0).astype(int)
    about = (kind, results.anomaly, results.age, counts.dead > 0.0, values)
    band = (results.mean, results.low, results.high)
    counted = Counted(counts.since, counts.missing, counts.longest, counts.repeats)
    return Judged(*about, *band, flags=results.alarms, counted=counted)
