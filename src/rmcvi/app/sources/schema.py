"""What a source is made of: found by looking at its first rows, or said by the user."""

import codecs
import math
from dataclasses import dataclass, field, fields
from typing import Any

from pydantic import TypeAdapter

from rmcvi.app.sources.cells import CALENDAR, FORMATS, MISSING
from rmcvi.app.sources.clock import Step
from rmcvi.app.sources.errors import DataError

_DELIMITERS = {",": "Comma", ";": "Semicolon", "\t": "Tab", "|": "Bar", " ": "Space"}
_KINDS = {
    "json": "One JSON object per line.",
    "parquet": "A Parquet table.",
    "arrow": "An Arrow table.",
}
_NAMED = {
    "iso": "ISO dates",
    "year-month-day": "year/month/day",
    "day-month-year": "day/month/year",
    "month-day-year": "month/day/year",
    "yyyymmdd": "dates of eight digits",
    "fields": "a date in parts",
    "number": "a plain number",
}


@dataclass(frozen=True)
class Schema:
    """How to read a source; every field can be written to and read from plain JSON."""

    kind: str
    """'delimited', 'json' (one object a line), 'parquet' or 'arrow'."""
    names: tuple[str, ...]
    """All columns, in the order of the source."""
    columns: tuple[str, ...]
    """Observed columns: y."""
    inputs: tuple[str, ...] = ()
    """Input columns: u."""
    time: tuple[str, ...] = ()
    """The time column, a date and a clock, or year, month, day, ..; empty if there is none."""
    time_format: str = "number"
    """One of `FORMATS`."""
    step: float | None = None
    """Usual step: the median difference of the first times."""
    regular: bool = False
    """Whether nine in ten of the first differences are whole multiples of the usual step."""
    months: int = 0
    """The usual step in months of the calendar; 0 if its length is fixed."""
    month_day: int = 1
    """The day to which steps of months keep, in months that have it."""
    delimiter: str = ","
    decimal: str = "."
    header: bool = True
    encoding: str = "utf-8"
    comment: str = ""
    """With what a line that is passed over begins."""
    units: tuple[str, ...] = ()
    """The row of units under the header, passed over; empty if there is none."""
    missing: tuple[str, ...] = MISSING
    """Words for a missing value, in lower case."""
    sentinels: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Numbers for a missing value, by column; fill values such as 9.96921e36 go without saying."""
    huge: tuple[str, ...] = ()
    """Columns so large that a fill value may be a measurement."""
    notes: tuple[str, ...] = ()
    """Sentences about what was doubtful."""

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}
        return {**plain, "sentinels": {k: list(v) for k, v in self.sentinels.items()}}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Schema":
        """The inverse of `to_json`."""
        try:
            found = TypeAdapter(cls).validate_python(plain)
            names = {*found.columns, *found.inputs, *found.time}
            if not plain.keys() <= {f.name for f in fields(cls)} or not names <= {*found.names}:
                raise ValueError
            if found.time_format not in FORMATS or len(found.delimiter) != 1:
                raise ValueError
            codecs.lookup(found.encoding)
            if found.months not in range(1200) or found.month_day not in range(1, 32):
                raise ValueError
            if found.step is not None and not 0.0 < found.step < math.inf:
                raise ValueError
            return found
        except (AttributeError, LookupError, TypeError, ValueError):
            raise DataError("schema: got something that Schema.to_json did not write") from None

    @property
    def usual(self) -> Step | None:
        """The usual step, months as months."""
        return None if self.step is None else Step(self.step, self.months, self.month_day)

    def next_times(self, last: float | None, horizon: int) -> list[float | None]:
        """The times of the rows after one at the time `last`, as far as they are known."""
        step = self.usual
        if step is None or last is None:
            return [None] * horizon
        return [step.after(last, k) for k in range(1, horizon + 1)]

    def describe(self) -> list[str]:
        """What was assumed, in sentences."""
        lines = [self._describe_format(), self._describe_time()]
        lines.append(f"Observed ({len(self.columns)}): {', '.join(self.columns)}.")
        if self.inputs:
            lines.append(f"Inputs ({len(self.inputs)}): {', '.join(self.inputs)}.")
        return [*lines, *self._describe_sentinels(), *self.notes]

    def _describe_format(self) -> str:
        if self.kind in _KINDS:
            return _KINDS[self.kind]
        mark = "decimal commas" if self.decimal == "," else "decimal points"
        word = _DELIMITERS.get(self.delimiter, repr(self.delimiter))
        header = "a header line" if self.header else "no header line"
        code = "" if self.encoding == "utf-8" else f", encoded in {self.encoding}"
        said = [f"{word}-separated text with {mark} and {header}{code}."]
        if self.comment:
            said.append(f"Lines that begin with {self.comment} are passed over.")
        if self.units:
            said.append(f"The row under the header holds units: {', '.join(self.units)}.")
        return " ".join(said)

    def _describe_time(self) -> str:
        if not self.time:
            return "No time column: rows are one usual step apart."
        where = ", ".join(map(repr, self.time))
        if len(self.time) == 2:
            where = " and ".join(map(repr, self.time))
        what = _NAMED.get(self.time_format, f"{self.time_format} since 1970")
        usual = self.usual
        if usual is None:
            return f"Time: {where} ({what}); too few rows to know the usual step."
        step = usual.describe(self.time_format != "number")
        habit = "the usual step is" if self.regular else "irregular, the median step is"
        zone = ", UTC unless a zone is written" if self.time_format in CALENDAR else ""
        return f"Time: {where} ({what}{zone}); {habit} {step}."

    def _describe_sentinels(self) -> list[str]:
        by_code: dict[tuple[float, ...], list[str]] = {}
        for name, codes in self.sentinels.items():
            by_code.setdefault(codes, []).append(name)
        lines = []
        for codes, names in by_code.items():
            numbers = " and ".join(f"{code:g}" for code in codes)
            verb = "means" if len(codes) == 1 else "mean"
            every = set(names) >= {*self.columns, *self.inputs}
            where = "every column" if every and len(names) > 1 else ", ".join(names)
            lines.append(f"{numbers} {verb} missing in {where}.")
        return lines
