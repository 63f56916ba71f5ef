"""Rows of output: JSON, CSV or a table for people, and where they go.

A file is appended to by whole lines; its length in bytes and their checksum are what a checkpoint
remembers.
"""

import csv
import errno
import io
import math
import os
import sys
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rmcvi.app.run.estimates import FIELDS, INTEGER, NUMBER, TEXTS, TIME, VALUE, Field, pairs
from rmcvi.app.run.speech import Refusal, printable
from rmcvi.core.files import to_json

if TYPE_CHECKING:
    from rmcvi.learners import Estimates

FORMATS = ("jsonl", "csv")
SHAPES = ("csv", "jsonl", "table")
TEXT_KINDS = (INTEGER, TIME, TEXTS)
_SHOWN = {NUMBER: "%.9g", VALUE: "%r"} | dict.fromkeys(TEXT_KINDS, "%s")
"""Nine digits, so that a counter of 1e9 keeps its last one; values as they came."""
LAYOUTS = 500
"""Most layouts that are kept: one for each way in which values are missing, of late."""


def moment(time: float | None, calendar: bool) -> str | float | None:
    """A time as ISO text, or the number that it is."""
    if time is None or not calendar:
        return time
    try:
        return datetime.fromtimestamp(time, UTC).replace(tzinfo=None).isoformat()
    except (ValueError, OverflowError, OSError):
        return time


class Lines:
    """Turns rows and what was estimated at them into lines of text."""

    def __init__(self, columns: Sequence[str], form: str, schema: Sequence[Field] = FIELDS):
        self.columns, self.form, self.schema = list(columns), form, schema
        self._of = {per: [f for f in schema if f.per == per] for per in ("row", "column", "state")}
        self._texts = [f.kind for f in self._of["row"] if f.kind in TEXT_KINDS]
        self._layouts: dict[bytes, _Layout] = {}

    def header(self, states: int) -> str:
        """The first line of CSV; nothing for JSON lines."""
        names = (csv_text(name) for name, _ in pairs(self.columns, range(states), self.schema))
        return csv_line(list(names)) if self.form == "csv" else ""

    def block(
        self, row: int | Sequence[str], times: Sequence[Any], y: np.ndarray, estimates: "Estimates"
    ) -> str:
        """One line for each row.

        Args:
            row: number of the first; or for each row what stands in the place of its number.
            times: of the rows.
            y: their values as they came.
            estimates: what was estimated at them.
        """
        numbers = range(row, row + len(times)) if isinstance(row, int) else row
        cells, states = self._cells(y, estimates), estimates.state_mean.shape[1]
        texts = [self._column(kind, numbers, times, estimates.alarms) for kind in self._texts]
        lines = [""] * len(times)
        for key, rows in _alike(np.isfinite(cells)):
            layout = self._layouts.get(key) or self._lay_out(key, states)
            parts = cells[rows][:, layout.used].T.tolist()
            for at, column in zip(layout.texts, texts, strict=True):
                parts[at] = [column[i] for i in rows]
            for i, line in zip(rows, zip(*parts, strict=True), strict=True):
                lines[i] = layout.line % line
        return "".join(lines)

    def _cells(self, y: np.ndarray, estimates: "Estimates") -> np.ndarray:
        """All numbers, (rows, cells of a line); 0 where a text will be."""
        none = np.zeros(len(y))
        rows = [
            none if f.kind in TEXT_KINDS else getattr(estimates, f.attribute)
            for f in self._of["row"]
        ]
        parts = [np.stack(rows, 1)]
        for per in ("column", "state"):
            of = [y if f.kind == VALUE else getattr(estimates, f.attribute) for f in self._of[per]]
            if of:
                parts.append(np.stack(of, 2).reshape(len(y), -1))
        return np.concatenate(parts, 1)

    def _column(
        self, kind: str, rows: Sequence[Any], times: Sequence[Any], alarms: Sequence[Any]
    ) -> list[str]:
        """What is no number of nine digits: the rows' numbers, their times, their alarms."""
        if kind == INTEGER:
            return list(map(str, rows))
        if kind == TIME:
            text = json_text if self.form == "jsonl" else (lambda v: _quoted(_csv_time(v)))
            return list(map(text, times))
        if self.form == "jsonl":
            return [dumps(list(own)) if own else "[]" for own in alarms]
        return [_quoted(csv_text("; ".join(own))) for own in alarms]

    def _lay_out(self, key: bytes, states: int) -> "_Layout":
        """The line of all rows whose numbers are finite in the same places."""
        every = pairs(self.columns, range(states), self.schema)
        nothing = "" if self.form == "csv" else "null"
        finite = np.frombuffer(key, bool)
        cells = [
            _SHOWN[f.kind] if here else nothing for (_, f), here in zip(every, finite, strict=True)
        ]
        if self.form == "csv":
            line = ",".join(cells) + "\n"
        else:
            names = (dumps(name).replace("%", "%%") for name, _ in every)
            line = "{" + ", ".join(map("{}: {}".format, names, cells)) + "}\n"
        used = np.flatnonzero(finite)
        texts = [i for i, at in enumerate(used) if every[at][1].kind in TEXT_KINDS]
        if len(self._layouts) >= LAYOUTS:
            self._layouts.clear()
        return self._layouts.setdefault(key, _Layout(line, used, texts))


def _alike(finite: np.ndarray) -> list[tuple[bytes, list[int]]]:
    """The rows that are finite in the same places, with these."""
    whole, width = finite.tobytes(), finite.shape[1]
    rows: dict[bytes, list[int]] = {}
    for i in range(len(finite)):
        rows.setdefault(whole[i * width : (i + 1) * width], []).append(i)
    return list(rows.items())


@lru_cache(maxsize=1 << 14)
def json_text(value: str | float | None) -> str:
    """A key or a time in JSON; many rows have the same."""
    return dumps(value)


class _Layout(NamedTuple):
    """A line with a place for each of its numbers and texts."""

    line: str
    used: np.ndarray
    """The cells that are not empty."""
    texts: list[int]
    """Which of them are texts."""


def _csv_time(time: str | float | None) -> str:
    return "" if time is None else str(time)


def _quoted(text: str) -> str:
    """A cell as it stands in a line with others."""
    return csv_line([text, ""])[:-2]


def csv_text(text: str) -> str:
    """A name or a sentence as a cell: no control characters, and no spreadsheet computes it."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


def csv_line(cells: Sequence[object], delimiter: str = ",") -> str:
    """Cells as a line of CSV."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerow(cells)
    return text.getvalue()


class Appended:
    """A file that grows by whole lines, or (with an OSError) by part of one."""

    def __init__(self, path: Path, length: int, checksum: int | None = None):
        """Open a file that holds at least `length` bytes; `cut` it there before writing.

        Args:
            path: of the file.
            length: as said.
            checksum: CRC-32 of these bytes; None if it is not known.
        """
        self.path, self.length, self.checksum = path, length, checksum
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            self._file = os.open(path, flags, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Refusal(f"{path}: is a link, expected a file of this run") from None
            raise
        found = os.fstat(self._file).st_size
        if found < length:
            self.close()
            raise Refusal(f"{path}: got {found} bytes, expected the {length} of the checkpoint")

    def cut(self) -> None:
        """Drop what comes after `length`: it was not accounted for."""
        os.ftruncate(self._file, self.length)

    def write(self, text: str) -> None:
        """Append; the bytes are the system's when this returns."""
        data = memoryview(text.encode())
        while data:
            try:
                written = os.write(self._file, data)
            except OSError as error:
                error.filename = str(self.path)
                raise
            self.length += written
            if self.checksum is not None:
                self.checksum = zlib.crc32(data[:written], self.checksum)
            data = data[written:]

    def sync(self) -> None:
        """Wait until the bytes are on disk."""
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def to_stdout(text: str) -> None:
    """Write to standard output at once, for whoever reads the pipe."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_rows(names: Sequence[str], rows: Sequence[Sequence[Any]], form: str) -> None:
    """All rows in one of the `SHAPES`; NaN and None are nothing."""
    plain = [[_rounded(cell) for cell in row] for row in rows]
    if form == "jsonl":
        to_stdout("".join(to_json(dict(zip(names, r, strict=True))) + "\n" for r in plain))
    elif form == "csv":
        lines = [
            [csv_text(name) for name in names],
            *(["" if c is None else c for c in row] for row in plain),
        ]
        to_stdout("".join(map(csv_line, lines)))
    else:
        Console(highlight=False).print(_table(names, plain))


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A line per row and column, for however many columns: row, time, column, its numbers."""
    first = list(names[:2])
    pairs = [name.rpartition(".") for name in names[2:]]
    groups = list(dict.fromkeys(group for group, _, _ in pairs))
    parts = list(dict.fromkeys(part for _, _, part in pairs))
    table = Table()
    for name in (*first, "column", *parts):
        table.add_column(name, justify="left" if name == "column" else "right")
    for row in rows:
        cells = {(g, p): _short(v) for (g, _, p), v in zip(pairs, row[2:], strict=True)}
        for i, group in enumerate(groups):
            start = [_short(v) for v in row[:2]] if i == 0 else ["", ""]
            table.add_row(
                *start, escape(printable(group)), *(cells.get((group, p), "") for p in parts)
            )
        table.add_section()
    return table


def _rounded(cell: Any) -> Any:
    if isinstance(cell, float):
        return float(f"{cell:.9g}") if math.isfinite(cell) else None
    return cell


def _short(cell: Any) -> str:
    return "" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else printable(cell)
