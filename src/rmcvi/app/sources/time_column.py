"""Which column tells the time, and in which format."""

from collections.abc import Mapping, Sequence

import numpy as np

from rmcvi.app.sources.cells import (
    CALENDAR,
    FIELDS,
    clock_seconds,
    counts_from_1970,
    is_clock,
    is_date,
    is_missing,
    parse_time,
    to_number,
)
from rmcvi.app.sources.errors import DataError, place
from rmcvi.app.sources.observation import Vector

Table = Mapping[str, Sequence[object]]
SHARE = 0.8
"""Share of a column's cells that must be of a kind; the others are bad rows."""
_CLOCKS = ("t", "time", "times", "timestamp", "time_stamp", "ts", "date", "datetime", "date_time")
_COUNTERS = (
    "epoch",
    "unix",
    "unixtime",
    "unix_time",
    "index",
    "idx",
    "step",
    "row",
    "sample",
    "seq",
    "year",
)
_NAMES = frozenset({*_CLOCKS, *_COUNTERS})
_OLDEST = -3.06e10
"""The year 1000: a smaller one is a number of years."""


def mostly(flags: Sequence[bool]) -> bool:
    """Whether there are any and nearly all are true."""
    return bool(flags) and sum(flags) >= SHARE * len(flags)


def present(cells: Sequence[object]) -> list[object]:
    """The cells that hold something."""
    return [cell for cell in cells if not is_missing(cell)]


def read_numbers(cells: Sequence[object], decimal: str) -> Vector:
    """The numbers of a column; NaN for whatever is none."""
    values = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        try:
            values[i] = to_number(cell, decimal)
        except ValueError:
            continue
    return values


def read_times(table: Table, columns: Sequence[str], form: str, decimal: str) -> Vector:
    """The readable times of the first rows."""
    times = []
    for cells in zip(*(table[c] for c in columns), strict=True):
        try:
            times.append(parse_time(cells, form, decimal))
        except ValueError:
            continue
    return np.array(times, float)


def find_time(table: Table, decimal: str) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Time columns (none, one, two, or a date in parts), their format and notes."""
    for name in table:
        form, notes = date_format(table, name)
        if form is not None:
            clock = _clock_column(table, name, form)
            return (name, *clock), form, notes
    parts = _parts(table)
    if len(parts) > 1 and _are_parts(table, parts, decimal):
        return parts, "fields", ()
    for i, name in enumerate(table):
        form = _number_format(table, name, decimal, first=i == 0)
        if form is not None:
            return (name,), form, ()
    return (), "number", ()


def given_time(
    table: Table, columns: tuple[str, ...], decimal: str, source: str
) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """The format of the time columns that the user named."""
    if not columns:
        return (), "number", ()
    first, *more = columns
    form, notes = date_format(table, first)
    if form is not None:
        return columns, form, notes
    if more:
        named = _parts({name: table[name] for name in columns})
        parts = named if len(named) == len(columns) else columns
        if len(parts) <= len(FIELDS) and _are_parts(table, parts, decimal):
            return parts, "fields", ()
        got = f"{place(source)}: got {', '.join(map(repr, columns))} as time"
        raise DataError(f"{got}, expected a date and a clock, or year, month, day, ..")
    values = read_numbers(table[first], decimal)
    if not mostly((~np.isnan(values)).tolist()):
        message = f"{place(source, column=first)}: got no date or number, expected times"
        raise DataError(message)
    return columns, _unit(values), ()


def date_format(table: Table, name: str) -> tuple[str | None, tuple[str, ...]]:
    """The format of a column of dates, None if it is not one."""
    cells = present(table[name])
    fitting = [form for form in CALENDAR if mostly([is_date(cell, form) for cell in cells])]
    if not fitting:
        return None, ()
    if {"day-month-year", "month-day-year"} <= set(fitting):
        return _day_or_month(table, name)
    return fitting[0], ()


def _day_or_month(table: Table, name: str) -> tuple[str, tuple[str, ...]]:
    """Of two readings: the more readable, more forward, more regular, shorter; else day/month."""
    cells = present(table[name])
    merits = {}
    for form in ("day-month-year", "month-day-year"):
        steps = np.diff(read_times(table, [name], form, "."))
        sizes = np.log(np.abs(steps[steps != 0.0]))
        readable, backward = sum(is_date(cell, form) for cell in cells), int((steps < 0.0).sum())
        spread = round(float(np.std(sizes)), 6) if len(sizes) else 0.0
        merits[form] = (readable, -backward), (-spread, -float(np.abs(steps).sum()))
    best = max(merits, key=lambda form: merits[form])
    sure, _ = zip(*merits.values(), strict=True)
    note = f"Dates in {name!r} fit day/month and month/day; they are read as {best}."
    return best, (note,) if sure[0] == sure[1] else ()


def _parts(table: Table) -> tuple[str, ...]:
    """Columns named year, month, day, ... in this order, up to the first that there is none of."""
    folded = {name.strip().casefold(): name for name in table}
    parts = []
    for names in FIELDS.values():
        found = [folded[name] for name in names if name in folded]
        if not found:
            break
        parts.append(found[0])
    return tuple(parts)


def _are_parts(table: Table, columns: Sequence[str], decimal: str) -> bool:
    rows = [row for row in zip(*(table[c] for c in columns), strict=True) if None not in row]
    return mostly([_is_time(row, decimal) for row in rows])


def _is_time(cells: Sequence[object], decimal: str) -> bool:
    try:
        return parse_time(cells, "fields", decimal) > _OLDEST
    except ValueError:
        return False


def _clock_column(table: Table, date: str, form: str) -> tuple[str, ...]:
    times = read_times(table, [date], form, ".")
    if np.any(times % 86400.0 != 0.0):
        return ()
    names = list(table)
    nearest = sorted(names, key=lambda name: abs(names.index(name) - names.index(date) - 0.5))
    for name in nearest:
        if name != date and mostly([is_clock(cell) for cell in present(table[name])]):
            return (name,)
    for name in nearest:
        hours = present(table[name])
        if name.strip().casefold() in FIELDS["hour"] and mostly([_is_hour(c) for c in hours]):
            return (name,)
    return ()


def _is_hour(cell: object) -> bool:
    try:
        return to_number(cell) % 1.0 == 0.0 and clock_seconds(str(cell)) >= 0.0
    except ValueError:
        return False


def _unit(values: Vector) -> str:
    # Without the ends: a few absurd times are bad rows.
    smallest, largest = np.nanquantile(values, (0.1, 0.9)).tolist()
    return counts_from_1970(smallest, largest) or "number"


def _number_format(table: Table, name: str, decimal: str, first: bool) -> str | None:
    values = read_numbers(present(table[name]), decimal)
    values = values[~np.isnan(values)]
    if not len(values) or len(values) < SHARE * len(present(table[name])):
        return None
    forward = np.diff(values) > 0.0
    if len(values) > 1 and not mostly(forward.tolist()):
        return None
    if name.strip().casefold() in _NAMES:
        return _unit(values)
    if not first or len(values) < 3 or np.any(values % 1.0 != 0.0):
        return None
    unit = _unit(values)
    counter = name == "column 1" and len(set(np.diff(values)[forward].tolist())) == 1
    return unit if unit != "number" or counter else None
