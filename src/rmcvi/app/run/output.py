"""Rows of output: JSON, CSV or a table for people, and where they go.

A file is appended to by whole lines; its length in bytes is what a checkpoint remembers.
"""

import csv
import errno
import io
import math
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rmcvi.app.run.estimates import FIELDS, INTEGER, NUMBER, TEXTS, Field, pairs
from rmcvi.app.run.speech import Refusal, printable
from rmcvi.core.files import to_json
from rmcvi.learners import Estimate

FORMATS = ("jsonl", "csv")
NO_NUMBER = frozenset(["nan", "inf", "-inf"])
SHAPES = ("csv", "jsonl", "table")


def moment(time: float | None, calendar: bool) -> str | float | None:
    """A time as ISO text, or the number that it is."""
    if time is None or not calendar:
        return time
    try:
        return datetime.fromtimestamp(time, UTC).replace(tzinfo=None).isoformat()
    except (ValueError, OverflowError, OSError):
        return time


class Lines:
    """Turns a row and what was estimated at it into a line of text."""

    def __init__(self, columns: Sequence[str], form: str, schema: Sequence[Field] = FIELDS):
        self.columns, self.form, self.schema = list(columns), form, schema
        self._of = {per: [f for f in schema if f.per == per] for per in ("row", "column", "state")}
        self._numbers = {
            per: [f.attribute for f in found if f.kind == NUMBER] for per, found in self._of.items()
        }
        self._nothing = "" if form == "csv" else "null"
        self._layout, self._digits = "", ""

    def header(self, states: int) -> str:
        """The first line of CSV; nothing for JSON lines."""
        names = (csv_text(name) for name, _ in pairs(self.columns, range(states), self.schema))
        return csv_line(list(names)) if self.form == "csv" else ""

    def line(self, row: int, time: str | float | None, y: np.ndarray, estimate: Estimate) -> str:
        """One row; `y` are its values as they came."""
        if not self._layout:
            self._prepare(len(estimate.state_mean))
        numbers = [getattr(estimate, name) for name in self._numbers["row"]]
        for per in ("column", "state"):
            if names := self._numbers[per]:
                numbers += np.stack([getattr(estimate, name) for name in names], 1).ravel().tolist()
        nothing = self._nothing
        digits = (self._digits % tuple(numbers)).split()
        cells = iter([nothing if text in NO_NUMBER else text for text in digits])
        line = [
            next(cells) if f.kind == NUMBER else self._text(f.kind, row, time, estimate)
            for f in self._of["row"]
        ]
        for value in y.tolist():
            shown = repr(value) if math.isfinite(value) else nothing
            line += [next(cells) if f.kind == NUMBER else shown for f in self._of["column"]]
        line += cells
        return csv_line(line) if self.form == "csv" else self._layout % tuple(line)

    def _text(self, kind: str, row: int, time: str | float | None, estimate: Estimate) -> str:
        """What is no number of nine digits: the row's number, its time, its alarms."""
        if kind == INTEGER:
            return str(row)
        if self.form == "csv":
            return csv_text("; ".join(estimate.alarms)) if kind == TEXTS else _csv_time(time)
        return dumps(list(estimate.alarms) if kind == TEXTS else time)

    def _prepare(self, states: int) -> None:
        """Formats of a whole row: nine digits, so that a counter of 1e9 keeps its last digit."""
        every = pairs(self.columns, range(states), self.schema)
        parts = (dumps(name).replace("%", "%%") + ": %s" for name, _ in every)
        self._layout = "{" + ", ".join(parts) + "}\n"
        self._digits = "%.9g " * sum(f.kind == NUMBER for _, f in every)


def _csv_time(time: str | float | None) -> str:
    return "" if time is None else str(time)


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

    def __init__(self, path: Path, length: int):
        """Open a file that holds at least `length` bytes; `cut` it there before writing."""
        self.path, self.length = path, length
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
