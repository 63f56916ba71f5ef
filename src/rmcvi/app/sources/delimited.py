"""The look of delimited text, from its first lines: delimiter, decimal mark, header."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from rmcvi.app.sources.cells import decimal_mark, is_missing, is_number
from rmcvi.app.sources.lines import Line
from rmcvi.app.sources.records import cut_records
from rmcvi.app.sources.times import CALENDAR, is_clock, is_date

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
