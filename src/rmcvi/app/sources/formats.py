"""How rows are written: delimited text, JSON lines, Parquet, Arrow.

A new format is one more entry of `FORMATS`; whatever holds rows (a file, a part of a directory, a
pipe) reads them through it.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rmcvi.app.sources.delimited import Shape, shape_of
from rmcvi.app.sources.errors import DataError, place, unknown
from rmcvi.app.sources.lines import UNENDED, Line, find_encoding
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

_BATCH = 4096
"""Rows at a time: a few megabytes of Python objects, and few calls."""
_ARROW_FILE, _OLD_FEATHER = b"ARROW1", b"FEA1"
Scan = Callable[[Any, Path], Any]
"""From polars and a path to a lazy frame."""


@dataclass(frozen=True)
class Part:
    """One file of a source, or a pipe: what a format reads from."""

    name: str
    lines: Callable[[int, int], Iterator[Line]]
    """The lines after an offset, before which so many lines come."""
    path: Path = Path()
    grows: bool = False
    """Whether a last line without its end may be half of a line."""


@runtime_checkable
class Format(Protocol):
    """How rows are written."""

    @property
    def kind(self) -> str:
        """As `Schema.kind` says it."""
        ...

    @property
    def endings(self) -> tuple[str, ...]:
        """Of the names of such files."""
        ...

    @property
    def is_text(self) -> bool:
        """Whether offsets count bytes, and the file may grow; offsets count rows otherwise."""
        ...

    def sniff(
        self, paths: Sequence[Path], lines: Callable[[], list[Line]], wishes: Wishes
    ) -> Schema:
        """The schema of parts, from their first rows (`lines` gives those of text)."""
        ...

    def records(
        self, part: Part, schema: Schema, offset: int = 0, line: int = 0
    ) -> Iterator[Record]:
        """The rows of a part after an offset, before which so many lines come."""
        ...

    def frame(self, part: Part, schema: Schema, offset: int, count: int) -> Any:
        """So many rows from an offset on as columns of polars; None for text, which has lines."""
        ...


@dataclass(frozen=True)
class Text:
    """Lines of text, cut into records by `cut`."""

    kind: str
    endings: tuple[str, ...]
    cut: Callable[[Iterable[Line], Schema, bool], Iterator[Record]]
    is_text: bool = True

    def sniff(
        self, paths: Sequence[Path], lines: Callable[[], list[Line]], wishes: Wishes
    ) -> Schema:
        """The lines themselves say whether they are delimited or JSON, whatever the file's name."""
        return sniff_text(lines(), wishes, str(paths[0]))

    def records(
        self, part: Part, schema: Schema, offset: int = 0, line: int = 0
    ) -> Iterator[Record]:
        """Below the header, if there is one; its columns may stand in another order."""
        shape = Shape.plain(schema)
        headed = self.kind == "delimited" and schema.header
        if offset and not headed:
            return shape.fit(self.cut(part.lines(offset, line), schema, part.grows))
        records = self.cut(part.lines(0, 0), schema, part.grows)
        if headed:
            header = next((r for r in records if r.cells is None or any(r.cells)), None)
            if header is None or header.reason == UNFINISHED:
                return iter(() if header is None else (header,))
            if header.cells is None:
                where = place(part.name, header.first)
                raise DataError(f"{where}: got {header.reason}, expected a header")
            shape = shape_of([str(cell) for cell in header.cells], schema, part.name)
            if offset:
                records = self.cut(part.lines(offset, line), schema, part.grows)
        return shape.fit(records)

    def frame(self, part: Part, schema: Schema, offset: int, count: int) -> Any:
        """Its rows have no numbers to go to."""
        return None


def scan_parquet(polars: Any, path: Path) -> Any:
    """A Parquet file."""
    return polars.scan_parquet(path, glob=False)


def scan_arrow(polars: Any, path: Path) -> Any:
    """An Arrow IPC file, of which Feather is another name, or stream, which is read as a whole."""
    with path.open("rb") as file:
        top = file.read(6)
    if top.startswith(_OLD_FEATHER):
        raise DataError(f"{path}: got Feather of version 1, expected version 2, which is Arrow")
    if top == _ARROW_FILE:
        return polars.scan_ipc(path, glob=False)
    return polars.read_ipc_stream(path).lazy()


def table_names(path: Path, scan: Scan, title: str) -> list[str]:
    """The columns of a file."""
    polars = _polars(path, title)
    try:
        return list(scan(polars, path).collect_schema().names())
    except DataError:
        raise
    except Exception as error:
        raise _damaged(path, title, error) from None


def table_records(
    path: Path, scan: Scan, title: str, names: Sequence[str], offset: int = 0
) -> Iterator[Record]:
    """Rows from `offset` on, with their cells in the order of `names`."""
    polars, lazy = _polars(path, title), None
    while True:
        try:
            lazy = scan(polars, path).select(list(names)) if lazy is None else lazy
            frame = lazy.slice(offset, _BATCH).collect()
        except DataError:
            raise
        except Exception as error:
            raise _damaged(path, title, error) from None
        for cells in frame.iter_rows():
            offset += 1
            yield Record(list(cells), offset, offset, offset - 1, offset)
        if len(frame) < _BATCH:
            return


def _polars(path: Path, title: str) -> Any:
    try:
        import polars
    except ImportError:
        message = f"{path}: reading {title} needs polars; install rmcvi with its extra 'app'"
        raise DataError(message) from None
    return polars


def _damaged(path: Path, title: str, error: Exception) -> DataError:
    first = str(error).strip().partition("\n")[0]
    return DataError(f"{path}: cannot be read as {title} ({first})")


@dataclass(frozen=True)
class Table:
    """A file that is read by polars; offsets count its rows."""

    kind: str
    endings: tuple[str, ...]
    title: str
    scan: Callable[[Any, Path], Any]
    is_text: bool = False

    def sniff(
        self, paths: Sequence[Path], lines: Callable[[], list[Line]], wishes: Wishes
    ) -> Schema:
        """From the first rows of the parts that have the same columns."""
        del lines
        names = tuple(self._names(paths[0]))
        alike = itertools.takewhile(lambda p: set(self._names(p)) == set(names), paths)
        records = itertools.chain.from_iterable(self._rows(path, names) for path in alike)
        rows = [record.cells or [] for record in itertools.islice(records, SAMPLE)]
        schema = Schema(kind=self.kind, names=names, columns=())
        return sniff_table(schema, rows, wishes, str(paths[0]))

    def records(
        self, part: Part, schema: Schema, offset: int = 0, line: int = 0
    ) -> Iterator[Record]:
        """Rows from `offset` on; columns are found by their names."""
        del line
        shape_of(self._names(part.path), schema, part.name)
        return self._rows(part.path, schema.names, offset)

    def frame(self, part: Part, schema: Schema, offset: int, count: int) -> Any:
        """So many rows from `offset` on as columns."""
        polars = _polars(part.path, self.title)
        try:
            lazy = self.scan(polars, part.path).select(list(schema.names))
            return lazy.slice(offset, count).collect()
        except DataError:
            raise
        except Exception as error:
            raise _damaged(part.path, self.title, error) from None

    def _names(self, path: Path) -> list[str]:
        return table_names(path, self.scan, self.title)

    def _rows(self, path: Path, names: Sequence[str], offset: int = 0) -> Iterator[Record]:
        return table_records(path, self.scan, self.title, names, offset)


def _cut_delimited(lines: Iterable[Line], schema: Schema, grows: bool) -> Iterator[Record]:
    return cut_records(lines, schema.delimiter, schema.encoding, schema.comment, grows)


def _cut_json(lines: Iterable[Line], schema: Schema, grows: bool) -> Iterator[Record]:
    del grows
    return json_records(lines, schema)


FORMATS: tuple[Format, ...] = (
    Text("delimited", (".csv", ".tsv", ".txt", ".dat"), _cut_delimited),
    Text("json", (".jsonl", ".ndjson", ".json"), _cut_json),
    Table("parquet", (".parquet", ".pq"), "Parquet", scan_parquet),
    Table("arrow", (".arrow", ".arrows", ".feather", ".ipc"), "Arrow", scan_arrow),
)
ENDINGS = tuple(ending for form in FORMATS for ending in form.endings)


def format_of(path: Path) -> Format:
    """The format that a file's name says; text if it says none."""
    ending = path.suffix.casefold()
    return next((form for form in FORMATS if ending in form.endings), FORMATS[0])


def format_named(kind: str) -> Format:
    """The format of a schema."""
    known = {form.kind: form for form in FORMATS}
    if kind not in known:
        raise DataError(unknown("schema, kind", kind, known))
    return known[kind]


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
