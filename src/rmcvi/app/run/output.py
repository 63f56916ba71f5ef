"""Rows of output: one JSON object or one CSV row per observation, and where they go.

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

import numpy as np

from rmcvi.app.run.refusal import Refusal
from rmcvi.app.run.speech import printable
from rmcvi.learners import Estimate

FIRST = ("row", "time", "log_score", "elbo", "ess", "alarms")
PARTS = ("", ".mean", ".low", ".high", ".filled", ".failure")
FORMATS = ("jsonl", "csv")
NONE = frozenset(["nan", "inf", "-inf"])


def fields(columns: Sequence[str], states: int) -> list[str]:
    """Names in their order."""
    hidden = [f"state.{i}.{part}" for i in range(states) for part in ("mean", "std")]
    return [*FIRST, *(c + part for c in columns for part in PARTS), *hidden]


def moment(time: float | None, calendar: bool) -> str | float | None:
    """A time as ISO text, or the number that it is."""
    if time is None or not calendar:
        return time
    try:
        return datetime.fromtimestamp(time, UTC).replace(tzinfo=None).isoformat()
    except (ValueError, OverflowError, OSError):
        return time


class Lines:
    """Turns what was told of a row into a line of text."""

    def __init__(self, columns: Sequence[str], form: str):
        self.columns, self.form = list(columns), form
        self._json, self._many = "", ""

    def header(self, states: int) -> str:
        """The first line of CSV; nothing for JSON lines."""
        names = map(csv_text, fields(self.columns, states))
        return csv_line(list(names)) if self.form == "csv" else ""

    def line(self, row: int, time: str | float | None, seen: np.ndarray, told: Estimate) -> str:
        """One row; `seen` are the values as they came."""
        if not self._json:
            self._prepare(len(told.state_mean))
        per_column = np.stack([told.mean, told.low, told.high, told.filled, told.failure], 1)
        hidden = np.stack([told.state_mean, told.state_std], 1)
        numbers = [told.log_score, told.elbo, told.ess, *per_column.ravel().tolist()]
        nothing = "" if self.form == "csv" else "null"
        cells = (self._many % (*numbers, *hidden.ravel().tolist())).split()
        cells = [nothing if cell in NONE else cell for cell in cells]
        values = [repr(v) if math.isfinite(v) else nothing for v in seen.tolist()]
        width = per_column.shape[1]
        told_of = [[v, *cells[3 + width * i : 3 + width * (i + 1)]] for i, v in enumerate(values)]
        rest = [cell for part in told_of for cell in part] + cells[3 + width * len(values) :]
        if self.form == "csv":
            start = [str(row), nothing if time is None else str(time), *cells[:3]]
            return csv_line([*start, csv_text("; ".join(told.alarms)), *rest])
        alarms = dumps(list(told.alarms)) if told.alarms else "[]"
        return self._json % (row, dumps(time), *cells[:3], alarms, *rest)

    def _prepare(self, states: int) -> None:
        """Formats of a whole row: nine digits, so that a counter of 1e9 is told to the unit."""
        names = fields(self.columns, states)
        pairs = (dumps(name).replace("%", "%%") + ": %s" for name in names)
        self._json = "{" + ", ".join(pairs) + "}\n"
        self._many = "%.9g " * (3 + 5 * len(self.columns) + 2 * states)


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
