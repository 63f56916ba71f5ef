"""Streams from files, directories and pipes: nothing to configure, everything can be."""

import contextlib
import itertools
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from rmcvi.app.sources.clock import FILL_LIMIT, GAPS, Clock
from rmcvi.app.sources.errors import TEXT, Counts, DataError, Disordered, Rejected, place
from rmcvi.app.sources.follow import Pace
from rmcvi.app.sources.lines import Readable
from rmcvi.app.sources.observation import Observation, Position, Vector
from rmcvi.app.sources.records import UNFINISHED, Record
from rmcvi.app.sources.rows import Row, RowParser
from rmcvi.app.sources.schema import Schema
from rmcvi.app.sources.sniffer import Codes, Wishes
from rmcvi.app.sources.source import FileSource, PipeSource, Source
from rmcvi.core.checks import check_int, check_option

BAD_ROWS = ("error", "skip", "missing")
LATE_SHARE = 0.25
"""Share of late rows above which a source is not in the order of time at all."""
_REJECTED = 10_000
"""Rejected records that wait for who takes them away; `counts` counts all."""


@dataclass(frozen=True)
class Rules:
    """What becomes of bad rows and of gaps in time; the words are those of `read`."""

    on_bad_row: str = "error"
    gaps: str = "auto"
    fill_limit: int = FILL_LIMIT

    def __post_init__(self) -> None:
        check_option("on_bad_row", self.on_bad_row, BAD_ROWS)
        check_option("gaps", self.gaps, GAPS)
        check_int("fill_limit", self.fill_limit, 0)


class Stream:
    """An iterable of observations with its `name`, `schema`, `rules` and `counts` of what it met.

    Bad records wait in `rejected` to be taken away (`popleft`), the oldest first.
    A file can be iterated again, from the same start; a pipe only once.
    """

    def __init__(self, source: Source, schema: Schema, rules: Rules, after: Position | None = None):
        self.name, self.schema, self.counts = source.name, schema, Counts()
        self.rejected: deque[Rejected] = deque(maxlen=_REJECTED)
        if rules.gaps == "auto":
            rules = replace(rules, gaps="rows" if schema.regular else "dt")
        self.rules, self.source, self._after = rules, source, after

    def __iter__(self) -> Iterator[Observation]:
        after, schema, limit = self._after, self.schema, self.rules.fill_limit
        start = after.clock if after else None
        allowance = after.allowance if after else None
        allowance = limit if allowance is None else allowance
        clock = Clock(schema.usual, self.rules.gaps, limit, start, allowance)
        held = np.zeros(len(schema.inputs))
        if after and after.held:
            held = np.array(after.held, float)
        parser = RowParser(schema)
        for name, record in self.source.records(schema, after):
            row = self._admit(parser, name, record, clock)
            if row is None:
                self._trace(record)
                continue
            while row.time is not None and clock.absent(row.time):
                self.counts.filled += 1
                yield self._filling(name, record, clock, held)
            dt = clock.tick(row.time)
            self.counts.leaps += self.rules.gaps == "rows" and dt > 1.5
            if held.size:
                absent = np.isnan(row.u)
                self.counts.held += int(absent.sum())
                held = np.where(absent, held, row.u)
            self._trace(record)
            position = self._position(name, record.last, record.end, clock, held)
            yield Observation(row.y, held, dt, row.time, row.time_text, position)
        self._check_late(least=3)

    def head(self, count: int) -> list[Observation]:
        """The first rows, as far as they are there by now; nothing is waited for or used up."""
        source, rows = self.source.head(), []
        first = Stream(source, self.schema, replace(self.rules, on_bad_row="missing"))
        with contextlib.suppress(DataError):  # whoever reads on will meet it
            rows.extend(itertools.islice(first, count))
        return rows

    def _trace(self, record: Record) -> None:
        trace = self.source.trace
        self.counts.renewed += record.start < trace.end
        trace.add(record)

    def _position(self, name: str, line: int, offset: int, clock: Clock, held: Vector) -> Position:
        known = self.source.trace.mark()
        state = clock.last, tuple(held.tolist()), known, clock.allowance
        return Position(name, line, offset, *state)

    def describe(self) -> list[str]:
        """What was assumed, in sentences."""
        return [*self.schema.describe(), *self._describe_gaps()]

    def _describe_gaps(self) -> list[str]:
        if self.schema.step is None:
            return []
        if self.rules.gaps == "rows":
            long = f"longer ones than {self.rules.fill_limit} are one long step"
            return [f"Gaps in time are filled by missing rows; {long}."]
        if self.rules.gaps == "dt":
            return ["Steps have the length dt that their times say."]
        return ["Gaps in time are ignored."]

    def _admit(self, parser: RowParser, name: str, record: Record, clock: Clock) -> Row | None:
        """The row of a record if it is to be passed on."""
        if record.reason == UNFINISHED:
            self.counts.unfinished += 1
            self.counts.first["unfinished"] = place(name, record.first)
            return None
        if parser.is_blank(record):
            self.counts.blank += 1
            return None
        if parser.is_header(record) or self._is_units(record):
            self.counts.headers += 1
            return None
        self.counts.rows += 1
        row = parser.parse(name, record, clock)
        for where in row.fills:
            self.counts.fills += 1
            self.counts.first.setdefault("fill", where)
        if row.set_back:
            self.counts.note("set_back", row.set_back)
        for kind, sentence in row.faults:
            if self.rules.on_bad_row == "error" and not row.late:
                raise DataError(sentence)
            self.counts.note(kind, sentence)
        if row.faults:
            self.reject(name, record, [sentence for _, sentence in row.faults])
        if row.late or (row.faults and self.rules.on_bad_row == "skip"):
            self.counts.skipped += 1
            self._check_late(least=100)
            return None
        return row

    def _check_late(self, least: int) -> None:
        """Give up if too many rows, and at least so many, are late."""
        late, rows = self.counts.late, self.counts.rows
        if self.rules.on_bad_row != "error" or late < least or late <= LATE_SHARE * rows:
            return
        used = {*self.schema.columns, *self.schema.inputs, *self.schema.time}
        others = [name for name in self.schema.names if name not in used]
        key = others[0] if others else None
        many = f"`rmcvi fleet --key {key}` learns the streams that {key!r} tells apart; or "
        raise Disordered(
            f"{self.name}: {late} of {rows} rows do not have a later time than the row before;"
            f" {many if key else ''}sort it by {self.schema.time[0]!r}, or read it without"
            " times (--time none)"
        )

    def _is_units(self, record: Record) -> bool:
        units = self.schema.units
        cells = (record.cells or ())[: len(units)]
        return bool(units) and tuple(str(cell).strip() for cell in cells) == units

    def reject(self, name: str, record: Record, sentences: Sequence[str]) -> None:
        """Put a bad record aside, with what is said of it."""
        where = place(name, record.first)
        reasons = [sentence.removeprefix(where).lstrip(":, ") for sentence in sentences]
        text = record.text(self.schema.encoding)[:TEXT]
        self.rejected.append(Rejected(where, "; ".join(reasons), text))

    def _filling(self, name: str, record: Record, clock: Clock, held: np.ndarray) -> Observation:
        """A missing row; going on after it reads `record` again."""
        moment = clock.fill()
        y = np.full(len(self.schema.columns), np.nan)
        position = self._position(name, record.first - 1, record.start, clock, held)
        return Observation(y, held, 1.0, moment, None, position, filled=True)


def read(
    source: str | PathLike[str] | Readable,
    schema: Schema | None = None,
    *,
    columns: Sequence[str] | None = None,
    inputs: Sequence[str] = (),
    time: str | Sequence[str] | None = None,
    delimiter: str | None = None,
    sentinels: Codes | None = None,
    ignored: Sequence[str] = (),
    on_bad_row: str = "error",
    gaps: str = "auto",
    fill_limit: int = FILL_LIMIT,
    after: Position | None = None,
    follow: bool = False,
    pace: Pace | None = None,
) -> Stream:
    """A stream of observations; its first rows (200 at most) say what is not said here.

    Args:
        source: a file (CSV, TSV, semicolons, JSON lines, gzip of these, Parquet, Arrow, Feather), a
            directory of parts, '-' for standard input, or a file object.
        schema: as found before; nothing is then looked for.
        columns: observed columns; all numeric ones otherwise.
        inputs: input columns. A missing input keeps its last value (0 before the first).
        time: the time column, date and clock, or year, month, day, ..; () for none.
        delimiter: of the cells.
        sentinels: numbers and words for missing values, for all columns or by column.
        ignored: columns that are neither observed nor mentioned, such as the key of a fleet.
        on_bad_row: 'error', 'skip' the row, or take what is bad as 'missing'. A row whose time is
            not later than that of the row before is left out and counted in any case.
        gaps: 'rows', 'dt' or 'ignore' (`Clock`); 'auto' is 'rows' if times are regular, else 'dt'.
        fill_limit: longest gap that is filled by rows; in all, so many more rows than were read.
        after: `position` of the last observation consumed: go on right after it.
        follow: wait for more at the end of a file, until `pace.stop()`.
        pace: how to wait.

    Raises:
        DataError: one sentence; also while iterating.
    """
    rules = Rules(on_bad_row, gaps, fill_limit)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '\r\n"'):
        raise DataError(f"delimiter: got {delimiter!r}, expected one character")
    opened = open_source(source, follow, pace)
    if schema is None:
        times = (time,) if isinstance(time, str) else None if time is None else tuple(time)
        chosen = None if columns is None else tuple(columns)
        wishes = chosen, tuple(inputs), times, delimiter, sentinels, tuple(ignored)
        schema = opened.sniff(Wishes(*wishes))
    return Stream(opened, schema, rules, after)


def sniff(source: str | PathLike[str] | Readable, **options: Any) -> Schema:
    """The schema of a source, from its first rows; options as in `read`."""
    return read(source, **options).schema


def open_source(source: Any, follow: bool = False, pace: Pace | None = None) -> Source:
    """The source that a path, '-' or a file object stands for."""
    pace = pace or Pace()
    if source == "-":
        return PipeSource(sys.stdin, "standard input", pace)
    if hasattr(source, "read"):
        name = getattr(source, "name", None)
        return PipeSource(source, name if isinstance(name, str) else "stream", pace)
    try:
        path = Path(source)
    except TypeError:
        got = type(source).__name__
        raise DataError(f"source: got {got}, expected a path, '-' or a file object") from None
    if path.is_fifo() or path.is_char_device():
        return PipeSource(_Fifo(path), str(path), pace)
    return FileSource(path, follow, pace)


class _Fifo:
    """A pipe that has a name; it can be opened once."""

    def __init__(self, path: Path):
        try:
            self._number = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None

    def read(self, size: int = -1, /) -> bytes:
        """What is there."""
        return os.read(self._number, size)

    def fileno(self) -> int:
        """For those who wait."""
        return self._number
