"""One cell: a number, missing, or neither."""

import math
import re
from collections.abc import Collection
from decimal import Decimal

MISSING: tuple[str, ...] = (
    "",
    "-",
    "--",
    "?",
    "na",
    "n/a",
    "#n/a",
    "nan",
    "null",
    "none",
    "nil",
    "missing",
)
"""Words for a missing value, whatever their case."""

_COMMA = re.compile(r"\s*[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?\s*")
_POINT = re.compile(r"\s*[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?\s*")


def is_missing(cell: object, words: Collection[str] = MISSING) -> bool:
    """Whether a cell says that there is no value."""
    if cell is None:
        return True
    if isinstance(cell, (float, Decimal)):
        return math.isnan(cell)
    return isinstance(cell, str) and cell.strip().casefold() in words


def to_number(cell: object, decimal: str = ".", words: Collection[str] = MISSING) -> float:
    """The number in a cell, NaN if it is missing.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(cell, str):
        text = cell.strip()
        try:
            value = float(_comma_to_point(text) if decimal == "," else text)
        except ValueError:
            if text.casefold() in words:
                return math.nan
            raise
        if "_" in text:
            raise ValueError(cell)
    elif cell is None:
        return math.nan
    elif isinstance(cell, (int, float, Decimal)):
        try:
            value = float(cell)
        except OverflowError:
            raise ValueError(cell) from None
    else:
        raise ValueError(cell)
    if math.isinf(value):
        raise ValueError(cell)
    return value


def _comma_to_point(text: str) -> str:
    if "." in text:
        raise ValueError(text)
    return text.replace(",", ".", 1)


def is_number(cell: object, decimal: str = ".") -> bool:
    """Whether a cell holds a number."""
    try:
        return not math.isnan(to_number(cell, decimal))
    except ValueError:
        return False


def decimal_mark(cells: Collection[object]) -> str:
    """The decimal mark of these cells: the comma if it is the more frequent one."""
    texts = [cell for cell in cells if isinstance(cell, str)]
    commas = sum(_COMMA.fullmatch(text) is not None for text in texts)
    points = sum(_POINT.fullmatch(text) is not None for text in texts)
    return "," if commas > points else "."


def show(cell: object) -> str:
    """A cell in a message, cut to a readable length."""
    text = repr(cell)
    return text if len(text) <= 42 else f"{text[:40]}..."
