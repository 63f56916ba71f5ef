"""One cell: a number, missing, a time, or none of these.

Times are seconds since 1970 in UTC (one without a zone is taken as UTC), or plain numbers.
"""

import math
import re
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

MISSING: tuple[str, ...] = (
    "",
    "-",
    "--",
    ".",
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
CALENDAR = ("iso", "year-month-day", "day-month-year", "month-day-year", "yyyymmdd")
"""Formats of dates, in the order in which they are tried."""
UNITS = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
"""Formats of numbers that count from 1970, by their number in a second."""
FIELDS = {
    "year": ("year", "yr", "yyyy"),
    "month": ("month", "mon", "mo", "mm"),
    "day": ("day", "dy", "dd", "dom", "mday"),
    "hour": ("hour", "hr", "hh"),
    "minute": ("minute", "min", "mi"),
    "second": ("second", "sec", "ss"),
}
"""The parts of a time that has several columns, in their order, and the names of such columns."""
FORMATS = (*CALENDAR, *UNITS, "fields", "number")
EPOCH = datetime(1970, 1, 1)
_FIRST, _LAST = -62135596800.0, 253402300799.0
"""The first second of the year 1 and the last of the year 9999: other times are none."""
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_HOUR = re.compile(r"\d{1,2}")
_ZONE = re.compile(r"\s*(?:Z|UTC|GMT|(?P<sign>[+-])(?P<h>\d\d):?(?P<m>\d\d))")
_ISO = re.compile(r"\d{4}-\d\d-\d\d.*", re.DOTALL)
_CLOCK = re.compile(
    r"(?P<h>\d{1,2})(?:\.(?P<m1>\d\d)\.(?P<s1>\d\d)|:(?P<m2>\d\d)(?::(?P<s2>\d\d(?:[.,]\d+)?))?)"
    r"\s*(?P<half>[aApP]\.?[mM]\.?)?"
)
_DATES = {
    "year-month-day": re.compile(r"(?P<y>\d{4})([-/])(?P<m>\d{1,2})(?:\2(?P<d>\d{1,2}))?"),
    "day-month-year": re.compile(r"(?P<d>\d{1,2})([-/.])(?P<m>\d{1,2})\2(?P<y>\d{4})"),
    "month-day-year": re.compile(r"(?P<m>\d{1,2})([-/.])(?P<d>\d{1,2})\2(?P<y>\d{4})"),
    "yyyymmdd": re.compile(r"(?P<y>(?:1[6-9]|2[01])\d\d)(?P<m>\d\d)(?P<d>\d\d)"),
}


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


def clock_seconds(text: str) -> float:
    """Seconds since midnight of '18.00.00', '18:00', '6:00:00.5 pm', or of an hour, '18'."""
    text = text.strip()
    match = _CLOCK.fullmatch(f"{text}:00" if _HOUR.fullmatch(text) else text)
    if match is None:
        raise ValueError(text)
    hours = int(match["h"])
    minutes = int(match["m1"] or match["m2"])
    seconds = float((match["s1"] or match["s2"] or "0").replace(",", "."))
    if match["half"]:
        if not 1 <= hours <= 12:
            raise ValueError(text)
        hours = hours % 12 + 12 * (match["half"][0] in "pP")
    total = 3600.0 * hours + 60.0 * minutes + seconds
    if minutes > 59 or seconds > 60.0 or total > 86400.0:
        raise ValueError(text)
    return total


def parse_time(cells: Sequence[object], form: str, decimal: str = ".") -> float:
    """The time in one cell, in two (a date and a clock), or in one for each of `FIELDS`.

    Raises:
        ValueError: there is none in this format, or none between the years 1 and 9999.
    """
    first = cells[0]
    if form == "fields":
        return _from_fields(cells, decimal)
    if isinstance(first, (datetime, date)):
        seconds = _from_datetime(first)
    elif form in CALENDAR:
        if not isinstance(first, str):
            raise ValueError(first)
        text = first.strip()
        seconds = _from_iso(text) if form == "iso" else _from_date(text, form)
    else:
        seconds = to_number(first, decimal) / UNITS.get(form, 1.0)
        if seconds != seconds:
            raise ValueError(first)
        if form in UNITS and not _FIRST <= seconds <= _LAST:
            raise ValueError(first)
    return seconds if len(cells) == 1 else seconds + clock_seconds(str(cells[1]))


def is_clock(cell: object) -> bool:
    """Whether a cell holds a time of day and nothing else."""
    try:
        return isinstance(cell, str) and not cell.strip().isdecimal() and clock_seconds(cell) >= 0.0
    except ValueError:
        return False


def is_date(cell: object, form: str) -> bool:
    """Whether a cell holds a date in this format."""
    if not isinstance(cell, (str, date)):
        return False
    try:
        parse_time([cell], form)
    except ValueError:
        return False
    return True


def counts_from_1970(smallest: float, largest: float) -> str | None:
    """The unit in which such numbers are times between 1973 and 2128, if there is one."""
    for unit, per_second in UNITS.items():
        if 1e8 * per_second <= smallest <= largest <= 5e9 * per_second:
            return unit
    return None


def utc(time: float) -> str:
    """A time as ISO text in UTC, or the number itself if no calendar holds it."""
    try:
        text = datetime.fromtimestamp(time, UTC).isoformat(sep=" ")
    except (ValueError, OverflowError, OSError):
        return f"{time:g}"
    return text.removesuffix("+00:00")


def duration(seconds: float) -> str:
    """A length of time for people: '1 hour', '30 minutes', '2.5 days'."""
    for size, word in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second")):
        if seconds >= size:
            number = seconds / size
            return f"{number:.4g} {word}{'' if number == 1.0 else 's'}"
    return f"{seconds:.4g} seconds"


def _from_datetime(value: date) -> float:
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - EPOCH).total_seconds()


def _from_iso(text: str) -> float:
    if not _ISO.fullmatch(text):
        raise ValueError(text)
    for word in ("UTC", "GMT"):
        text = text.removesuffix(word).rstrip() if text.endswith(word) else text
    try:
        return _from_datetime(datetime.fromisoformat(text))
    except OverflowError:
        raise ValueError(text) from None


def _from_date(text: str, form: str) -> float:
    head, _, clock = text.replace("T", " ", 1).partition(" ")
    match = _DATES[form].fullmatch(head)
    if match is None:
        raise ValueError(text)
    day = datetime(int(match["y"]), int(match["m"]), int(match["d"] or 1))
    zone = re.search(rf"{_ZONE.pattern}$", clock)
    shift = 0.0
    if zone is not None:
        clock = clock[: zone.start()]
        if zone["sign"]:
            shift = float(f"{zone['sign']}1") * (3600.0 * int(zone["h"]) + 60.0 * int(zone["m"]))
    return _from_datetime(day) + (clock_seconds(clock) if clock else 0.0) - shift


def _from_fields(cells: Sequence[object], decimal: str) -> float:
    """Year, month, day, hour, minute, second, as far as there are columns."""
    parts = [_field(cell, decimal) for cell in cells]
    if any(part % 1.0 for part in parts[:5]):
        raise ValueError(cells)
    year, month, day, hour, minute, second = (*parts, *(0.0, 1.0, 1.0, 0.0, 0.0, 0.0)[len(parts) :])
    clock = 0.0 <= hour <= 24.0 and 0.0 <= minute < 60.0 and 0.0 <= second <= 60.0
    if not (clock and 1.0 <= year <= 9999.0 and 1.0 <= month <= 12.0 and 1.0 <= day <= 31.0):
        raise ValueError(cells)
    start = _from_datetime(datetime(int(year), int(month), int(day)))
    return start + 3600.0 * hour + 60.0 * minute + second


def _field(cell: object, decimal: str) -> float:
    """A number, or the number of a month that is named in English."""
    if isinstance(cell, str) and cell.strip()[:3].casefold() in _MONTHS:
        return 1.0 + _MONTHS.index(cell.strip()[:3].casefold())
    return to_number(cell, decimal)
