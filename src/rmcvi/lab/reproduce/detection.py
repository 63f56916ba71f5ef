"""How good is a detector of failures on a stream whose failures are known? Rows, windows, alarms.

A window is detected if an alarm is on in it; an episode, alarms with pauses of at most `PAUSE`
rows, is false if none of its rows lies in a window. The streaming score is that of the Numenta
benchmark in its standard profile (Lavin and Ahmad, 2015): with s(x) = 2 / (1 + exp(5 x)) - 1,

    first alarm in a window, at x = -(rows to its end, its own included) / width:  s(x) / s(-1)
    an alarm x widths after the last window's end:  .11 s(x); -.11 beyond three, or before any
    a window without an alarm:  -1

and the sum is scaled so that silence has 0 and an alarm at the start of every window 100. The first
15 % of the rows, 750 at most, are not judged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rmcvi.core.remarks import PAUSE

FALSE = 0.11
"""Cost of a false alarm's row in the standard profile."""
STEEP, FAR = 5.0, 3.0
"""Slope of the reward, and widths after a window beyond which an alarm costs all of it."""
UNJUDGED, MOST_UNJUDGED = 0.15, 750


@dataclass(frozen=True)
class Labelled:
    """Rows of a stream and the windows (first and last row, in order) in which it failed."""

    rows: int
    windows: Sequence[tuple[int, int]]
    months: float
    """Length of the stream."""

    @classmethod
    def of(cls, time: np.ndarray, windows: Sequence[tuple[float, float]]) -> "Labelled":
        """From the times of the rows and of the windows' ends, in seconds."""
        places = [np.flatnonzero((time >= a) & (time <= b)) for a, b in windows]
        month = 365.25 / 12 * 86400.0
        rows = [(int(p[0]), int(p[-1])) for p in places if len(p)]
        return cls(len(time), rows, float(time[-1] - time[0]) / month)

    @cached_property
    def window(self) -> np.ndarray:
        """The window of each row; -1 outside."""
        place = np.full(self.rows, -1)
        for k, (first, last) in enumerate(self.windows):
            place[first : last + 1] = k
        return place

    @cached_property
    def worth(self) -> np.ndarray:
        """What an alarm at each row is worth: in a window if it is the first, else a cost."""
        worth = np.full(self.rows, -FALSE)
        for first, last in self.windows:
            width = last - first + 1
            inside, after = np.arange(first, last + 1), np.arange(last + 1, self.rows)
            worth[inside] = _reward(-(last - inside + 1) / width) / _reward(np.array(-1.0))
            worth[after] = FALSE * _reward((after - last) / max(width - 1, 1))
        return worth

    @cached_property
    def judged(self) -> np.ndarray:
        """Whether a row is judged at all."""
        return np.arange(self.rows) >= int(min(UNJUDGED * self.rows, MOST_UNJUDGED))


def _reward(x: np.ndarray) -> np.ndarray:
    return np.where(x >= FAR, -1.0, 2.0 / (1.0 + np.exp(STEEP * np.minimum(x, FAR))) - 1.0)


def episodes(on: np.ndarray, pause: int = PAUSE) -> list[tuple[int, int]]:
    """First and last rows of the alarms, those with short pauses taken together."""
    rows = np.flatnonzero(on)
    ends = np.flatnonzero(np.diff(rows) > pause)
    starts = np.concatenate([rows[:1], rows[ends + 1]])
    return list(zip(starts.tolist(), np.concatenate([rows[ends], rows[-1:]]).tolist(), strict=True))


def onsets(on: np.ndarray) -> np.ndarray:
    """The first row of each episode alone."""
    first = np.zeros(len(on), bool)
    first[[start for start, _ in episodes(on)]] = True
    return first


@dataclass(frozen=True)
class Found:
    """What a detector did on one stream."""

    hits: int
    windows: int
    false: int
    """Episodes outside all windows."""
    months: float
    delays: tuple[float, ...]
    """Rows from a window's start to its first alarm, in widths."""
    score: float
    """Streaming score of the episodes' first rows, before it is scaled."""
    row_score: float
    """The same of all rows with an alarm, as the benchmark has it."""


def judge(on: np.ndarray, labelled: Labelled) -> Found:
    """Alarms (rows,) against the windows."""
    on = on & labelled.judged
    delays, place = [], labelled.window
    for k, (first, last) in enumerate(labelled.windows):
        rows = np.flatnonzero(on & (place == k))
        if len(rows):
            delays.append((rows[0] - first) / (last - first + 1))
    false = sum(1 for a, b in episodes(on) if (place[a : b + 1] < 0).all())
    scores = (streaming_score(rows, labelled) for rows in (onsets(on), on))
    windows = len(labelled.windows)
    return Found(len(delays), windows, false, labelled.months, tuple(delays), *scores)


def streaming_score(on: np.ndarray, labelled: Labelled) -> float:
    """The sum of the rewards and costs of alarms at these rows."""
    on, place, worth = on & labelled.judged, labelled.window, labelled.worth
    total = float(worth[on & (place < 0)].sum())
    for k in range(len(labelled.windows)):
        inside = on & (place == k)
        total += float(worth[inside].max()) if inside.any() else -1.0
    return total


def scaled(raw: float, windows: int) -> float:
    """0 for silence, 100 for an alarm at the start of every window and no other."""
    return 100.0 * (raw + windows) / (2.0 * windows)


def total(found: Sequence[Found]) -> Mapping[str, float | int]:
    """Over all streams."""
    windows, months = sum(f.windows for f in found), sum(f.months for f in found)
    delays = [d for f in found for d in f.delays]
    return {
        "hits": sum(f.hits for f in found),
        "windows": windows,
        "false": sum(f.false for f in found),
        "false_per_month": sum(f.false for f in found) / months,
        "delay": float(np.median(delays)) if delays else float("nan"),
        "score": scaled(sum(f.score for f in found), windows),
        "row_score": scaled(sum(f.row_score for f in found), windows),
    }


def sweep(
    scores: Mapping[str, np.ndarray], labelled: Mapping[str, Labelled], tried: np.ndarray
) -> list[dict[str, Found]]:
    """What is found on each stream with each threshold that is tried."""
    return [{n: judge(scores[n] >= t, labelled[n]) for n in scores} for t in tried]


def best(swept: Sequence[Mapping[str, Found]], names: Sequence[str], key: str) -> int:
    """The place of the threshold, one for all of these streams, with the best score `key`."""
    return int(np.argmax([total([found[n] for n in names])[key] for found in swept]))
