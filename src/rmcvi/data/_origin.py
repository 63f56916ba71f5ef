"""Where records come from: files in parts, a growing file, a pipe."""

import io
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmcvi.data._errors import DataError, place
from rmcvi.data._follow import first_lines, follow_lines
from rmcvi.data._header import Shape, shape_of
from rmcvi.data._lines import Line, PipeLines, file_lines, find_encoding
from rmcvi.data._observation import Source
from rmcvi.data._parquet import parquet_names, parquet_records
from rmcvi.data._parts import is_parquet, list_parts
from rmcvi.data._records import (
    Record,
    decode,
    delimited_records,
    json_records,
    parse_object,
)
from rmcvi.data._schema import Schema
from rmcvi.data._sniff import SAMPLE, Wishes, sniff_lines, sniff_table

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
    if not any(line.data.strip() for line in lines):
        raise DataError(f"{name}: got no rows, expected rows of numbers")
    encoding = find_encoding(lines, name)
    texts = [decode(line, encoding) for line in lines]
    top = next(text.strip() for text in texts if text.strip())
    if not top.startswith(("{", "[")):
        return sniff_lines(texts, wishes, name, encoding)
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
        top = None
        for part in self.parts:
            for line in file_lines(part):
                if line.number > 1 or top is None:
                    top = top or line.data
                    yield line
                elif line.data != top:
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
            place_in_part = after if after is not None and after.name == str(part) else None
            for record in self._part(part, schema, place_in_part):
                yield str(part), record

    def _part(self, part: Path, schema: Schema, after: Source | None) -> Iterator[Record]:
        offset = after.offset if after else 0
        if schema.kind == "parquet":
            shape_of(parquet_names(part), schema, str(part))
            return parquet_records(part, schema.names, offset)
        shape = Shape.plain(schema)
        if schema.kind == "delimited" and schema.header:
            header = next(_cut(self._top(part), schema, str(part)), None)
            if header is None:
                return iter(())
            shape = shape_of([str(cell) for cell in header.cells or []], schema, str(part))
            if after is None:
                lines = self._lines(part, header.end, header.last)
                return shape.fit(_cut(lines, schema, str(part)))
        lines = self._lines(part, offset, after.line if after else 0)
        return shape.fit(_cut(lines, schema, str(part)))

    def _top(self, part: Path) -> Iterable[Line]:
        if not self.follow:
            return file_lines(part)
        pace = self._pace
        return first_lines(part, 20, pace.stop, pace.sleep, least=1, poll=pace.poll)

    def _lines(self, part: Path, offset: int, number: int) -> Iterator[Line]:
        if self.follow:
            pace = self._pace
            return follow_lines(part, pace.stop, pace.sleep, offset, number, pace.poll)
        if part.is_file() and part.suffix != ".gz" and offset > part.stat().st_size:
            message = f"{part}: is shorter than the {offset} bytes at which reading stopped"
            raise DataError(message)
        return file_lines(part, offset, number)


class PipeOrigin:
    """A pipe or file object, read once; offsets count its rows."""

    def __init__(self, stream: Any, name: str, pace: Pace):
        self._lines, self.name, self._pace = PipeLines(stream, name), name, pace

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
        records = _cut(self._lines, schema, self.name)
        shape = Shape.plain(schema)
        if schema.kind == "delimited" and schema.header:
            header = next(records, None)
            if header is None:
                raise DataError(f"{self.name}: got no rows, expected rows of numbers")
            shape = shape_of([str(cell) for cell in header.cells or []], schema, self.name)
        skip = after.offset if after else 0
        for i, record in enumerate(shape.fit(records)):
            if i >= skip:
                yield self.name, record._replace(start=i, end=i + 1)


def _cut(lines: Iterable[Line], schema: Schema, name: str) -> Iterator[Record]:
    if schema.kind == "json":
        return json_records(lines, schema)
    return _without_top_blanks(delimited_records(lines, schema, name))


def _without_top_blanks(records: Iterator[Record]) -> Iterator[Record]:
    return itertools.dropwhile(lambda r: r.cells is not None and not any(r.cells), records)
