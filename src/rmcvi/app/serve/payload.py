"""What was pushed at us as rows: a JSON object, an array of them, JSON lines, a number, or CSV."""

import csv
import io
import json
import math
import threading
import time
from datetime import UTC, datetime
from typing import Any

from rmcvi.app.sources.sniffer import MAX_COLUMNS

MOST_BYTES = 1_000_000
"""Of one message or request."""
VALUE, ARRIVED = "value", "time"
"""Names of a bare number, and of the time of arrival."""
PLAIN = (float, int, str, type(None))
INFINITE = (math.inf, -math.inf)
DECODER = json.JSONDecoder(parse_constant=lambda _: None)
"""Made once: that takes longer than reading a row. NaN and infinities are missing values."""


class Unreadable(ValueError):
    """A payload that holds no rows, with a sentence that says why."""


class Arrival:
    """Times of arrival, each later than the one before: a clock that is set back is not followed,
    one that is set ahead is.
    """

    def __init__(self) -> None:
        self._ahead, self._last, self._lock = float("-inf"), 0, threading.Lock()

    def next(self) -> str:
        """Now, in UTC."""
        with self._lock:
            steady = time.monotonic()
            self._ahead = max(self._ahead, time.time() - steady)
            self._last = max(self._last + 1, round(1e6 * (steady + self._ahead)))
            moment = datetime.fromtimestamp(self._last / 1e6, UTC)
        return moment.replace(tzinfo=None).isoformat(timespec="microseconds")


ARRIVAL = Arrival()


def rows_of(payload: bytes, is_csv: bool = False, arrival: bool = False) -> list[dict[str, Any]]:
    """The rows of a payload.

    Args:
        payload: as it came.
        is_csv: whether it is CSV with a header; else it is JSON.
        arrival: whether a row's time is that of its arrival.
    """
    if len(payload) > MOST_BYTES:
        raise Unreadable(f"got {len(payload)} bytes, expected at most {MOST_BYTES}")
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        raise Unreadable("got bytes that are not UTF-8") from None
    rows = _csv_rows(text) if is_csv else _json_rows(text)
    if not rows:
        raise Unreadable("got no row")
    if not arrival:
        return [_checked(row) for row in rows]
    return [_checked(row) | {ARRIVED: ARRIVAL.next()} for row in rows]


def _json_rows(text: str) -> list[Any]:
    try:
        found = DECODER.decode(text)
    except ValueError:
        try:
            lines = [line for line in text.splitlines() if line.strip()]
            found = [DECODER.decode(line) for line in lines]
        except (RecursionError, ValueError):
            raise Unreadable("got text that is no JSON") from None
    except RecursionError:
        raise Unreadable("got JSON that is too deep") from None
    return found if isinstance(found, list) else [found]


def _csv_rows(text: str) -> list[dict[str, Any]]:
    rows = csv.DictReader(io.StringIO(text), restkey="", restval="")
    return [{k: value_of(v) for k, v in row.items() if k} for row in rows]


def value_of(cell: str) -> float | str | None:
    """A cell as a number, as text, or as nothing."""
    cell = cell.strip()
    try:
        value = float(cell)
    except ValueError:
        return cell or None
    return value if math.isfinite(value) else None


def _checked(row: Any) -> dict[str, Any]:
    """A row of names and plain values."""
    if isinstance(row, int | float):
        row = {VALUE: row}
    if not isinstance(row, dict) or not row:
        raise Unreadable("got no object, expected names with values")
    if len(row) > MAX_COLUMNS:
        raise Unreadable(f"got {len(row)} fields, expected at most {MAX_COLUMNS}")
    for name, value in row.items():
        if not isinstance(value, PLAIN):
            raise Unreadable(f"got a list or object for {name[:40]!r}, expected a number or text")
        if value in INFINITE:
            raise Unreadable(f"got a number for {name[:40]!r} that is too large")
    return {name: value for name, value in row.items() if name[:1] != "_"}
