"""The usual step of a stream: a fixed length, or a number of months in the calendar.

With A_M the day of month M to which the stream keeps, a time in M is at M + (time - A_M) / length
of M, in months; end of month stays end of month.
"""

import math
from calendar import monthrange
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np

from rmcvi.app.sources.observation import Vector
from rmcvi.app.sources.times import EPOCH, duration

_DAY = 86400.0
_MONTH = 27.0 * _DAY
"""Shorter steps are no months; the shortest month has 28 days, one of them for jitter."""
_JITTER = 0.1
"""Share of a step by which a time may be early or late."""
_MONTH_JITTER = 0.25
"""The same for months: a week, for last working days."""

_EXACT = 0.005
"""Mean misfit above which steps of a month or more have no fixed length."""


def whole_steps(ratio: float, jitter: float = _JITTER) -> int | None:
    """The whole number that `ratio` is up to jitter: a share of it, at most a quarter of a step."""
    number = round(ratio) if math.isfinite(ratio) else 0
    close = abs(ratio - number) <= min(jitter * number, 0.25)
    return number if number >= 1 and close else None


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
