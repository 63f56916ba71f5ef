"""The look of delimited text: delimiter, decimal mark, header; the order of a part's columns."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from rmcvi.app.sources.cells import CALENDAR, decimal_mark, is_clock, is_date, is_missing, is_number
from rmcvi.app.sources.errors import DataError, place
from rmcvi.app.sources.lines import Line
from rmcvi.app.sources.records import Record, cut_records
from rmcvi.app.sources.schema import Schema

DELIMITERS = (",", ";", "\t", "|", " ")
_ENOUGH = 20_000
"""Cells that are enough to see whether they make sense: a hundred in each of the first rows."""


def split_lines(
    lines: Sequence[Line], delimiter: str, encoding: str = "utf-8", comment: str = ""
) -> list[list[str]]:
    """The cells of each record; blank ones and those that cannot be cut are left out."""
    rows = [record.cells for record in cut_records(lines, delimiter, encoding, comment)]
    return [list(row) for row in rows if row and any(cell.strip() for cell in row)]


def find_delimiter(lines: Sequence[Line], encoding: str = "utf-8", comment: str = "") -> str:
    """The delimiter under which rows have equally many cells that make the most sense."""
    scores = {m: _score(split_lines(lines, m, encoding, comment), m) for m in DELIMITERS}
    return max(DELIMITERS, key=lambda mark: scores[mark])


def _score(rows: Sequence[Sequence[str]], delimiter: str) -> tuple[float, int]:
    if not rows:
        return 0.0, 0
    widths = Counter(map(len, rows))
    width, agreeing = widths.most_common(1)[0]
    data = rows[1:] or rows
    mark = find_decimal(data, delimiter)
    cells = list(islice((cell for row in data for cell in row), _ENOUGH))
    sense = sum(_makes_sense(cell, mark) for cell in cells) / len(cells)
    # Decimal commas may look like delimiters and the reverse; the header knows which.
    split = len(rows[0]) == width if width > 1 else not any(m in rows[0][0] for m in DELIMITERS[:4])
    return round(sense * (1.0 if split else 0.5) * agreeing / len(rows), 3), width


def _makes_sense(cell: str, decimal: str) -> bool:
    return is_missing(cell) or is_number(cell, decimal) or is_time(cell)


def is_time(cell: object) -> bool:
    """Whether a cell holds a date or a time of day."""
    return is_clock(cell) or any(is_date(cell, form) for form in CALENDAR)


def find_decimal(rows: Sequence[Sequence[object]], delimiter: str) -> str:
    """The decimal mark of text that is split by `delimiter`."""
    return "." if delimiter == "," else decimal_mark([cell for row in rows for cell in row])


def has_header(rows: Sequence[Sequence[str]], decimal: str) -> bool:
    """Whether the first row names the columns: it has words, and no number or time."""
    first = [cell for cell in rows[0] if not is_missing(cell)]
    return bool(first) and not any(is_number(cell, decimal) or is_time(cell) for cell in first)


def has_units(rows: Sequence[Sequence[str]], decimal: str) -> bool:
    """Whether the first row under the header holds units: words where numbers and times follow."""
    first, rest = rows[0], rows[1:]
    if len(rest) < 2 or any(_says(cell, decimal) for cell in first):
        return False
    words = [i for i, cell in enumerate(first) if not is_missing(cell)]
    return any(all(i < len(row) and _says(row[i], decimal) for row in rest[:2]) for i in words)


def _says(cell: str, decimal: str) -> bool:
    return is_number(cell, decimal) or is_time(cell)


def unique_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Names of columns: 'column 3' for a nameless one, 'a (2)' for a second 'a'."""
    names: dict[str, None] = {}
    latest: dict[str, int] = {}
    for i, cell in enumerate(cells):
        base = name = cell.strip() or f"column {i + 1}"
        while name in names:
            latest[base] = latest.get(base, 1) + 1
            name = f"{base} ({latest[base]})"
        names[name] = None
    return tuple(names)


@dataclass(frozen=True)
class Shape:
    """How the rows of one part become rows of the schema."""

    order: tuple[int | None, ...]
    """Where each of the schema's names stands; None = nowhere (a nameless, unused column)."""
    least: int
    """Cells that a row has at least: up to the last column with a name."""
    most: int

    @classmethod
    def plain(cls, schema: Schema) -> "Shape":
        """The schema's own order."""
        width = len(schema.names)
        return cls(tuple(range(width)), width, width)

    def fit(self, records: Iterator[Record]) -> Iterator[Record]:
        """Cells in the schema's order; rows of another length get a reason instead."""
        as_it_is = self.order == tuple(range(self.most))
        for record in records:
            cells = record.cells
            if not cells or not any(cells) or (as_it_is and len(cells) == self.most):
                yield record
                continue
            width = len(cells)
            while width > self.most and not str(cells[width - 1]).strip():
                width -= 1
            if self.least <= width <= self.most:
                yield record._replace(
                    cells=[cells[i] if i is not None and i < width else None for i in self.order]
                )
            else:
                reason = f"{width} cells, expected {self.least}"
                yield record._replace(cells=None, reason=reason)


def shape_of(cells: Sequence[str], schema: Schema, source: str) -> Shape:
    """Compare a part's header with the schema.

    Raises:
        DataError: a column has appeared or vanished.
    """
    names = unique_names(cells)
    named = [i for i, cell in enumerate(cells) if cell.strip()]
    used = {*schema.time, *schema.columns, *schema.inputs}
    own, known = {name: i for i, name in enumerate(names)}, set(schema.names)
    for name in schema.names:
        if name not in own and (name in used or not name.startswith("column ")):
            found = ", ".join(repr(names[i]) for i in named[:12])
            where = place(source, 1, name)
            raise DataError(f"{where}: has vanished, found {found}")
    for i in named:
        if names[i] not in known:
            expected = ", ".join(map(repr, schema.names[:12]))
            raise DataError(f"{place(source, 1, names[i])}: has appeared, expected {expected}")
    order = tuple(own.get(name) for name in schema.names)
    least = max([*named, *(own[name] for name in used)], default=-1) + 1
    return Shape(order, least, len(names))
