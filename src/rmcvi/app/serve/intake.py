"""Between whoever pushes rows and the journal: what is let in, how fast, and for which streams."""

import json
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rmcvi.app.run.speech import printable
from rmcvi.app.serve.journal import MARK, Journal
from rmcvi.app.serve.payload import Unreadable, rows_of

TOPIC = "topic"
"""The key that is not in a row: where its message came from."""
LONGEST = 200
"""Characters of a key."""
BURST = 10.0
"""Seconds' worth of rows that may come at once."""


class Message(NamedTuple):
    """What a broker gave us."""

    payload: bytes
    topic: str
    mark: str | None = None
    """Its place in the broker, if that numbers its messages."""


class Keys:
    """Which streams there are, and whether there may be one more."""

    def __init__(self, name: str, most: int, known: Iterable[str] = ()):
        """By the field `name`, at most so many."""
        self.name, self.most, self.known = name, most, set(known)
        self.refused = 0
        """Rows of streams beyond that."""

    def sort(self, rows: Sequence[dict[str, Any]], topic: str | None) -> tuple[list[Any], str]:
        """The rows that are let in, with their keys as text, and a sentence about the others."""
        taken, sentence = [], ""
        for row in rows:
            cell = topic if self.name == TOPIC and topic is not None else row.get(self.name)
            key = _text(cell)
            if not key or len(key) > LONGEST:
                got = "none" if not key else f"one of {len(key)} characters"
                sentence = f"got {got} under {self.name!r}, expected a key of at most {LONGEST}"
            elif key not in self.known and len(self.known) >= self.most:
                sentence = f"got the new key {printable(key)!r}, but there are {self.most} streams"
                sentence += " (--max-keys)"
            else:
                self.known.add(key)
                taken.append(row | {self.name: key})
        self.refused += len(rows) - len(taken)
        return taken, sentence


def _text(cell: Any) -> str:
    """A key as text: 7 and 7.0 are the same, as they are in CSV."""
    whole = isinstance(cell, float) and cell.is_integer()
    return "" if cell is None else str(int(cell) if whole else cell).strip()


def keys_in(path: Path, name: str, offset: int = 0) -> set[str]:
    """The keys of a journal from a place on."""
    with path.open("rb") as file:
        file.seek(offset)
        return {_text(json.loads(line).get(name)) for line in file if line.endswith(b"\n")}


class Rate:
    """So many rows a second, and some seconds' worth of them at once."""

    def __init__(self, rows: float):
        self.rows = rows
        self._room, self._when = BURST * rows, time.monotonic()

    def wait(self, rows: int) -> float:
        """Seconds until so many may come; if that is 0, they count as come."""
        now = time.monotonic()
        self._room = min(BURST * self.rows, self._room + (now - self._when) * self.rows)
        self._when = now
        lacking = min(float(rows), BURST * self.rows) - self._room
        if lacking > 0.0:
            return lacking / self.rows
        self._room -= rows
        return 0.0


@dataclass
class Intake:
    """Where messages go, and what is known of them."""

    journal: Journal
    arrival: bool = False
    """Whether a row's time is that of its arrival."""
    keys: Keys | None = None
    rate: Rate | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    connected: bool = False
    refused: int = 0
    """Messages that held no rows."""
    trouble: str = ""
    """What the broker or the last refused message was about."""

    def complain(self, sentence: str) -> None:
        """Something is wrong, which whoever asks is told."""
        self.trouble = sentence

    def take(self, messages: Sequence[Message]) -> None:
        """Messages of a broker; their rows are on disk when this returns."""
        rows: list[dict[str, Any]] = []
        for payload, topic, mark in messages:
            try:
                found, sentence = self.let_in(rows_of(payload, arrival=self.arrival), topic)
            except Unreadable as error:
                self.refused += 1
                found, sentence = [], str(error)
            if sentence:
                self.trouble = f"A message was left out: {sentence}."
            if mark is not None and found:
                found[-1][MARK] = mark
            rows += found
        while (seconds := self.wait(len(rows))) and not self.stop.wait(seconds):
            pass  # the broker keeps what we do not take
        if rows:
            self.journal.add(rows)

    def wait(self, rows: int) -> float:
        """Seconds until so many rows may come; if that is 0, they count as come."""
        return 0.0 if self.rate is None else self.rate.wait(rows)

    def let_in(
        self, rows: list[dict[str, Any]], topic: str | None = None
    ) -> tuple[list[dict[str, Any]], str]:
        """The rows that are let in, and a sentence about those that are not."""
        return (rows, "") if self.keys is None else self.keys.sort(rows, topic)
