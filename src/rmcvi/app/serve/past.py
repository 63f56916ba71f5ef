"""The day before the last rows, as much of it as a screen can show: a span for two minutes."""

import json
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from rmcvi.core.files import to_json

EACH, DAY = 120, 86_400
"""Rows of a span: two minutes of seconds; rows before the last ones that spans are kept of."""
MEAN = ".mean"


class Past:
    """The spans of one stream, the oldest first."""

    def __init__(self) -> None:
        self._spans: deque[str] = deque(maxlen=DAY // EACH)

    def add(self, lines: Sequence[str]) -> dict[str, Any]:
        """The span of some lines: where it begins and ends, and for each column the least and the
        greatest value, the outer ends of the bands, and the mean expectation.
        """
        rows = json.loads(f"[{','.join(lines)}]")
        first, last = rows[0], rows[-1]
        names = [name.removesuffix(MEAN) for name in first if name.endswith(MEAN)]
        span = {"row": first["row"], "last": last["row"], "time": first["time"]}
        span |= {"end": last["time"], "columns": {name: _extent(rows, name) for name in names}}
        self._spans.append(to_json(span))
        return span

    def told(self) -> str:
        """All of them, as items of a JSON array."""
        return ", ".join(self._spans)


def _extent(rows: Sequence[dict[str, Any]], name: str) -> list[float | None]:
    values, means = _known(rows, name), _known(rows, name + MEAN)
    low, high = _known(rows, f"{name}.low"), _known(rows, f"{name}.high")
    return [
        min(values, default=None),
        max(values, default=None),
        min(low, default=None),
        max(high, default=None),
        sum(means) / len(means) if means else None,
    ]


def _known(rows: Iterable[dict[str, Any]], name: str) -> list[float]:
    return [v for row in rows if (v := row.get(name)) is not None]
