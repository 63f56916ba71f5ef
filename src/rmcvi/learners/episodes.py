"""Alarms in words: which column, what happened, since which row.

A sentence does not change while what it says goes on, so that episodes can be counted by their
sentences. Rows are counted from 1.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rmcvi.learners.monitors import APART, OUTLYING, STUCK
from rmcvi.monitors.health import Alarm

CALM = 3
"""Values in their band, one after the other, that end an alarm."""
SETTLED = 4
"""Values outside their band after which a jump is a new level, or no level at all."""
TOGETHER = 4
"""Repeats of every column that make one frozen logger of many stuck sensors."""
DEAD, LONGER = 50, 4
"""Rows without a value that are long, if they are also so many times the longest gap before."""
ALL, LEARNER = -1, -2
"""In place of a column."""


@dataclass
class Episode:
    """One alarm that goes on."""

    kind: str
    since: int
    sentence: str
    before: float = np.nan
    """What was expected when it began."""
    outside: list[float] = field(default_factory=list)
    """The first values outside their band."""
    calm: int = 0


class _Counted(NamedTuple):
    """After each row, (rows, columns) or (rows,)."""

    since: np.ndarray
    """The row of the last change."""
    missing: np.ndarray
    """Rows without a value up to this one."""
    longest: np.ndarray
    """The longest gap that ended."""
    repeats: np.ndarray
    """Rows in which all columns that live were seen and none had changed."""


def _carried(values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The largest so far of `start` and the rows of `values`."""
    return np.maximum(np.maximum.accumulate(values, 0), start)


class Episodes:
    """What goes on, row by row; `to_json` is all of it."""

    def __init__(self, columns: list[str], plain: dict[str, Any] | None = None):
        self.columns, size = columns, len(columns)
        self.row = 0
        self.open: dict[int, Episode] = {}
        self._since = np.zeros(size)
        self._missing, self._longest = np.zeros(size), np.zeros(size)
        self._repeats = 0
        if plain is not None:
            self.row, self._repeats = int(plain["row"]), int(plain["repeats"])
            self.open = {int(i): Episode(**e) for i, e in plain["open"]}
            self._since, self._missing, self._longest = (
                np.array(plain[k], float).reshape(size) for k in ("since", "missing", "longest")
            )

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and words."""
        return {
            "row": self.row,
            "repeats": self._repeats,
            "open": [[i, asdict(e)] for i, e in self.open.items()],
            "since": self._since.tolist(),
            "missing": self._missing.tolist(),
            "longest": self._longest.tolist(),
        }

    def step(
        self,
        y: np.ndarray,
        last: np.ndarray,
        band: tuple[np.ndarray, ...],
        kind: np.ndarray,
        flags: np.ndarray,
    ) -> list[tuple[str, ...]]:
        """The sentences of each row; all arguments are (rows, columns), but for `flags`.

        Args:
            y: what was observed.
            last: the last values before it, NaN where there is none.
            band: prediction, low and high, in the units of the data.
            kind: why each column has failed, 0 if it has not.
            flags: the learner's alarms, (rows,).
        """
        counted = self._count(y, last)
        limit = np.maximum(DEAD, LONGER * counted.longest)
        dead = (counted.missing >= limit) & ~np.isnan(last)
        loud = (flags != 0) | kind.any(1) | dead.any(1)
        told: list[tuple[str, ...]] = [()] * len(y)
        begin = self.row + 1
        for t, is_loud in enumerate(loud.tolist()):
            if is_loud or self.open:
                self._go_to(begin + t, counted, t)
                bands = np.stack([part[t] for part in band], 1).tolist()
                told[t] = self._alarms(y[t].tolist(), bands, kind[t], dead[t], Alarm(int(flags[t])))
        if len(y):
            self._go_to(begin + len(y) - 1, counted, -1)
        return told

    def _count(self, y: np.ndarray, last: np.ndarray) -> "_Counted":
        """What is counted of each row, were it the last one."""
        rows = np.arange(1.0, len(y) + 1.0)[:, None]
        seen = np.isfinite(y)
        changed = seen & (y != last)
        missing = rows - _carried(np.where(seen, rows, -np.inf), -self._missing)
        before = np.concatenate([self._missing[None], missing])[:-1]
        longest = _carried(np.where(seen, before, 0.0), self._longest)
        since = _carried(np.where(changed, self.row + rows, 0.0), self._since)
        moved = changed.any(1)
        whole = (seen | (missing >= DEAD)).all(1)
        same = np.cumsum(whole & ~moved)
        repeats = same - _carried(np.where(moved, same, -np.inf), np.array(-self._repeats))
        return _Counted(since, missing, longest, repeats)

    def _go_to(self, row: int, counted: "_Counted", t: int) -> None:
        self.row, self._repeats = row, int(counted.repeats[t])
        self._since, self._missing = counted.since[t], counted.missing[t]
        self._longest = counted.longest[t]

    def _alarms(
        self,
        y: list[float],
        band: list[list[float]],
        kind: np.ndarray,
        dead: np.ndarray,
        flags: Alarm,
    ) -> tuple[str, ...]:
        """The sentences of the present row."""
        rest = flags & ~(Alarm.SENSOR | Alarm.UNSOUND | Alarm.LOST)
        self._together(kind == STUCK, dead)
        for i in range(len(self.columns)):
            self._column(i, int(kind[i]), bool(dead[i]), y[i], band[i])
        self._learner(flags)
        sentences = [e.sentence for _, e in sorted(self.open.items())]
        if Alarm.LOST in flags:
            sentences.append(
                f"The learner could not be saved and has started afresh at row {self.row}."
            )
        return tuple(rest.sentences + sentences)

    def _together(self, stuck: np.ndarray, dead: np.ndarray) -> None:
        """All columns that live repeat themselves, or none lives: one alarm for all."""
        alive = self._missing < DEAD
        now, start = self.open.get(ALL), int(self._since[alive].max(initial=0.0))
        frozen = stuck.any() and alive.sum() > 1 and self._repeats >= TOGETHER
        if len(dead) > 1 and dead.all():
            since = int(self.row - self._missing.min() + 1)
            words = f"All columns: no value since row {since}."
            self.open.setdefault(ALL, Episode("dead", since, words))
        elif frozen and now is None:
            words = f"All columns: no value has changed since row {start}; the logger has frozen."
            self.open[ALL] = Episode("stuck", start, words)
        elif now is not None and (now.kind == "dead" or start > now.since):
            del self.open[ALL]

    def _column(self, i: int, kind: int, dead: bool, y: float, band: list[float]) -> None:
        """Open, change or end the alarm of one column."""
        now, whole = self.open.get(i), self.open.get(ALL)
        wanted = "dead" if dead else "stuck" if kind == STUCK else None
        if wanted is not None:
            if whole is not None and whole.kind == wanted:
                self.open.pop(i, None)
            elif now is None or now.kind != wanted:
                self.open[i] = self._lasting(i, wanted, y)
            return
        if now is None:
            if kind == OUTLYING and np.isfinite(y):
                words = f"{self.columns[i]}: jumped to {y:.6g} at row {self.row}, {FAR_OUT}."
                self.open[i] = Episode("jump", self.row, words, band[0], [y])
            elif kind == APART:
                words = f"{self.columns[i]}: drifts away from its peers since row {self.row}; "
                words += "they used to explain it."
                self.open[i] = Episode("drift", self.row, words)
        elif now.kind in ("stuck", "dead"):
            del self.open[i]
        elif np.isfinite(y):
            self._go_on(i, now, kind, y, band)

    def _lasting(self, i: int, wanted: str, y: float) -> Episode:
        name = self.columns[i]
        if wanted == "dead":
            since = int(self.row - self._missing[i] + 1)
            return Episode(wanted, since, f"{name}: no value since row {since}; it seems dead.")
        since, value = int(self._since[i]), f" at {y:.6g}" if np.isfinite(y) else ""
        return Episode(wanted, since, f"{name}: stuck{value} since row {since}.")

    def _go_on(self, i: int, now: Episode, kind: int, y: float, band: list[float]) -> None:
        """A jump may be a new level; any alarm ends once values keep to their band."""
        inside = band[1] <= y <= band[2]
        now.calm = now.calm + 1 if inside and kind == 0 else 0
        if now.calm >= CALM:
            del self.open[i]
        elif now.kind == "jump" and not inside and self.row > now.since:
            now.outside.append(y)
            if len(now.outside) == SETTLED:
                now.kind, now.sentence = _settled(self.columns[i], now)

    def _learner(self, flags: Alarm) -> None:
        now = self.open.get(LEARNER)
        if Alarm.UNSOUND in flags:
            if now is None:
                words = f"The learner's prediction or state at row {self.row} was no sensible "
                words += "number: it went back to its last sound state."
                self.open[LEARNER] = Episode("unsound", self.row, words)
            else:
                now.calm = 0
        elif now is not None:
            now.calm += 1
            if now.calm >= CALM:
                del self.open[LEARNER]


FAR_OUT = "far outside its band"


def _settled(name: str, now: Episode) -> tuple[str, str]:
    """What a jump has become: a new level if its values keep together on one side."""
    values = np.sort(now.outside)
    middle, width = float(np.median(values)), float(values[-2] - values[1])
    one_side = values[0] > now.before or values[-1] < now.before
    if one_side and abs(middle - now.before) > 2.0 * width:
        words = f"moved to a new level at row {now.since}, from about {now.before:.4g} to about "
        return "level", f"{name}: {words}{middle:.4g}."
    return "erratic", f"{name}: erratic since row {now.since}; its values are {FAR_OUT}."
