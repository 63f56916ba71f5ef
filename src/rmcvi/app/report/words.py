"""Numbers, times and settings in words."""

import json
import math
from datetime import UTC, datetime
from typing import Any

NOTHING = "\u2013"


def number(value: Any, digits: int = 4) -> str:
    """A number to some significant digits; a dash if there is none."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return NOTHING
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e6):
        return f"{int(value):,}".replace(",", "\u202f")
    return f"{value:.{digits}g}".replace("-", "\u2212")


def percent(value: Any, digits: int = 1) -> str:
    """A share as per cent; a dash if there is none."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return NOTHING
    return f"{100 * value:.{digits}f} %".replace("-", "\u2212").replace(" ", "\u202f")


def change(value: Any) -> str:
    """A relative difference as per cent with its sign."""
    return ("+" if isinstance(value, float) and value > 0 else "") + percent(value)


def duration(seconds: Any) -> str:
    """Seconds as people say them; a dash if unknown."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return NOTHING
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def moment(seconds: float) -> str:
    """A time to the second, or to the minute if it is a full one."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S" if moment.second else "%Y-%m-%d %H:%M")


def settings(given: Any) -> list[tuple[str, str]]:
    """Names and values of a (nested) dictionary, one line each."""
    lines: list[tuple[str, str]] = []
    for name, value in given.items() if isinstance(given, dict) else ():
        if isinstance(value, dict):
            lines += [(f"{name}.{inner}", text) for inner, text in settings(value)]
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append((str(name), text))
    return lines


def cell(value: Any) -> str:
    """A table's cell: words as they are, numbers short, a pair as number and standard error."""
    if isinstance(value, tuple) and len(value) == 2:
        return f"{number(value[0])} \u00b1 {number(value[1], 2)}"
    return value if isinstance(value, str) else number(value)
