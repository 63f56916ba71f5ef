"""Where records come from: files in parts, a growing file, a pipe."""

import io
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmcvi.app.sources.errors import DataError, place
from rmcvi.app.sources.follow import first_lines, follow_lines
from rmcvi.app.sources.header import Shape, shape_of
from rmcvi.app.sources.lines import (
    MAX_SAMPLE,
    UNENDED,
    Line,
    PipeLines,
    can_grow,
    file_lines,
    find_encoding,
)
from rmcvi.app.sources.observation import Source
from rmcvi.app.sources.parquet import parquet_names, parquet_records
from rmcvi.app.sources.parts import is_parquet, list_parts
from rmcvi.app.sources.records import (
    UNFINISHED,
    Record,
    cut_records,
    decode,
    json_records,
    parse_object,
)
from rmcvi.app.sources.schema import Schema
from rmcvi.app.sources.sniffer import SAMPLE, Wishes, sniff_lines, sniff_table
from rmcvi.app.sources.trace import Changed, Trace, begins_alike

Named = tuple[str, Record]


@dataclass(frozen=True)
class Pace:
    """How to wait for a source that is not complete."""

    stop: Callable[[], bool] = lambda: False
    sleep: Callable[[float], None] = time.sleep
    poll: float = 0.5
    patience: float = 2.0


def sniff_text(lines: list[Line], wishes: Wishes, name: str) -> Schema:
    """The schema of text from its first lines."""
    if not any(decode(line, "utf-8").strip() for line in lines):
        raise DataError(f"{name}: got no rows, expected rows of numbers")
    encoding = find_encoding(lines, name)
    whole = [line for line in lines if not line.flaw or _is_object(line, encoding)]
    if not whole:
        raise DataError(f"{place(name, 1)}: got {lines[0].flaw}, expected rows of numbers")
    try:
        return _sniff_whole(whole, wishes, name, encoding)
    except DataError as error:
        if lines[-1].flaw != UNENDED:
            raise
        advice = "its last line has no line end and was left out, for it may be half of a line"
        raise DataError(f"{error}; {advice}") from None


def _is_object(line: Line, encoding: str) -> bool:
    return line.flaw == UNENDED and parse_object(decode(line, encoding)) is not None


def _sniff_whole(lines: list[Line], wishes: Wishes, name: str, encoding: str) -> Schema:
    texts = [decode(line, encoding) for line in lines]
    top = next((text.strip() for text in texts if text.strip()), "")
    if not top.startswith(("{", "[")):
        return sniff_lines(lines, wishes, name, encoding)
    rows = [row for text in texts if (row := parse_object(text)) is not None]
    if not rows:
        raise DataError(f"{place(name, 1)}: got {top[:20]!r}, expected one JSON object per line")
    names = tuple(dict.fromkeys(key for row in rows for key in row))
    schema = Schema(kind="json", names=names, columns=(), encoding=encoding)
    cells = [[row.get(key) for key in names] for row in rows]
    return sniff_table(schema, cells, wishes, name)


class FileOrigin:
    """A file, or a directory of parts that have the same columns."""

    def __init__(self, path: Path, follow: bool, pace: Pace):
        self.parts = list_parts(path) if not follow or not path.is_file() else [path]
        self.name, self.follow, self._pace = str(path), follow, pace
        self.trace = Trace()
        """Of the part that is being read."""
        if follow and (path.is_dir() or is_parquet(path) or path.suffix == ".gz"):
            raise DataError(f"{path}: cannot be followed, expected a growing text file")

    def sniff(self, wishes: Wishes) -> Schema:
        """Look at the first rows."""
        name = str(self.parts[0])
        if is_parquet(self.parts[0]):
            names = tuple(parquet_names(self.parts[0]))
            alike = itertools.takewhile(lambda p: set(parquet_names(p)) == set(names), self.parts)
            records = itertools.chain.from_iterable(parquet_records(p, names) for p in alike)
            rows = [record.cells or [] for record in itertools.islice(records, SAMPLE)]
            return sniff_table(Schema(kind="parquet", names=names, columns=()), rows, wishes, name)
        if self.follow:
            pace = self._pace
            lines = first_lines(self.parts[0], SAMPLE + 1, pace.stop, pace.sleep, poll=pace.poll)
        else:
            lines = list(itertools.islice(self._sample(), SAMPLE + 1))
        return sniff_text(lines, wishes, name)

    def head(self) -> "FileOrigin":
        """The same as it is now, without waiting for more."""
        return FileOrigin(Path(self.name), False, self._pace)

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

    def records(self, schema: Schema, after: Source | None) -> Iterator[Named]:
        """Rows with their cells in the schema's order, after the given place."""
        parts = self.parts
        if after is not None:
            names = [str(part) for part in parts]
            if after.name not in names:
                message = f"{after.name}: reading stopped here, but it is not among the parts"
                raise DataError(message)
            parts = parts[names.index(after.name) :]
        for part in parts:
            self.trace = self._new_trace(part, schema)
            offset, line = 0, 0
            if after is not None and after.name == str(part):
                offset, line = self._known_again(part, schema, after)
            for record in self._part(part, schema, offset, line, self.follow):
                yield str(part), record

    def _new_trace(self, part: Path, schema: Schema) -> Trace:
        before = itertools.takewhile(lambda other: other != part, self.parts)
        sizes = {other.name: other.stat().st_size for other in before}
        return Trace(None if schema.kind == "parquet" else part, sizes)

    def _known_again(self, part: Path, schema: Schema, after: Source) -> tuple[int, int]:
        """The place to go on at: a file that is followed and is another one begins at its top."""
        try:
            self._check(part, schema, after)
        except Changed:
            if not self.follow:
                raise
            self.trace = self._new_trace(part, schema)
            self.trace.end = after.offset
            return 0, 0
        return after.offset, after.line

    def _check(self, part: Path, schema: Schema, after: Source) -> None:
        """Whether what was read before is still there; the trace is then as it was."""
        text, known = schema.kind != "parquet", after.fingerprint
        short = f"{part}: is shorter than the {after.offset} {'bytes' if text else 'rows'}"
        short = f"{short} at which reading stopped"
        if text and can_grow(part) and after.offset > part.stat().st_size:
            raise Changed(short)
        if known is None:
            return
        self._check_parts(part, schema, known.parts)
        advice = "bring the old file back, or learn this one into another directory"
        if text and not begins_alike(part, known):
            raise Changed(f"{part}: does not begin as the file that was read before; {advice}")
        records = self._part(part, schema, known.start, known.line)
        for record in itertools.takewhile(lambda r: r.start < after.offset, records):
            self.trace.add(record)
        if self.trace.end < after.offset and known.start < after.offset:
            raise Changed(short)
        mark = self.trace.mark()
        if mark is not None and mark.digest != known.digest:
            what = f"before line {after.line + 1} it is not what was read before"
            raise Changed(f"{part}: {what}; {advice}")
        self.trace.end = after.offset

    def _check_parts(self, part: Path, schema: Schema, known: dict[str, int]) -> None:
        for other in itertools.takewhile(lambda other: other != part, self.parts):
            if other.name not in known:
                late = f"has come after {part.name} was read, which follows it"
                raise Changed(f"{other}: {late}; give it a name that comes last, or learn anew")
            if other.stat().st_size != known[other.name]:
                changed = "has changed since it was read"
                raise Changed(f"{other}: {changed}; bring the old file back, or learn anew")

    def _part(
        self, part: Path, schema: Schema, offset: int, line: int, follow: bool = False
    ) -> Iterator[Record]:
        """Records from a place on, 0 for the top."""
        if schema.kind == "parquet":
            shape_of(parquet_names(part), schema, str(part))
            return parquet_records(part, schema.names, offset)
        grows, shape = self._grows(part), Shape.plain(schema)
        if schema.kind == "delimited" and schema.header:
            header = _header(_cut(self._top(part, follow), schema, grows))
            if header is None or header.reason == UNFINISHED:
                return iter(() if header is None else (header,))
            shape = shape_of(_header_cells(header, str(part)), schema, str(part))
            if not offset:
                offset, line = header.end, header.last
        if follow:
            pace = self._pace
            lines = follow_lines(part, pace.stop, pace.sleep, offset, line, pace.poll)
        else:
            lines = self._whole_lines(part, offset, line)
        return shape.fit(_cut(lines, schema, grows))

    def _top(self, part: Path, follow: bool) -> Iterable[Line]:
        if not follow:
            return self._whole_lines(part)
        pace = self._pace
        return first_lines(part, 20, pace.stop, pace.sleep, least=1, poll=pace.poll)

    def _whole_lines(self, part: Path, offset: int = 0, number: int = 0) -> Iterator[Line]:
        return file_lines(part, offset, number, self._grows(part))

    def _grows(self, part: Path) -> bool:
        """Whether more may be written to it: to the last part alone."""
        return part == self.parts[-1] and can_grow(part)


class PipeOrigin:
    """A pipe or file object, read once; offsets count its rows."""

    def __init__(self, stream: Any, name: str, pace: Pace):
        self._lines, self.name, self._pace = PipeLines(stream, name), name, pace
        self.trace = Trace(whole=True)

    def sniff(self, wishes: Wishes) -> Schema:
        """Look at the first rows without losing them."""
        lines = self._lines.peek(SAMPLE + 1, self._pace.patience)
        return sniff_text(lines, wishes, self.name)

    def head(self) -> "PipeOrigin":
        """The lines that were looked at, as a pipe of their own."""
        lines = self._lines.peek(0, 0.0)
        return PipeOrigin(io.BytesIO(b"".join(line.data for line in lines)), self.name, self._pace)

    def records(self, schema: Schema, after: Source | None) -> Iterator[Named]:
        """Rows after the first `after.offset` ones."""
        records = _cut(self._lines, schema, False)
        shape = Shape.plain(schema)
        if schema.kind == "delimited" and schema.header:
            header = _header(records)
            if header is None:
                raise DataError(f"{self.name}: got no rows, expected rows of numbers")
            shape = shape_of(_header_cells(header, self.name), schema, self.name)
        rows = (record._replace(start=i, end=i + 1) for i, record in enumerate(shape.fit(records)))
        if after is not None and after.offset:
            self._pass_over(rows, after)
        for record in rows:
            yield self.name, record

    def _pass_over(self, rows: Iterator[Record], after: Source) -> None:
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


def _header_cells(header: Record, name: str) -> list[str]:
    if header.cells is None:
        raise DataError(f"{place(name, header.first)}: got {header.reason}, expected a header")
    return [str(cell) for cell in header.cells]


def _cut(lines: Iterable[Line], schema: Schema, grows: bool) -> Iterator[Record]:
    if schema.kind == "json":
        return json_records(lines, schema)
    look = schema.delimiter, schema.encoding, schema.comment
    return cut_records(lines, *look, grows)


def _header(records: Iterator[Record]) -> Record | None:
    """The first record that is not blank."""
    return next((record for record in records if record.cells is None or any(record.cells)), None)
