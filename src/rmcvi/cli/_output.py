"""Rows of output: one JSON object or one CSV row per observation, and where they go.

A file is appended to by whole lines; its length in bytes is what a checkpoint remembers.
"""

import csv
import io
import math
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import Any

from rmcvi.cli._app import Refusal
from rmcvi.estimator import Told

FIRST = ("row", "time", "log_score", "elbo", "ess", "alarms")
PARTS = ("", ".mean", ".low", ".high", ".filled", ".failure")
FORMATS = ("jsonl", "csv")


def fields(columns: Sequence[str], states: int) -> list[str]:
    """Names in their order."""
    hidden = [f"state.{i}.{part}" for i in range(states) for part in ("mean", "std")]
    return [*FIRST, *(c + part for c in columns for part in PARTS), *hidden]


def number(value: float) -> str:
    """Seven digits, which is what single precision has; empty if there is none."""
    return f"{value:.7g}" if math.isfinite(value) else ""


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
        self._names: list[str] = []

    def header(self, states: int) -> str:
        """The first line of CSV; nothing for JSON lines."""
        return csv_line(fields(self.columns, states)) if self.form == "csv" else ""

    def line(self, row: int, time: str | float | None, seen: Any, told: Told) -> str:
        """One row; `seen` are the values as they came."""
        cells = [number(told.log_score), number(told.elbo), number(told.ess)]
        numbers: list[str] = []
        parts = (told.mean, told.low, told.high, told.filled, told.failure)
        table = zip(seen.tolist(), *(part.tolist() for part in parts), strict=True)
        for value, *rest in table:
            numbers.append(repr(value) if math.isfinite(value) else "")
            numbers.extend(map(number, rest))
        for pair in zip(told.state_mean.tolist(), told.state_std.tolist(), strict=True):
            numbers.extend(map(number, pair))
        if self.form == "csv":
            start = [str(row), "" if time is None else str(time), *cells, "; ".join(told.alarms)]
            return csv_line([*start, *numbers])
        if not self._names:
            self._names = [dumps(name) for name in fields(self.columns, len(told.state_mean))]
        cells = [str(row), dumps(time), *(c or "null" for c in cells), dumps(list(told.alarms))]
        cells += [c or "null" for c in numbers]
        pairs = zip(self._names, cells, strict=True)
        return "{" + ", ".join(f"{name}: {cell}" for name, cell in pairs) + "}\n"


def csv_line(cells: Sequence[object], delimiter: str = ",") -> str:
    """Cells as a line of CSV."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerow(cells)
    return text.getvalue()


class Appended:
    """A file that grows by whole lines, or (with an OSError) by part of one."""

    def __init__(self, path: Path, length: int):
        """Open a file, cut to `length` bytes: what comes after them was not accounted for."""
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        found = os.fstat(self._file).st_size
        if found < length:
            os.close(self._file)
            raise Refusal(f"{path}: got {found} bytes, expected the {length} of the checkpoint")
        os.ftruncate(self._file, length)
        self.length = length

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
