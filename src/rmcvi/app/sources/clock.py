"""Times: the usual step of a stream, what the times of its rows mean by it, and calendar inputs.

A step is a fixed length, or a number of months in the calendar. With A_M the day of month M to
which the stream keeps, a time in M is at M + (time - A_M) / length of M, in months; end of month
stays end of month. From a row to the next, dt = steps between their times; gaps are filled, or are
one long step. Calendar inputs are sin and cos of 2 pi h (time - origin) / period, h = 1, ...,
harmonics.
"""

import math
from calendar import monthrange
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from rmcvi.app.sources.cells import EPOCH, duration
from rmcvi.app.sources.observation import Vector
from rmcvi.core.checks import check_int, check_option, check_real

_DAY = 86400.0
_MONTH = 27.0 * _DAY
"""Shorter steps are no months; the shortest month has 28 days, one of them for jitter."""
_JITTER = 0.1
"""Share of a step by which a time may be early or late."""
_MONTH_JITTER = 0.25
"""The same for months: a week, for last working days."""

_EXACT = 0.005
"""Mean misfit above which steps of a month or more have no fixed length."""
GAPS = ("auto", "rows", "dt", "ignore")
FILL_LIMIT = 1000
"""Longest gap, in rows, that is filled by missing rows; a longer one becomes one long step."""
SET_BACK = 100
"""Late rows, in order among themselves, after which the clock is taken to have been set back."""
CYCLES = {
    "hour": (_DAY, 0.0),
    "week": (7.0 * _DAY, 4.0 * _DAY),
    "month": (365.2425 / 12.0 * _DAY, 0.0),
    "year": (365.2425 * _DAY, 0.0),
}
"""Period and origin in seconds of the hour of the day, the day of the week (from Monday; 1970 began
on a Thursday) and the place in a mean month and year (a day off at most in a century)."""


def whole_steps(ratio: float, jitter: float = _JITTER) -> int | None:
    """The whole number that `ratio` is up to jitter: a share of it, at most a quarter of a step."""
    number = round(ratio) if math.isfinite(ratio) else 0
    close = abs(ratio - number) <= min(jitter * number, 0.25)
    return number if number >= 1 and close else None


def whole_numbers(ratios: Vector, jitter: float = _JITTER) -> Vector:
    """`whole_steps` of many; 0 where there is none."""
    numbers = np.round(ratios)
    close = np.abs(ratios - numbers) <= np.minimum(jitter * numbers, 0.25)
    return np.where(close & (numbers >= 1.0), numbers, 0.0)


@dataclass(frozen=True)
class Step:
    """`size` seconds (or units of a plain number), or `months` months if that is not 0.

    `day` is the day of the month that steps of months keep to, in months that have it.
    """

    size: float
    months: int = 0
    day: int = 1

    def between(self, earlier: float, later: float) -> float:
        """The number of steps from a time to a later one; above 0."""
        if self.months:
            steps = (self._place(later) - self._place(earlier)) / self.months
            if steps > 0.0:
                return steps
        return (later - earlier) / self.size

    def whole(self, earlier: float, later: float) -> int | None:
        """The same if it is a whole number, up to jitter."""
        jitter = _MONTH_JITTER if self.months else _JITTER
        return whole_steps(self.between(earlier, later), jitter)

    def after(self, time: float, count: int = 1) -> float:
        """The time that many steps later."""
        if self.months:
            try:
                moment = _moment(time)
                month = 12 * moment.year + moment.month - 1 + count * self.months
                clock = time - _start(moment.year, moment.month) - _DAY * (moment.day - 1)
                return self._anchor(month // 12, month % 12 + 1) + clock
            except (ValueError, OverflowError):
                pass  # beyond the year 9999
        return time + self.size * count

    def describe(self, calendar: bool) -> str:
        """For people: '1 hour', '3 months', '1 year'."""
        if not self.months:
            return duration(self.size) if calendar else f"{self.size:g}"
        years = self.months % 12 == 0
        number, word = (self.months // 12, "year") if years else (self.months, "month")
        return f"{number} {word}{'' if number == 1 else 's'}"

    def _anchor(self, year: int, month: int) -> float:
        return _start(year, month) + _DAY * (min(self.day, _length(year, month)) - 1)

    def _place(self, time: float) -> float:
        moment = _moment(time)
        year, month = moment.year, moment.month
        rest = (time - self._anchor(year, month)) / (_DAY * _length(year, month))
        return 12 * year + month + rest


def usual_step(times: Vector, calendar: bool = False) -> tuple[Step | None, bool]:
    """The median positive difference, and whether nine in ten are whole multiples of it.

    In `calendar` times, seconds since 1970, a long step is in months, unless days fit better.
    """
    pairs = [(a, b) for a, b in pairwise(times.tolist()) if b > a]
    if not pairs:
        return None, False
    step = Step(float(np.median([b - a for a, b in pairs])))
    if calendar and step.size >= _MONTH:
        months = _in_months(times.tolist(), pairs, step.size)
        fixed = _misfit(step, pairs)
        if months is not None and (fixed > _EXACT or _misfit(months, pairs) <= fixed):
            step = months
    whole = sum(step.whole(a, b) is not None for a, b in pairs)
    return step, whole >= 0.9 * len(pairs)


def _in_months(times: list[float], pairs: list[tuple[float, float]], size: float) -> Step | None:
    """The usual number of months, and the day of the month that fits most rows."""
    try:
        moments = [_moment(time) for time in times]
    except OverflowError:
        return None
    days = Counter(moment.day for moment in moments)

    def fitting(day: int) -> int:
        return sum(m.day == min(day, _length(m.year, m.month)) for m in moments)

    day = max((31, days.most_common(1)[0][0]), key=fitting)
    one = Step(size, 1, day)
    months = round(float(np.median([one.between(a, b) for a, b in pairs])))
    return Step(size, months, day) if months else None


def _misfit(step: Step, pairs: list[tuple[float, float]]) -> float:
    ratios = np.array([step.between(a, b) for a, b in pairs])
    return float(np.abs(ratios - np.round(ratios)).mean())


def _moment(time: float) -> datetime:
    return EPOCH + timedelta(seconds=time)


def _start(year: int, month: int) -> float:
    return (datetime(year, month, 1) - EPOCH).total_seconds()


def _length(year: int, month: int) -> int:
    return monthrange(year, month)[1]


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

    def kept(self) -> list[float | None]:
        """All that changes from row to row, as plain numbers."""
        return [self.last, float(self.allowance), self._late, float(self._run)]

    def restore(self, plain: Sequence[float | None]) -> None:
        """What `kept` gave."""
        self.last, (allowance, late, run) = plain[0], plain[1:]
        self.allowance, self._late, self._run = int(allowance or 0), float(late or 0), int(run or 0)

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

    def pass_over(self, time: float | None, count: int) -> None:
        """Move on by so many rows, each a usual step after the one before, to the last one's time.

        A row of unknown time leaves the time as it was, which is unknown, too.
        """
        self.allowance, self._run = min(self.allowance + count, self.limit), 0
        self.last = self.last if time is None else time

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


def calendar(
    time: ArrayLike | float | None, cycles: Sequence[str | float | int], harmonics: int = 1
) -> np.ndarray:
    """Sine and cosine of each cycle and harmonic, (..., 2 harmonics len(cycles)).

    Args:
        time: seconds since 1970, one or many, for named cycles ('hour', 'week', 'month', 'year');
            anything, a row counter for instance, for a period in the same unit. None or NaN is an
            unknown time: zeros, the mean of every cycle.
        cycles: names or periods.
        harmonics: waves per cycle.
    """
    check_int("harmonics", harmonics)
    times = np.asarray(np.nan if time is None else time, float)
    waves = [np.zeros((*times.shape, 0))]
    for cycle in cycles:
        period, origin = _period(cycle)
        phase = 2.0 * np.pi * (np.mod(times - origin, period) / period)
        angles = phase[..., None] * np.arange(1.0, harmonics + 1.0)
        pairs = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        waves.append(pairs.reshape(*times.shape, 2 * harmonics))
    return np.nan_to_num(np.concatenate(waves, axis=-1), nan=0.0)


def calendar_names(cycles: Sequence[str | float | int], harmonics: int = 1) -> tuple[str, ...]:
    """Names of the columns of `calendar`: 'hour sin 1', 'hour cos 1', ..."""
    check_int("harmonics", harmonics)
    return tuple(
        f"{cycle if isinstance(cycle, str) else f'{_period(cycle)[0]:g}'} {wave} {h}"
        for cycle in cycles
        for h in range(1, harmonics + 1)
        for wave in ("sin", "cos")
    )


def _period(cycle: str | float | int) -> tuple[float, float]:
    if isinstance(cycle, str):
        return CYCLES[check_option("cycles", cycle, CYCLES)]
    return check_real("cycles", cycle, 0.0), 0.0
