"""From times to step lengths: dt = (time - time before) / usual step, gaps filled or told."""

import math
from dataclasses import dataclass

import numpy as np

from rmcvi.data._observation import Vector

GAPS = ("auto", "rows", "dt", "ignore")
FILL_LIMIT = 1000
"""Longest gap, in rows, that is filled by missing rows; a longer one becomes one long step."""


def whole_steps(ratio: float) -> int | None:
    """The whole number that `ratio` is up to jitter: a tenth of it, at most a quarter of a step.

    Wide enough for calendar months, which differ by a tenth.
    """
    number = round(ratio) if math.isfinite(ratio) else 0
    close = abs(ratio - number) <= min(0.1 * number, 0.25)
    return number if number >= 1 and close else None


def usual_step(times: Vector) -> tuple[float | None, bool]:
    """The median positive difference, and whether nine in ten are whole multiples of it."""
    differences = np.diff(times)
    forward = differences[differences > 0.0]
    if not len(forward):
        return None, False
    step = float(np.median(forward))
    whole = sum(whole_steps(d / step) is not None for d in forward.tolist())
    return step, whole >= 0.9 * len(forward)


@dataclass
class Clock:
    """The time of the last row, and what a new one means.

    `gaps` is 'rows': missing rows fill a gap of whole steps up to `limit` rows, other gaps are one
    long step; 'dt': every gap is one long step; 'ignore': every step is a usual one.
    """

    step: float | None
    gaps: str
    limit: int = FILL_LIMIT
    last: float | None = None

    def order(self, time: float) -> str | None:
        """'repeated' or 'backward' if the time does not move on."""
        if self.last is None or time > self.last:
            return None
        return "repeated" if time == self.last else "backward"

    def absent(self, time: float) -> bool:
        """Whether a missing row, one usual step after the last, comes before `time`."""
        if self.gaps != "rows" or self.step is None or self.last is None:
            return False
        number = whole_steps((time - self.last) / self.step)
        return number is not None and 1 < number <= self.limit + 1

    def fill(self) -> float:
        """Move on to the next missing row and return its time."""
        assert self.step is not None and self.last is not None
        self.last += self.step
        return self.last

    def tick(self, time: float | None) -> float:
        """Move on to a row and return its dt; an unknown time is one usual step later."""
        dt = 1.0
        if time is None:
            if self.last is not None and self.step is not None:
                self.last += self.step
            return dt
        if self.last is not None and self.step is not None and time > self.last:
            ratio = (time - self.last) / self.step
            near = self.gaps == "rows" and whole_steps(ratio) == 1
            dt = 1.0 if near or self.gaps == "ignore" else ratio
        self.last = time
        return dt
