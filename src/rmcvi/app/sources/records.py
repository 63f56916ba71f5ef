"""Rows of cells from lines of text, with the place that each came from."""

import csv
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rmcvi.app.sources.lines import UNENDED, Line
from rmcvi.app.sources.schema import Schema

_BOM = b"\xef\xbb\xbf"
MAX_RECORD = 100
"""Lines that one quoted cell may span; the quote is a stray one if it takes more."""
MAX_QUOTED = 1 << 16
"""Bytes that these lines may have: half of what `csv` takes as one cell."""
UNFINISHED = "half a record"
"""The reason of a last record that may be half-written."""
_STRAY = "a quote that is not closed"


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
    """The lines as they were written; none in a table."""

    def text(self, encoding: str) -> str:
        """The record as it was written."""
        if not self.raw:
            return ", ".join(map(str, self.cells or ()))
        return b"".join(self.raw).decode(encoding, "replace").rstrip("\r\n")


def decode(line: Line, encoding: str) -> str:
    """The text of a line; what is no text becomes a mark that no number contains."""
    return content(line).decode(encoding, "replace")


def content(line: Line) -> bytes:
    """The bytes of a line without a byte order mark."""
    return line.data.removeprefix(_BOM) if line.start == 0 else line.data


class _OpenQuote(Exception):
    """A record does not end where it should."""


class _Feed:
    """Lines for `csv.reader`, which takes exactly those that the next record needs."""

    def __init__(self, lines: Iterable[Line], encoding: str):
        self._lines, self._encoding = iter(lines), encoding
        self._back: deque[Line] = deque()
        self._size = 0
        self.taken: list[Line] = []
        """Those of the present record."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self.peek()
        if line is None or line.flaw or self._is_full():
            raise _OpenQuote
        self.take()
        return decode(line, self._encoding)

    def _is_full(self) -> bool:
        return len(self.taken) == MAX_RECORD or (self._size > MAX_QUOTED and bool(self.taken))

    def peek(self) -> Line | None:
        """The next line, None at the end."""
        if not self._back:
            line = next(self._lines, None)
            if line is None:
                return None
            self._back.append(line)
        return self._back[0]

    def take(self) -> Line:
        """Make the next line part of the record."""
        line = self._back.popleft()
        self.taken.append(line)
        self._size += len(line.data)
        return line

    def give_back(self) -> None:
        """Leave the record with its first line alone."""
        self._back.extendleft(reversed(self.taken[1:]))
        del self.taken[1:]

    def record(self, cells: Sequence[Any] | None, reason: str = "") -> Record:
        """The record of the lines taken."""
        first, last, raw = self.taken[0], self.taken[-1], tuple(line.data for line in self.taken)
        self.taken, self._size = [], 0
        return Record(cells, first.number, last.number, first.start, last.end, reason, raw)


def cut_records(
    lines: Iterable[Line], delimiter: str, encoding: str, comment: str = "", grows: bool = False
) -> Iterator[Record]:
    """Records of delimited text; a quoted cell may hold line ends.

    A quote that is not closed within reason spoils its own line alone. If the source `grows`, a
    record that has no end at its end is half a record. Comments have no cells.
    """
    feed = _Feed(lines, encoding)
    rows = csv.reader(feed, delimiter=delimiter, skipinitialspace=True)
    mark = comment.encode()
    while (line := feed.peek()) is not None:
        if line.flaw or (mark and content(line).startswith(mark)):
            feed.take()
            reason = UNFINISHED if line.flaw == UNENDED else line.flaw
            yield feed.record(None if reason else [], reason)
            continue
        if (cells := _plain_cells(line, delimiter, encoding)) is not None:
            feed.take()
            yield feed.record(cells)
            continue
        try:
            yield feed.record(next(rows))
        except csv.Error as error:
            feed.give_back()
            yield feed.record(None, _reason(error))
        except _OpenQuote:
            after = feed.peek()
            if grows and (after is None or after.flaw == UNENDED):
                yield feed.record(None, UNFINISHED)
                return
            feed.give_back()
            yield feed.record(None, _STRAY)


def _plain_cells(line: Line, delimiter: str, encoding: str) -> list[str] | None:
    """The cells of most lines, as `csv` would cut them; None if that takes more than cutting."""
    data = line.data
    if b'"' in data or delimiter == " " or len(data) > MAX_QUOTED or b"\r" in data[:-2]:
        return None
    text = decode(line, encoding).removesuffix("\n").removesuffix("\r")
    if "\r" in text:
        return None
    cells = text.split(delimiter) if text else []
    return [cell.lstrip(" ") for cell in cells] if " " in text else cells


def _reason(error: csv.Error) -> str:
    if "new-line" in str(error):
        return "a carriage return in the middle of a row"
    return f"a row that cannot be cut into cells ({error})"


def json_records(lines: Iterable[Line], schema: Schema) -> Iterator[Record]:
    """Records of JSON lines: the values of the schema's names, None where one is absent."""
    for line in lines:
        text = decode(line, schema.encoding)
        where, raw = (line.number, line.number, line.start, line.end), (line.data,)
        if not text.strip():
            yield Record([], *where, raw=raw)
            continue
        # An object that is closed is whole, whether its line has an end or not.
        row = parse_object(text)
        if row is not None:
            yield Record([row.get(name) for name in schema.names], *where, raw=raw)
        elif line.flaw == UNENDED:
            yield Record(None, *where, UNFINISHED, raw)
        else:
            yield Record(None, *where, line.flaw or "no JSON object", raw)


def parse_object(text: str) -> dict[str, Any] | None:
    """The JSON object in a line, None if it holds none."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    # Half of a surrogate pair is no character: it could not be written anywhere.
    return {key.encode("utf-8", "replace").decode(): value for key, value in row.items()}
