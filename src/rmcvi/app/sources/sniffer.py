"""From the first rows of a source to its schema."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from rmcvi.app.sources.cells import MISSING, is_missing, is_number, show
from rmcvi.app.sources.clock import usual_step
from rmcvi.app.sources.delimited import (
    find_decimal,
    find_delimiter,
    has_header,
    has_units,
    split_lines,
    unique_names,
)
from rmcvi.app.sources.errors import DataError, place, unknown
from rmcvi.app.sources.lines import Line
from rmcvi.app.sources.records import content, decode
from rmcvi.app.sources.schema import Schema
from rmcvi.app.sources.sentinels import reaches_fills, table_sentinels
from rmcvi.app.sources.time_column import (
    Table,
    find_time,
    given_time,
    mostly,
    present,
    read_numbers,
    read_times,
)

SAMPLE = 200
"""Rows that are looked at."""
MAX_COLUMNS = 4096
"""Columns beyond which a table is taken for a mistake, before it takes the memory."""
Codes = Sequence[float | int | str] | Mapping[str, Sequence[float | int | str]]


@dataclass(frozen=True)
class Wishes:
    """What the user said; None = find out."""

    columns: tuple[str, ...] | None = None
    inputs: tuple[str, ...] = ()
    time: tuple[str, ...] | None = None
    delimiter: str | None = None
    sentinels: Codes | None = None
    ignored: tuple[str, ...] = ()


def sniff_lines(lines: Sequence[Line], wishes: Wishes, source: str, encoding: str) -> Schema:
    """The schema of delimited text from its first lines, header included."""
    comments = list(takewhile(_is_comment, (line for line in lines if content(line).strip())))
    comment = "#" if comments else ""
    delimiter = wishes.delimiter or find_delimiter(lines, encoding, comment)
    rows = split_lines(lines, delimiter, encoding, comment)
    if not rows:
        raise DataError(f"{source}: got no row of cells, expected a table with numbers")
    decimal = find_decimal(rows, delimiter)
    header = has_header(rows, decimal)
    width = len(rows[0]) if header else Counter(map(len, rows)).most_common(1)[0][0]
    cells = rows[0] if header else _commented_names(comments, delimiter, width, encoding)
    names = unique_names(cells)
    nameless = {n for n, cell in zip(names, cells, strict=True) if header and not cell.strip()}
    data = [row for row in rows[1:] if row != rows[0]] if header else rows
    units = tuple(data[0]) if header and data and has_units(data, decimal) else ()
    schema = Schema(
        kind="delimited",
        names=names,
        columns=(),
        delimiter=delimiter,
        decimal=decimal,
        header=header,
        encoding=encoding,
        comment=comment,
        units=tuple(cell.strip() for cell in units),
    )
    return sniff_table(schema, data[1:] if units else data, wishes, source, nameless)


def _is_comment(line: Line) -> bool:
    return content(line).startswith(b"#")


def _commented_names(
    comments: Sequence[Line], delimiter: str, width: int, encoding: str
) -> list[str]:
    """The names in the last comment above rows that have no header, if they are as many."""
    if comments:
        text = decode(comments[-1], encoding).lstrip("#")
        for cells in (text.split(delimiter), text.split()):
            if len(cells) == width:
                return cells
    return [""] * width


@np.errstate(over="ignore", invalid="ignore")  # differences of absurd numbers
def sniff_table(
    schema: Schema,
    rows: Sequence[Sequence[object]],
    wishes: Wishes,
    source: str,
    nameless: set[str] | None = None,
) -> Schema:
    """Complete a schema by the roles of its columns, from the first rows."""
    if len(schema.names) > MAX_COLUMNS:
        message = f"got {len(schema.names)} columns, expected {MAX_COLUMNS} at most"
        raise DataError(f"{source}: {message}; split the table")
    if not rows:
        raise DataError(f"{source}: got no rows below the header, expected rows of numbers")
    words = _words(wishes.sentinels)
    table = {
        name: [None if i >= len(row) or is_missing(row[i], words) else row[i] for row in rows]
        for i, name in enumerate(schema.names)
    }
    for what, asked in (("columns", wishes.columns), ("inputs", wishes.inputs)):
        _check_known(f"{source}, {what}", asked or (), table)
    _check_known(f"{source}, time", wishes.time or (), table)
    if wishes.time is None:
        free = {
            n: c for n, c in table.items() if n not in {*wishes.inputs, *(wishes.columns or ())}
        }
        time, form, notes = find_time(free, schema.decimal)
    else:
        time, form, notes = given_time(table, wishes.time, schema.decimal, source)
    columns, left_out = _columns(table, schema.decimal, wishes, time, nameless or set(), source)
    step, regular = None, False
    if time:
        times = read_times(table, time, form, schema.decimal)
        step, regular = usual_step(times, calendar=form != "number")
    used = {n: read_numbers(table[n], schema.decimal) for n in (*columns, *wishes.inputs)}
    sentinels = _sentinels(wishes.sentinels, used, source)
    return replace(
        schema,
        columns=columns,
        inputs=wishes.inputs,
        time=time,
        time_format=form,
        step=step and step.size,
        regular=regular,
        months=step.months if step else 0,
        month_day=step.day if step else 1,
        missing=words,
        sentinels=sentinels,
        huge=tuple(name for name, values in used.items() if reaches_fills(values)),
        notes=(*schema.notes, *notes, *left_out),
    )


def _check_known(what: str, asked: Sequence[str], table: Table) -> None:
    for name in asked:
        if name not in table:
            raise DataError(unknown(what, name, table))


def _columns(
    table: Table,
    decimal: str,
    wishes: Wishes,
    time: tuple[str, ...],
    nameless: set[str],
    source: str,
) -> tuple[tuple[str, ...], list[str]]:
    """Observed columns, and sentences about those left out."""
    for name in (*(wishes.columns or ()), *wishes.inputs):
        cells = present(table[name])
        if cells and not mostly([is_number(cell, decimal) for cell in cells]):
            text = next(cell for cell in cells if not is_number(cell, decimal))
            where = place(source, column=name)
            raise DataError(f"{where}: got {show(text)}, expected a column of numbers")
    if wishes.columns is not None:
        return wishes.columns, []
    found, text, empty = [], [], []
    for name, column in table.items():
        cells = present(column)
        if name in (*time, *wishes.inputs, *wishes.ignored) or (name in nameless and not cells):
            continue
        kind = found if mostly([is_number(c, decimal) for c in cells]) else text if cells else empty
        kind.append(name)
    if not found:
        shown = ", ".join(map(repr, [*text, *empty, *time][:12])) or "no columns at all"
        raise DataError(f"{source}: got no column of numbers to observe, only {shown}")
    notes = [f"Left out, for it holds text: {', '.join(text)}."] if text else []
    if empty:
        notes.append(f"Left out, for its first rows are empty: {', '.join(empty)}.")
    return tuple(found), notes


def _words(said: Codes | None) -> tuple[str, ...]:
    """Words that mean missing."""
    lists = said.values() if isinstance(said, Mapping) else [said or ()]
    more = [code for codes in lists for code in codes if isinstance(code, str)]
    folded = [code.strip().casefold() for code in more if not is_number(code)]
    return tuple(dict.fromkeys([*MISSING, *folded]))


def _sentinels(
    said: Codes | None, used: Mapping[str, np.ndarray], source: str
) -> dict[str, tuple[float, ...]]:
    """Numbers that mean missing, by column."""
    if said is None:
        return table_sentinels(used)
    by_column = said if isinstance(said, Mapping) else dict.fromkeys(used, said)
    _check_known(f"{source}, sentinels", tuple(by_column), {name: () for name in used})
    numbers = {n: tuple(float(c) for c in cs if is_number(c)) for n, cs in by_column.items()}
    return {name: codes for name, codes in numbers.items() if codes}
