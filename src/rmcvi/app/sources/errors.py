"""What went wrong with a source, in one sentence; what was tolerated, by kind."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from rmcvi.core.checks import nearest


class DataError(ValueError):
    """A source that cannot be read: one sentence with file, line, column, found and expected."""


class Disordered(DataError):
    """Rows in an order from which nothing can be learned."""


@dataclass(frozen=True)
class Rejected:
    """A record that was left out, or of which only the good part was kept."""

    place: str
    """File and line."""
    reason: str
    text: str
    """As it was written, cut to `TEXT` characters."""

    def to_json(self) -> dict[str, str]:
        """Plain words."""
        return asdict(self)


TEXT = 500
"""Characters of a rejected record that are kept: enough to find it by, whatever its length."""


def place(name: str, line: int | None = None, column: str | None = None) -> str:
    """Where: the file, the line and the column, as far as they are known."""
    where = name if line is None else f"{name}, line {line}"
    return where if column is None else f"{where}, column {column!r}"


def unknown(what: str, got: str, known: Iterable[str]) -> str:
    """A sentence about a name that is not there, with the nearest one that is."""
    names = list(known)
    near = nearest(got, names, 0.5)
    hint = f"; did you mean {near!r}?" if near else ""
    shown = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
    return f"{what}: got {got!r}, expected one of {shown}{hint}"


_WORDS = {
    "ragged": ("row with too few or too many cells", "rows with too few or too many cells"),
    "unreadable": ("unreadable row", "unreadable rows"),
    "text": ("cell without a number in a number column", "cells without a number"),
    "no_time": ("row without a readable time", "rows without a readable time"),
    "repeated": ("repeated time", "repeated times"),
    "backward": ("time before its predecessor", "times before their predecessor"),
    "no_key": ("row without a key", "rows without a key"),
    "set_back": ("clock set back", "clocks set back"),
    "columns": ("stream learned afresh for a new column", "streams learned afresh for new columns"),
}


@dataclass
class Counts:
    """What a stream met: `rows` read, and all that was not plain.

    `bad[kind]` counts ragged, unreadable, text, no_time, repeated, backward, no_key, set_back and
    columns;
    `first[kind]` keeps the sentence about the first of each kind.
    """

    rows: int = 0
    """Rows of the source, without blank ones and headers."""
    blank: int = 0
    """Rows with nothing in them, passed over."""
    headers: int = 0
    """Repetitions of the header line, and of units under it, passed over."""
    skipped: int = 0
    """Bad rows left out."""
    filled: int = 0
    """All-missing rows put into gaps of time."""
    leaps: int = 0
    """Gaps of time that were not filled: too long, or of no whole number of steps."""
    held: int = 0
    """Missing inputs replaced by their last value."""
    fills: int = 0
    """Fill values, which mean missing wherever they stand."""
    unfinished: int = 0
    """Last records that may be half-written, left for later."""
    renewed: int = 0
    """How often a followed file turned out to be another one, and was read from its top."""
    bad: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    @property
    def late(self) -> int:
        """Rows left out because a row of the same or a later time came before them."""
        return self.bad.get("repeated", 0) + self.bad.get("backward", 0)

    def note(self, kind: str, sentence: str) -> None:
        """Count one bad thing."""
        self.bad[kind] = self.bad.get(kind, 0) + 1
        self.first.setdefault(kind, sentence)

    def copy(self) -> "Counts":
        """As it is now; quickly, for it is asked for at every row."""
        return Counts(**{**vars(self), "bad": dict(self.bad), "first": dict(self.first)})

    def describe(self) -> list[str]:
        """Sentences for people; none if all was plain."""
        lines = []
        for kind, number in self.bad.items():
            word = _WORDS[kind][number > 1]
            lines.append(f"{number} {word}; the first: {self.first[kind]}.")
        if self.skipped:
            lines.append(f"{self.skipped} of {self.rows} rows were left out.")
        if self.filled:
            lines.append(f"{self.filled} missing rows were put into gaps of time.")
        if self.leaps:
            why = "too long, or no whole number of steps"
            lines.append(f"Gaps of time that are one long step each ({why}): {self.leaps}.")
        if self.held:
            lines.append(f"{self.held} missing inputs were replaced by their last value.")
        if self.fills:
            lines.append(f"{self.fills} fill values mean missing; the first: {self.first['fill']}.")
        if self.renewed:
            again = "another file took its name, or it was cut short"
            lines.append(f"Read from its top {self.renewed} times, for {again}.")
        if self.unfinished:
            half = "has no end and may be half-written, so it was left for the next `resume`"
            lines.append(f"{self.first['unfinished']}: {half}; if it is whole, end the line.")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and words."""
        return asdict(self)
