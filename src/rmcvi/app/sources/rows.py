"""From the cells of a record to the numbers of a row, and what is bad about it."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rmcvi.app.sources.cells import CALENDAR, parse_time, show, to_number
from rmcvi.app.sources.clock import SET_BACK, Clock
from rmcvi.app.sources.errors import place
from rmcvi.app.sources.observation import Vector
from rmcvi.app.sources.records import Record
from rmcvi.app.sources.schema import Schema
from rmcvi.app.sources.sentinels import HUGE, is_fill

LATE = ("repeated", "backward")
"""Faults of a row that comes after a row of the same or a later time."""


@dataclass
class Row:
    """A row before it has its place in time; `faults` are kinds with sentences."""

    y: Vector
    u: Vector
    time: float | None = None
    time_text: str | None = None
    faults: list[tuple[str, str]] = field(default_factory=list)
    fills: list[str] = field(default_factory=list)
    """Where fill values were, which mean missing everywhere."""
    set_back: str | None = None
    """A sentence if the clock was set back before this row."""

    @property
    def late(self) -> bool:
        """Whether the time does not move on: such a row is left out, whatever else it is."""
        return any(kind in LATE for kind, _ in self.faults)


class RowParser:
    """Reads records of one schema."""

    def __init__(self, schema: Schema):
        self._schema = schema
        index = {name: i for i, name in enumerate(schema.names)}
        self._time = [index[name] for name in schema.time]
        self._columns = [self._column(index, name) for name in schema.columns]
        self._inputs = [self._column(index, name) for name in schema.inputs]
        self._words = frozenset(schema.missing)

    def _column(self, index: dict[str, int], name: str) -> tuple[str, int, frozenset[float]]:
        return name, index[name], frozenset(self._schema.sentinels.get(name, ()))

    def is_blank(self, record: Record) -> bool:
        """Whether there is nothing in any cell."""
        cells = record.cells
        return cells is not None and not any(
            cell is None or not isinstance(cell, str) or cell.strip() for cell in cells
        )

    def is_header(self, record: Record) -> bool:
        """Whether a header line comes again: concatenated or rotated files."""
        if self._schema.kind != "delimited" or not self._schema.header or not record.cells:
            return False
        first = self._columns[0]
        if str(record.cells[first[1]]).strip() != first[0]:
            return False
        pairs = zip(record.cells, self._schema.names, strict=True)
        return all(str(cell).strip() == name for cell, name in pairs if cell)

    def parse(self, name: str, record: Record, clock: Clock) -> Row:
        """The numbers of a record; what is no number is missing and a fault."""
        cells = record.cells
        if cells is None:
            nothing = np.full(len(self._columns), np.nan), np.full(len(self._inputs), np.nan)
            kind = "ragged" if "expected" in record.reason else "unreadable"
            return Row(
                *nothing, faults=[(kind, f"{place(name, record.first)}: got {record.reason}")]
            )
        row = Row(np.empty(0), np.empty(0))
        row.y = self._numbers(self._columns, name, record, row)
        row.u = self._numbers(self._inputs, name, record, row)
        if self._time:
            self._tell_time(name, record, clock, row)
        return row

    def _numbers(
        self, columns: list[tuple[str, int, frozenset[float]]], name: str, record: Record, row: Row
    ) -> Vector:
        values = np.empty(len(columns))
        assert record.cells is not None
        quick = self._schema.decimal == "."
        for k, (column, i, sentinels) in enumerate(columns):
            cell, value = record.cells[i], math.inf
            if quick and type(cell) is str and "_" not in cell:
                # Most cells end here, without a call.
                try:
                    value = float(cell)
                except ValueError:
                    value = math.inf
            if not -HUGE < value < HUGE:
                value = self._number(cell, column, name, record, row)
            values[k] = math.nan if value in sentinels else value
        return values

    def _number(self, cell: Any, column: str, name: str, record: Record, row: Row) -> float:
        try:
            value = to_number(cell, self._schema.decimal, self._words)
            if not is_fill(value) or column in self._schema.huge:
                return value
            row.fills.append(f"{place(name, record.first, column)}: {value:g}")
            return math.nan
        except ValueError:
            where = place(name, record.first, column)
            row.faults.append(("text", f"{where}: got {show(cell)}, expected a number"))
            return math.nan

    def _tell_time(self, name: str, record: Record, clock: Clock, row: Row) -> None:
        assert record.cells is not None
        schema = self._schema
        cells = [record.cells[i] for i in self._time]
        row.time_text = " ".join(str(cell).strip() for cell in cells if cell is not None)
        try:
            row.time = parse_time(cells, schema.time_format, schema.decimal)
        except ValueError:
            where, form = place(name, record.first, schema.time[0]), schema.time_format
            what = f"a time ({form})" if form in CALENDAR else "a number that tells the time"
            sentence = f"{where}: got {show(row.time_text)}, expected {what}"
            row.faults.append(("no_time", sentence))
            return
        fault = clock.order(row.time)
        if fault is None:
            return
        got = f"{place(name, record.first, schema.time[0])}: got {row.time_text!r}"
        if fault == "set back":
            row.set_back = f"{got}, and {SET_BACK} rows before it were late, but in order"
            return
        word = "the time of the row before again" if fault == "repeated" else "an earlier time"
        row.faults.append((fault, f"{got}, {word}, expected a later one"))
