"""From times to step lengths: dt = steps since the row before, gaps filled or one long step."""

from dataclasses import dataclass, field

from rmcvi.app.sources.step import Step

GAPS = ("auto", "rows", "dt", "ignore")
FILL_LIMIT = 1000
"""Longest gap, in rows, that is filled by missing rows; a longer one becomes one long step."""
SET_BACK = 100
"""Late rows, in order among themselves, after which the clock is taken to have been set back."""


@dataclass
class Clock:
    """The time of the last row, and what a new one means.

    `gaps` is 'rows': missing rows fill a gap of whole steps, other gaps are one long step; 'dt':
    every gap is one long step; 'ignore': every step is a usual one. `allowance` is how many rows
    may be filled now: each row read adds one, up to `limit`, and each filled one takes one away, so
    that a few rows far apart cannot become millions.
    """

    step: Step | None
    gaps: str
    limit: int = FILL_LIMIT
    last: float | None = None
    allowance: int = FILL_LIMIT
    _late: float = field(default=0.0, repr=False)
    _run: int = field(default=0, repr=False)

    def order(self, time: float) -> str | None:
        """'repeated' or 'backward' if the time does not move on, 'set back' if it never will."""
        if self.last is None or time > self.last:
            self._run = 0
            return None
        self._run = self._run + 1 if self._run and time > self._late else 1
        self._late = time
        if self._run > SET_BACK:
            self.last, self._run = None, 0
            return "set back"
        return "repeated" if time == self.last else "backward"

    def absent(self, time: float) -> bool:
        """Whether a missing row, one usual step after the last, comes before `time`."""
        if self.gaps != "rows" or self.step is None or self.last is None or time <= self.last:
            return False
        number = self.step.whole(self.last, time)
        return number is not None and 1 < number <= self.allowance + 1

    def fill(self) -> float:
        """Move on to the next missing row and return its time."""
        assert self.step is not None and self.last is not None
        self.allowance -= 1
        self.last = self.step.after(self.last)
        return self.last

    def tick(self, time: float | None) -> float:
        """Move on to a row and return its dt; an unknown time is one usual step later."""
        dt = 1.0
        self.allowance = min(self.allowance + 1, self.limit)
        if time is None:
            if self.last is not None and self.step is not None:
                self.last = self.step.after(self.last)
            return dt
        if self.last is not None and self.step is not None and self.gaps != "ignore":
            number = self.step.whole(self.last, time) if self.gaps == "rows" else None
            dt = float(number or self.step.between(self.last, time))
        self.last = time
        return dt
