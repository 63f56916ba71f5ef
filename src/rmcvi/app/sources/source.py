"""Where records come from: files in parts, a growing file, a pipe; a broker could be another."""

import io
import itertools
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rmcvi.app.sources.errors import DataError
from rmcvi.app.sources.follow import Pace, first_lines, follow_lines
from rmcvi.app.sources.formats import ENDINGS, Part, format_named, format_of, sniff_text
from rmcvi.app.sources.lines import (
    MAX_SAMPLE,
    Line,
    PipeLines,
    can_grow,
    file_lines,
    line_before,
)
from rmcvi.app.sources.observation import Fingerprint, Position
from rmcvi.app.sources.records import Record
from rmcvi.app.sources.schema import Schema
from rmcvi.app.sources.sniffer import SAMPLE, Wishes
from rmcvi.app.sources.trace import Changed, Trace, begins_alike
from rmcvi.core.checks import nearest

Named = tuple[str, Record]
TABLE_ROWS = 2000
"""Rows of a table before a place by which it is known again."""


@runtime_checkable
class Source(Protocol):
    """Where records come from, and where one can go on after a `Position`."""

    name: str
    trace: Trace
    """Of what was read, by which the source is known again."""

    def sniff(self, wishes: Wishes) -> Schema:
        """Look at the first rows without losing them."""
        ...

    def head(self) -> "Source":
        """The same as far as it is there now, without waiting for more."""
        ...

    def starts(self, schema: Schema, after: Position | None) -> Iterator[tuple[Part, int, int]]:
        """Files that can be read in blocks, with where to begin; none if there are none."""
        ...

    def mark(self, part: Part, schema: Schema, offset: int, line: int) -> Fingerprint | None:
        """The fingerprint at a place in one of them."""
        ...

    def records(self, schema: Schema, after: Position | None) -> Iterator[Named]:
        """Records after a position, with the name of the part that each came from.

        Raises:
            Changed: what was read before is not there any more.
        """
        ...


class FileSource:
    """A file, or a directory of parts that have the same columns."""

    def __init__(self, path: Path, follow: bool, pace: Pace):
        self.parts = list_parts(path) if not follow or not path.is_file() else [path]
        self.name, self.follow, self._pace = str(path), follow, pace
        self.trace = Trace()
        """Of the part that is being read."""
        self._format = format_of(self.parts[0])
        if follow and (path.is_dir() or not self._format.is_text or path.suffix == ".gz"):
            raise DataError(f"{path}: cannot be followed, expected a growing text file")

    def sniff(self, wishes: Wishes) -> Schema:
        """Look at the first rows."""
        return self._format.sniff(self.parts, self._first_lines, wishes)

    def _first_lines(self) -> list[Line]:
        if self.follow:
            return first_lines(self.parts[0], SAMPLE + 1, self._pace)
        return list(itertools.islice(self._sample(), SAMPLE + 1))

    def head(self) -> "FileSource":
        """The same as it is now, without waiting for more."""
        return FileSource(Path(self.name), False, self._pace)

    def _sample(self) -> Iterator[Line]:
        """Lines of the parts that begin alike, with one header."""
        top, size = None, 0
        for part in self.parts:
            for line in self._whole_lines(part):
                if line.number > 1 or top is None:
                    top = top or line.data
                    size += len(line.data)
                    yield line
                elif line.data != top:
                    return
                if size > MAX_SAMPLE:
                    return

    def starts(self, schema: Schema, after: Position | None) -> Iterator[tuple[Part, int, int]]:
        """The parts from a place on, each with the offset and the line at which it is read."""
        parts = self.parts
        if after is not None:
            names = [str(part) for part in parts]
            if after.name not in names:
                message = f"{after.name}: reading stopped here, but it is not among the parts"
                raise DataError(message)
            parts = parts[names.index(after.name) :]
        self._format = format_named(schema.kind)
        for part in parts:
            self.trace = self._new_trace(part)
            offset, line = 0, 0
            if after is not None and after.name == str(part):
                offset, line = self._known_again(part, schema, after)
            yield self._part(part, self.follow), offset, line

    def records(self, schema: Schema, after: Position | None) -> Iterator[Named]:
        """Rows with their cells in the schema's order, after the given place."""
        for part, offset, line in self.starts(schema, after):
            for record in self._format.records(part, schema, offset, line):
                yield part.name, record

    def mark(self, part: Part, schema: Schema, offset: int, line: int) -> Fingerprint | None:
        """The fingerprint at a place before which so many lines come, from what is before it."""
        trace, start, lines = self._new_trace(part.path), max(offset - TABLE_ROWS, 0), TABLE_ROWS
        if self._format.is_text:
            start, lines = line_before(part.path, offset)
        records = self._format.records(part, schema, start, max(line - lines, 0))
        for record in itertools.takewhile(lambda r: r.start < offset, records):
            trace.add(record)
        return trace.mark()

    def _new_trace(self, part: Path) -> Trace:
        before = itertools.takewhile(lambda other: other != part, self.parts)
        sizes = {other.name: other.stat().st_size for other in before}
        return Trace(part if self._format.is_text else None, sizes)

    def _known_again(self, part: Path, schema: Schema, after: Position) -> tuple[int, int]:
        """The place to go on at: a file that is followed and is another one begins at its top."""
        try:
            self._check(part, schema, after)
        except Changed:
            if not self.follow:
                raise
            self.trace = self._new_trace(part)
            self.trace.end = after.offset
            return 0, 0
        return after.offset, after.line

    def _check(self, part: Path, schema: Schema, after: Position) -> None:
        """Whether what was read before is still there; the trace is then as it was."""
        text, known = self._format.is_text, after.fingerprint
        short = f"{part}: is shorter than the {after.offset} {'bytes' if text else 'rows'}"
        short = f"{short} at which reading stopped"
        if text and can_grow(part) and after.offset > part.stat().st_size:
            raise Changed(short)
        if known is None:
            return
        self._check_parts(part, known.parts)
        advice = "bring the old file back, or learn this one into another directory"
        if text and not begins_alike(part, known):
            raise Changed(f"{part}: does not begin as the file that was read before; {advice}")
        records = self._format.records(self._part(part), schema, known.start, known.line)
        for record in itertools.takewhile(lambda r: r.start < after.offset, records):
            self.trace.add(record)
        if self.trace.end < after.offset and known.start < after.offset:
            raise Changed(short)
        mark = self.trace.mark()
        if mark is not None and mark.digest != known.digest:
            what = f"before line {after.line + 1} it is not what was read before"
            raise Changed(f"{part}: {what}; {advice}")
        self.trace.end = after.offset

    def _check_parts(self, part: Path, known: dict[str, int]) -> None:
        for other in itertools.takewhile(lambda other: other != part, self.parts):
            if other.name not in known:
                late = f"has come after {part.name} was read, which follows it"
                raise Changed(f"{other}: {late}; give it a name that comes last, or learn anew")
            if other.stat().st_size != known[other.name]:
                changed = "has changed since it was read"
                raise Changed(f"{other}: {changed}; bring the old file back, or learn anew")

    def _part(self, path: Path, follow: bool = False) -> Part:
        lines = partial(self._followed if follow else self._whole_lines, path)
        return Part(str(path), lines, path, self._grows(path))

    def _followed(self, path: Path, offset: int, number: int) -> Iterator[Line]:
        return follow_lines(path, self._pace, offset, number)

    def _whole_lines(self, part: Path, offset: int = 0, number: int = 0) -> Iterator[Line]:
        return file_lines(part, offset, number, self._grows(part))

    def _grows(self, part: Path) -> bool:
        """Whether more may be written to it: to the last part alone."""
        return part == self.parts[-1] and can_grow(part)


class PipeSource:
    """A pipe or file object, read once; offsets count its rows."""

    def __init__(self, stream: Any, name: str, pace: Pace):
        self._lines, self.name, self._pace = PipeLines(stream, name, pace.idle), name, pace
        self.trace = Trace(whole=True)

    def sniff(self, wishes: Wishes) -> Schema:
        """Look at the first rows without losing them."""
        lines = self._lines.peek(SAMPLE + 1, self._pace.patience)
        return sniff_text(lines, wishes, self.name)

    def head(self) -> "PipeSource":
        """The lines that were looked at, as a pipe of their own."""
        lines = self._lines.peek(0, 0.0)
        return PipeSource(io.BytesIO(b"".join(line.data for line in lines)), self.name, self._pace)

    def starts(self, schema: Schema, after: Position | None) -> Iterator[tuple[Part, int, int]]:
        """A pipe is read record by record."""
        return iter(())

    def mark(self, part: Part, schema: Schema, offset: int, line: int) -> Fingerprint | None:
        """See `trace`."""
        return self.trace.mark()

    def records(self, schema: Schema, after: Position | None) -> Iterator[Named]:
        """Rows after the first `after.offset` ones."""
        if not self._lines.peek(1):
            raise DataError(f"{self.name}: got no rows, expected rows of numbers")
        part = Part(self.name, lambda offset, number: iter(self._lines))
        records = format_named(schema.kind).records(part, schema)
        rows = (record._replace(start=i, end=i + 1) for i, record in enumerate(records))
        if after is not None and after.offset:
            self._pass_over(rows, after)
        for record in rows:
            yield self.name, record

    def _pass_over(self, rows: Iterator[Record], after: Position) -> None:
        """Read what was read before, and see that it is the same."""
        for record in itertools.islice(rows, after.offset):
            self.trace.add(record)
        if self.trace.end < after.offset:
            short = f"ended after {self.trace.end} rows, of which {after.offset} were read before"
            raise Changed(f"{self.name}: {short}; give the same stream from its beginning")
        mark = self.trace.mark()
        if mark and after.fingerprint and mark.digest != after.fingerprint.digest:
            other = f"its first {after.offset} rows are not those that were read before"
            raise Changed(f"{self.name}: {other}; give the same stream from its beginning")


def list_parts(path: Path) -> list[Path]:
    """The file itself, or the non-empty parts of a directory, 'part-2' before 'part-10'."""
    if not path.exists():
        raise DataError(f"{path}: no such file or directory{_nearest(path)}")
    if not path.is_dir():
        if path.is_file() and not path.stat().st_size:
            raise DataError(f"{path}: got an empty file, expected rows of numbers")
        return [path]
    parts = [p for p in path.iterdir() if p.is_file() and _is_part(p) and p.stat().st_size]
    if not parts:
        raise DataError(f"{path}: got a directory without parts, expected files {_expected()}")
    kinds = {"text" if (f := format_of(part)).is_text else f.kind.capitalize() for part in parts}
    if len(kinds) > 1:
        both = " and ".join(sorted(kinds))
        raise DataError(f"{path}: got {both} parts together, expected one kind")
    return sorted(parts, key=lambda part: _natural(part.name))


def _is_part(path: Path) -> bool:
    plain = path.name.casefold().removesuffix(".gz")
    return not path.name.startswith((".", "_")) and plain.endswith(ENDINGS)


def _natural(name: str) -> list[tuple[int, int, str]]:
    pieces = re.findall(r"\d+|\D+", name)
    keys = [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in pieces]
    return [*keys, (2, 0, name)]


def _expected() -> str:
    return f"ending in {', '.join(ENDINGS)} (text also with .gz after it)"


def _nearest(path: Path) -> str:
    if not path.parent.is_dir():
        return ""
    near = nearest(path.name, (p.name for p in path.parent.iterdir()))
    return f"; did you mean {str(path.parent / near)!r}?" if near else ""
