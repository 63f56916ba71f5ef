"""Rows of cells from lines of text, with the place that each came from."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rmcvi.data._errors import DataError, place
from rmcvi.data._lines import Line
from rmcvi.data._schema import Schema

_BOM = b"\xef\xbb\xbf"
MAX_RECORD = 100
"""Lines that one quoted cell may span."""


class Record(NamedTuple):
    """The cells of a row, None and the reason if it could not be cut into cells.

    It spans the lines `first` to `last` and the offsets `start` to `end`.
    """

    cells: Sequence[Any] | None
    first: int
    last: int
    start: int
    end: int
    reason: str = ""
    raw: tuple[bytes, ...] = ()
    """The lines as they were written; none in Parquet."""

    def text(self, encoding: str) -> str:
        """The record as it was written."""
        if not self.raw:
            return ", ".join(map(str, self.cells or ()))
        return b"".join(self.raw).decode(encoding, "replace").rstrip("\r\n")


def decode(line: Line, encoding: str) -> str:
    """The text of a line; what is no text becomes a mark that no number contains."""
    data = line.data.removeprefix(_BOM) if line.start == 0 else line.data
    return data.decode(encoding, "replace")


class _Feed:
    """Lines for `csv.reader`, which takes exactly those that the next record needs."""

    def __init__(self, lines: Iterable[Line], schema: Schema, name: str):
        self._lines, self._schema, self._name = iter(lines), schema, name
        self.taken: list[Line] = []

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.taken.append(line)
            if len(self.taken) > MAX_RECORD:
                where = place(self._name, self.taken[0].number)
                message = f"{where}: got a quote that is not closed within {MAX_RECORD} lines"
                raise DataError(message)
            yield decode(line, self._schema.encoding)


def delimited_records(lines: Iterable[Line], schema: Schema, name: str) -> Iterator[Record]:
    """Records of delimited text; a quoted cell may hold line ends."""
    feed = _Feed(lines, schema, name)
    rows = csv.reader(feed, delimiter=schema.delimiter, skipinitialspace=True)
    while True:
        reason = ""
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            cells, reason = None, f"a row that cannot be cut into cells ({error})"
        first, last = feed.taken[0], feed.taken[-1]
        raw = tuple(line.data for line in feed.taken)
        feed.taken.clear()
        yield Record(cells, first.number, last.number, first.start, last.end, reason, raw)


def json_records(lines: Iterable[Line], schema: Schema) -> Iterator[Record]:
    """Records of JSON lines: the values of the schema's names, None where one is absent."""
    for line in lines:
        text = decode(line, schema.encoding)
        where = (line.number, line.number, line.start, line.end)
        if not text.strip():
            yield Record([], *where, raw=(line.data,))
            continue
        row = parse_object(text)
        if row is None:
            yield Record(None, *where, "no JSON object", (line.data,))
        else:
            yield Record([row.get(name) for name in schema.names], *where, raw=(line.data,))


def parse_object(text: str) -> dict[str, Any] | None:
    """The JSON object in a line, None if it holds none."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
