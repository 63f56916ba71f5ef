"""What `doctor` found, as numbers and as sentences."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from rmcvi.app.sources.cells import utc

_LOSS = 0.05
"""Share of the rows beyond which leaving them out is no advice."""
_FEW = "Repair them, leave them out (--on-bad-row skip), or keep the rest (--on-bad-row missing)."
_BAD = {
    "ragged": ("rows with too few or too many cells", "Is the --delimiter right?"),
    "unreadable": ("rows that cannot be read", "Is it the right file, and the right --delimiter?"),
    "text": (
        "cells without a number in a column of numbers",
        "Too many to leave out: leave that column out (name the others with --columns), name the"
        " word if it means missing (--missing WORD), or keep the rest (--on-bad-row missing).",
    ),
    "no_time": (
        "rows without a time",
        "Too many to leave out: is it the time column? Name another one (--time COLUMN), or none"
        " (--time none).",
    ),
}
"""What bad rows are called, and what to do if they are many."""


@dataclass(frozen=True)
class Gap:
    """A stretch without rows, after the row at `line`."""

    line: int
    after: float
    """Its time."""
    steps: float
    """Its length in usual steps; 2 means that one row is absent."""


@dataclass(frozen=True)
class Stuck:
    """A value that repeats for longer than is the column's habit."""

    column: str
    value: float
    line: int
    length: int


@dataclass(frozen=True)
class Outliers:
    """Values further than ten robust standard deviations (`z`) from the median."""

    column: str
    count: int
    worst: float
    line: int
    z: float


@dataclass(frozen=True)
class Diagnosis:
    """All that one pass over a source can tell."""

    source: str
    rows: int
    columns: tuple[str, ...]
    time: tuple[str, ...]
    calendar: bool
    """Whether times are seconds since 1970."""
    period: float | None
    """Median step."""
    step: str | None
    """The same for people, months as months."""
    regular: bool
    first: float | None
    last: float | None
    repeated: int
    backward: int
    gaps: int
    absent: float
    """Usual steps without a row, over all gaps."""
    longest: Gap | None
    missing: dict[str, float]
    """Share of missing values, sentinels among them, by column."""
    sentinels: dict[str, dict[str, int]]
    """How often each sentinel occurs, by column."""
    hidden: tuple[str, ...]
    """Columns with sentinels that the first rows do not give away."""
    constant: tuple[str, ...]
    stuck: tuple[Stuck, ...]
    outliers: tuple[Outliers, ...]
    duplicated: tuple[tuple[str, str], ...]
    counters: tuple[str, ...]
    """Columns that only rise, but for new starts."""
    directions: tuple[str, ...]
    """Columns in degrees that go from 360 to 0."""
    bad: dict[str, int]
    """Bad rows and cells by kind, as in `Counts`."""
    examples: dict[str, str]
    assumed: tuple[str, ...] = field(default=())
    fills: int = 0
    """Fill values, which mean missing wherever they stand."""
    unfinished: int = 0
    """Last lines without an end, which were not looked at."""

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, words and lists, with the suggestions."""
        return {**asdict(self), "suggestions": self.suggestions()}

    def describe(self) -> list[str]:
        """What was found, in sentences."""
        few = len(self.columns)
        lines = [f"{self.source}: {self.rows} rows, {few} column{'' if few == 1 else 's'}."]
        if self.first is not None and self.last is not None:
            lines.append(f"From {self._moment(self.first)} to {self._moment(self.last)}.")
        if self.period is not None:
            pace = "Regular" if self.regular else "Irregular"
            lines.append(f"{pace}, one row every {self.step}.")
        if self.gaps and self.longest:
            where = f"{self.longest.steps:g} steps after {self._moment(self.longest.after)}"
            lines.append(
                f"{self.gaps} gaps, {self.absent:g} steps without a row; the longest: {where}"
                f" (line {self.longest.line})."
            )
        worst = sorted(self.missing.items(), key=lambda pair: -pair[1])
        shares = [f"{name} {100 * share:.3g} %" for name, share in worst if share > 0]
        if shares:
            lines.append(f"Missing: {', '.join(shares)}.")
        if self.unfinished:
            lines.append(f"{self.examples['unfinished']}: has no end, and was not looked at.")
        return lines

    def suggestions(self) -> list[str]:
        """What to do about it, in sentences; none if all is well."""
        return [*self._about_rows(), *self._about_columns()]

    def _moment(self, time: float) -> str:
        return utc(time) if self.calendar else f"{time:g}"

    def _about_rows(self) -> Iterator[str]:
        for kind, number in self.bad.items():
            if kind in _BAD:
                what, otherwise = _BAD[kind]
                advice = _FEW if number <= _LOSS * self.rows else otherwise
                yield f"{number} {what}, the first: {self.examples[kind]}. {advice}"
        late = self.repeated + self.backward
        if late:
            kind = "repeated" if self.repeated else "backward"
            first = f"{self.repeated} repeated and {self.backward} backward times"
            advice = "Sort the rows by time"
            if late > _LOSS * self.rows:
                advice += ", or choose another time column (--time COLUMN, or --time none)"
            yield f"{first}, the first: {self.examples[kind]}. {advice}."
        if self.gaps and self.regular:
            yield "There are gaps in time: missing rows will fill them."
        if self.period is not None and not self.regular:
            yield "Times are irregular: the length of each step will be taken into account."

    def _about_sentinels(self) -> Iterator[str]:
        for code in dict.fromkeys(code for codes in self.sentinels.values() for code in codes):
            names = [name for name, codes in self.sentinels.items() if code in codes]
            number = sum(self.sentinels[name][code] for name in names)
            yield f"{', '.join(names)}: {code} stands for a missing value, {number} times."
        if self.fills:
            where = self.examples["fill"]
            yield f"{self.fills} fill values stand for missing ones, the first: {where}."
        if self.hidden:
            codes = dict.fromkeys(c for n in self.hidden for c in self.sentinels[n])
            options = " ".join(f"--missing {code}" for code in codes)
            yield (
                f"{', '.join(self.hidden)}: the first rows do not show these codes for missing"
                f" values, so say {options}."
            )

    def _about_columns(self) -> Iterator[str]:
        yield from self._about_sentinels()
        for name in self.constant:
            yield f"{name}: never changes; leave it out."
        for name, share in self.missing.items():
            if share > 0.5 and name not in self.constant:
                yield f"{name}: {100 * share:.3g} % is missing; can it be left out?"
        for run in self.stuck:
            yield (
                f"{run.column}: {run.value:g} repeats {run.length} times from line {run.line} on;"
                " was the sensor stuck?"
            )
        for found in self.outliers:
            yield (
                f"{found.column}: {found.count} values are far out, the furthest {found.worst:g}"
                f" in line {found.line}, {found.z:.3g} times as far from the middle as is usual."
            )
        for name in self.counters:
            yield f"{name}: rises or starts anew; if a counter, learn from its changes instead."
        for name in self.directions:
            yield (
                f"{name}: goes from 360 to 0; if it is a direction, learn from its sine and cosine"
                " instead."
            )
        for a, b in self.duplicated:
            yield f"{b}: equals {a} throughout; leave one out."
