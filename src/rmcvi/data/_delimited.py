"""The look of delimited text, from its first lines: delimiter, decimal mark, header."""

import csv
from collections import Counter
from collections.abc import Sequence

from rmcvi.data._cells import decimal_mark, is_missing, is_number
from rmcvi.data._times import CALENDAR, is_clock, is_date

DELIMITERS = (",", ";", "\t", "|", " ")


def split_lines(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The cells of each record; blank ones are left out."""
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return []
    return [row for row in rows if any(cell.strip() for cell in row)]


def open_quote(lines: Sequence[str], delimiter: str, limit: int) -> int | None:
    """The line with a quote that is not closed within `limit` lines, if there is one."""
    reader, before = csv.reader(lines, delimiter=delimiter, skipinitialspace=True), 0
    for _ in reader:
        if reader.line_num - before > limit:
            return before + 1
        before = reader.line_num
    return None


def find_delimiter(lines: Sequence[str]) -> str:
    """The delimiter under which rows have equally many cells that make the most sense."""
    scores = {mark: _score(lines, mark) for mark in DELIMITERS}
    return max(DELIMITERS, key=lambda mark: scores[mark])


def _score(lines: Sequence[str], delimiter: str) -> tuple[float, int]:
    rows = split_lines(lines, delimiter)
    if not rows:
        return 0.0, 0
    widths = Counter(map(len, rows))
    width, agreeing = widths.most_common(1)[0]
    data = rows[1:] or rows
    mark = find_decimal(data, delimiter)
    cells = [cell for row in data for cell in row]
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


def unique_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Names of columns: 'column 3' for a nameless one, 'a (2)' for a second 'a'."""
    names: list[str] = []
    for i, cell in enumerate(cells):
        base = name = cell.strip() or f"column {i + 1}"
        number = 2
        while name in names:
            name = f"{base} ({number})"
            number += 1
        names.append(name)
    return tuple(names)
