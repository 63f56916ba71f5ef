"""Alarms in words: which column, what happened, since which row, and how sure.

A sentence does not change while what it says goes on, so that episodes can be counted by their
sentences; what comes again within `PAUSE` rows goes on. Rows are counted from 1.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rmcvi.core.remarks import PAUSE
from rmcvi.learners.judged import Counted, Judged, Now
from rmcvi.learners.monitors import APART, DRIFTING, MOVED, OUTLYING, RHYTHM, STUCK
from rmcvi.monitors.anomaly import ROWS
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
    sure: str = ""
    """How often chance does the like, said at the end of the sentence."""
    ended: int = 0
    """The last row of an alarm that is over."""


class Verdicts(NamedTuple):
    """What the monitors think of each value, (rows, columns)."""

    kind: np.ndarray
    """What the score rests on."""
    anomaly: np.ndarray
    age: np.ndarray
    """Rows since that began."""


def _carried(values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The largest so far of `start` and the rows of `values`."""
    return np.maximum(np.maximum.accumulate(values, 0), start)


class Episodes:
    """What goes on, row by row; `to_json` is all of it."""

    def __init__(
        self, columns: list[str], plain: dict[str, Any] | None = None, sensitivity: float = 1.0
    ):
        self.columns, size = columns, len(columns)
        self.row = 0
        self.limit = 1.0 / (1.0 + sensitivity)
        """Anomaly above which there is an alarm."""
        self.open: dict[int, Episode] = {}
        self._over: dict[int, Episode] = {}
        self._since = np.zeros(size)
        self._missing, self._longest = np.zeros(size), np.zeros(size)
        self._repeats = 0
        if plain is not None:
            self.row, self._repeats = int(plain["row"]), int(plain["repeats"])
            self.open, self._over = (
                {int(i): Episode(**e) for i, e in plain[k]} for k in ("open", "over")
            )
            self._since, self._missing, self._longest = (
                np.array(plain[k], float).reshape(size) for k in ("since", "missing", "longest")
            )

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and words."""
        return {
            "row": self.row,
            "repeats": self._repeats,
            "open": [[i, asdict(e)] for i, e in self.open.items()],
            "over": [[i, asdict(e)] for i, e in self._over.items()],
            "since": self._since.tolist(),
            "missing": self._missing.tolist(),
            "longest": self._longest.tolist(),
        }

    def step(
        self,
        y: np.ndarray,
        last: np.ndarray,
        band: tuple[np.ndarray, ...],
        verdicts: Verdicts,
        flags: np.ndarray,
    ) -> list[tuple[str, ...]]:
        """The sentences of each row; all arguments are (rows, columns), but for `flags`.

        Args:
            y: what was observed.
            last: the last values before it, NaN where there is none.
            band: prediction, low and high, in the units of the data.
            verdicts: what the monitors think.
            flags: the learner's alarms, (rows,).
        """
        counted = self._count(y, last)
        limit = np.maximum(DEAD, LONGER * counted.longest)
        dead = (counted.missing >= limit) & ~np.isnan(last)
        kind = np.where(verdicts.anomaly > self.limit, verdicts.kind, 0)
        about = (kind, verdicts.anomaly, verdicts.age, dead, y, *band)
        judged = Judged(*about, flags=flags, counted=counted)
        told: list[tuple[str, ...]] = [()] * len(y)
        begin = self.row + 1
        for t, is_loud in enumerate(judged.loud.tolist()):
            if is_loud or self.open:
                told[t] = self.tell(begin + t, judged, t)
        if len(y):
            self._go_to(begin + len(y) - 1, counted, -1)
        return told

    def tell(self, row: int, judged: Judged, t: int) -> tuple[str, ...]:
        """The sentences of row number `row`, the t-th of those judged; needed if it is loud, or
        something is `open`.
        """
        self._go_to(row, judged.counted, t)
        return self._alarms(judged.at(t), Alarm(int(judged.flags[t])))

    def is_over(self, row: int) -> bool:
        """Whether at a row nothing goes on, nor would go on if it came again."""
        return not self.open and all(row - e.ended > PAUSE for e in self._over.values())

    def _count(self, y: np.ndarray, last: np.ndarray) -> Counted:
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
        return Counted(since, missing, longest, repeats)

    def _go_to(self, row: int, counted: Counted, t: int) -> None:
        self.row, self._repeats = row, int(counted.repeats[t])
        self._since, self._missing = counted.since[t], counted.missing[t]
        self._longest = counted.longest[t]

    def _alarms(self, now: list[Now], flags: Alarm) -> tuple[str, ...]:
        """The sentences of the present row."""
        rest = flags & ~(Alarm.SENSOR | Alarm.UNSOUND | Alarm.LOST)
        self._over = {i: e for i, e in self._over.items() if self.row - e.ended <= PAUSE}
        self._together([v.kind == STUCK for v in now], [v.dead for v in now])
        for i, value in enumerate(now):
            self._column(i, value)
        self._learner(flags)
        sentences = [e.sentence + e.sure for _, e in sorted(self.open.items())]
        if Alarm.LOST in flags:
            sentences.append(
                f"The learner could not be saved and has started afresh at row {self.row}."
            )
        return tuple(rest.sentences + sentences)

    def _together(self, stuck: list[bool], dead: list[bool]) -> None:
        """All columns that live repeat themselves, or none lives: one alarm for all."""
        alive = self._missing < DEAD
        now, start = self.open.get(ALL), int(self._since[alive].max(initial=0.0))
        frozen = any(stuck) and alive.sum() > 1 and self._repeats >= TOGETHER
        if len(dead) > 1 and all(dead):
            since = int(self.row - self._missing.min() + 1)
            words = f"All columns: no value since row {since}."
            self.open.setdefault(ALL, Episode("dead", since, words))
        elif frozen and now is None:
            words = f"All columns: no value has changed since row {start}; the logger has frozen."
            self.open[ALL] = Episode("stuck", start, words)
        elif now is not None and (now.kind == "dead" or start > now.since):
            del self.open[ALL]

    def _column(self, i: int, value: Now) -> None:
        """Open, change or end the alarm of one column."""
        now, whole = self.open.get(i), self.open.get(ALL)
        wanted = "dead" if value.dead else "stuck" if value.kind == STUCK else None
        if wanted is not None:
            if whole is not None and whole.kind == wanted:
                self.open.pop(i, None)
            elif now is None or now.kind != wanted:
                self.open[i] = self._lasting(i, wanted, value)
        elif now is None:
            if value.kind and i in self._over:
                self.open[i] = self._over.pop(i)
                self.open[i].calm = 0
            elif value.kind:
                self.open[i] = self._begun(self.columns[i], value)
        elif now.kind in ("stuck", "dead"):
            del self.open[i]
        elif np.isfinite(value.y):
            self._go_on(i, now, value)

    def _lasting(self, i: int, wanted: str, value: Now) -> Episode:
        name = self.columns[i]
        if wanted == "dead":
            since = int(self.row - self._missing[i] + 1)
            return Episode(wanted, since, f"{name}: no value since row {since}; it seems dead.")
        since, place = int(self._since[i]), f" at {value.y:.6g}" if np.isfinite(value.y) else ""
        words = f"{name}: stuck{place} since row {since}."
        return Episode(wanted, since, words, sure=_sure(value.anomaly))

    def _begun(self, name: str, value: Now) -> Episode:
        """An alarm of a column that is neither stuck nor dead."""
        sure = _sure(value.anomaly)
        if value.kind == OUTLYING:
            words = f"{name}: jumped to {value.y:.6g} at row {self.row}, {FAR_OUT}."
            return Episode("jump", self.row, words, value.mean, [value.y], sure=sure)
        since = max(int(self.row - value.age) + 1, 1)
        kind, words = WORDS[value.kind]
        return Episode(kind, since, f"{name}: {words.format(since)}.", sure=sure)

    def _go_on(self, i: int, now: Episode, value: Now) -> None:
        """A jump may be a new level; any alarm ends once values keep to their band."""
        inside = value.low <= value.y <= value.high
        now.calm = now.calm + 1 if inside and value.kind == 0 else 0
        if now.calm >= CALM:
            now.ended = self.row
            self._over[i] = self.open.pop(i)
        elif now.kind == "jump" and not inside and self.row > now.since:
            now.outside.append(value.y)
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
WORDS = {
    MOVED: ("level", "its level has changed since row {}"),
    DRIFTING: (
        "drift",
        "has drifted since row {}; its values keep to one side of their predictions",
    ),
    RHYTHM: ("rhythm", "its rhythm has changed since row {}"),
    APART: ("drift", "has drifted since row {} away from the columns that used to explain it"),
}
"""Alarms that begin slowly, in words, with the row since when."""


def _sure(anomaly: float) -> str:
    """How often chance does the like, to one digit: a score a is met 10 000 (1 - a) / a times."""
    rows = ROWS * anomaly / max(1.0 - anomaly, 1e-12)
    often = "less than once in a billion" if rows > 1e9 else f"once in {float(f'{rows:.1g}'):,.0f}"
    return f" Chance alone does this {often.replace(',', ' ')} rows."


def _settled(name: str, now: Episode) -> tuple[str, str]:
    """What a jump has become: a new level if its values keep together on one side."""
    values = np.sort(now.outside)
    middle, width = float(np.median(values)), float(values[-2] - values[1])
    one_side = values[0] > now.before or values[-1] < now.before
    if one_side and abs(middle - now.before) > 2.0 * width:
        words = f"moved to a new level at row {now.since}, from about {now.before:.4g} to about "
        return "level", f"{name}: {words}{middle:.4g}."
    return "erratic", f"{name}: erratic since row {now.since}; its values are {FAR_OUT}."
