"""Plain rows by the thousand: a block of a file as columns, instead of record by record.

A block is plain if every row has its cells, a key, a time and numbers (or words for missing ones).
One that is not is read record by record, which tells what is wrong with it; the rows are the same.
"""

import io
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rmcvi.app.sources.cells import parse_time
from rmcvi.app.sources.formats import Part, format_named
from rmcvi.app.sources.lines import can_grow
from rmcvi.app.sources.records import Record
from rmcvi.app.sources.schema import Schema
from rmcvi.app.sources.sentinels import HUGE

LINE = 48
"""Bytes of a line, at a guess: blocks may hold more or fewer rows than asked for."""


class Plain(NamedTuple):
    """The columns of plain rows."""

    names: list[str]
    """The keys, each once."""
    codes: np.ndarray
    """Of each row, the place of its key among them."""
    times: np.ndarray
    """NaN if there are none."""
    y: np.ndarray


class Chunk(NamedTuple):
    """Some rows of a part, and where they are: `frame` is None if they are not to be trusted."""

    part: Part
    frame: Any
    start: int
    end: int
    line: int
    """Lines before them."""
    lines: int
    data: bytes = b""

    def plain(self, schema: Schema, key: str) -> Plain | None:
        """The columns, if all rows are plain."""
        return None if self.frame is None else columns(self.frame, schema, key)

    def record(self, row: int, schema: Schema) -> Record:
        """One of the rows as a record."""
        cells = list(self.frame.row(row))
        if not self.data:
            at = self.start + row
            return Record(cells, at + 1, at + 1, at, at + 1)
        lines = self.data.splitlines(keepends=True)
        start = self.start + sum(map(len, lines[:row]))
        number = self.line + row + 1
        end = start + len(lines[row])
        return Record(cells, number, number, start, end, raw=(lines[row],))


def suits(schema: Schema, part: Part) -> bool:
    """Whether blocks of such a source can be plain at all."""
    simple = not schema.inputs and len(schema.time) < 2 and not schema.months
    if schema.kind in ("parquet", "arrow"):
        return simple
    text = schema.kind == "delimited" and schema.header and schema.decimal == "."
    text = text and not schema.comment and schema.encoding == "utf-8" and simple
    if not text or not can_grow(part.path):
        return False
    with part.path.open("rb") as file:
        top = file.readline().decode("utf-8", "replace").strip()
    return top.split(schema.delimiter) == list(schema.names)


def chunks(
    part: Part, schema: Schema, offset: int, line: int, size: Any, end: int | None
) -> Iterator[Chunk]:
    """A part from an offset on, `size()` rows or so at a time, up to an offset if one is given."""
    if schema.kind != "delimited":
        yield from _tables(part, schema, offset, size, end)
        return
    with part.path.open("rb") as file:
        if not offset:
            offset, line = len(file.readline()), 1
        file.seek(offset)
        while True:
            room = LINE * size() if end is None else min(LINE * size(), end - offset)
            data = file.read(room)
            if data and not data.endswith(b"\n") and (end is None or offset + room < end):
                data += file.readline()
            if not data or not data.endswith(b"\n"):
                if data:  # a last line without its end
                    yield Chunk(part, None, offset, offset + len(data), line, 1)
                return
            lines = data.count(b"\n")
            frame = _frame(data, schema, lines)
            yield Chunk(part, frame, offset, offset + len(data), line, lines, data)
            offset, line = offset + len(data), line + lines


def _tables(part: Part, schema: Schema, offset: int, size: Any, end: int | None) -> Iterator[Chunk]:
    form = format_named(schema.kind)
    while end is None or offset < end:
        count = size() if end is None else min(size(), end - offset)
        frame = form.frame(part, schema, offset, count)
        if not len(frame):
            return
        yield Chunk(part, frame, offset, offset + len(frame), offset, len(frame))
        offset += len(frame)


def _frame(data: bytes, schema: Schema, lines: int) -> Any:
    """The cells of whole lines as text; None if they could be cut in another way."""
    import polars

    if b'"' in data or data.count(schema.delimiter.encode()) != lines * (len(schema.names) - 1):
        return None
    try:
        frame = polars.read_csv(
            io.BytesIO(data),
            has_header=False,
            new_columns=list(schema.names),
            separator=schema.delimiter,
            infer_schema=False,
            quote_char=None,
        )
    except polars.exceptions.PolarsError:
        return None
    return frame if frame.shape == (lines, len(schema.names)) else None


def columns(frame: Any, schema: Schema, key: str) -> Plain | None:
    """What plain rows hold; None if one of them is not plain."""
    import polars

    keys = frame[key].cast(polars.String, strict=False).str.strip_chars()
    if keys.null_count() or (keys == "").any():
        return None
    found = [_numbers(frame[name], name, schema) for name in schema.columns]
    if any(part is None for part in found):
        return None
    times = _times(frame[schema.time[0]], schema) if schema.time else np.full(len(frame), np.nan)
    if times is None:
        return None
    names = keys.unique(maintain_order=True)
    codes = keys.replace_strict(names, range(len(names)), return_dtype=polars.Int64).to_numpy()
    return Plain(names.to_list(), codes, times, np.stack([v for v in found if v is not None], 1))


def _numbers(series: Any, name: str, schema: Schema) -> np.ndarray | None:
    import polars

    if series.dtype == polars.String:
        series = series.str.strip_chars()
        numbers = series.cast(polars.Float64, strict=False)
        words = series.filter(numbers.is_null() & series.is_not_null()).unique().to_list()
        if any(word.casefold() not in schema.missing for word in words):
            return None
    elif series.dtype.is_numeric() or series.dtype == polars.Null:
        numbers = series.cast(polars.Float64, strict=False)
    else:
        return None
    values = numbers.fill_null(np.nan).to_numpy().copy()
    if (np.abs(values) >= HUGE).any():
        return None
    values[np.isin(values, schema.sentinels.get(name, ()))] = np.nan
    return values


def _times(series: Any, schema: Schema) -> np.ndarray | None:
    """Seconds; each moment is read once, however many streams have it."""
    import polars

    known: Sequence[Any] = series.unique().to_list()
    try:
        moments = [parse_time([cell], schema.time_format, schema.decimal) for cell in known]
    except (TypeError, ValueError):
        return None
    return series.replace_strict(known, moments, return_dtype=polars.Float64).to_numpy()
