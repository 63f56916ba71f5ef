"""What a service knows, between the thread that learns and those that look.

The learning thread publishes the lines that it has written; whoever looks at a stream is given the
last of them and then each one that comes. A run of one stream has the key ''.
"""

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rmcvi.app.run.scores import is_new_episode
from rmcvi.app.serve.learned import Learned
from rmcvi.app.serve.past import EACH, Past
from rmcvi.core.files import replace, to_json

HISTORY, ALL, LEAST = 1200, 400_000, 50
"""Lines that are kept of a stream: twenty minutes of seconds; of all streams together; at least."""
BEHIND = 200
"""Messages that a slow reader may be behind; it is then sent away, and may come back."""
NOTES, NOTE = "notes.json", 500
"""What people said of alarms, and how long that may be."""
LISTED, KEPT = 200, 10_000
"""Alarms that are told, and that are remembered."""
WORDS = '"alarms": ["'
"""In a line that has alarms."""

BEAT, OFTEN, TOP = 15.0, 1.0, 50
"""Seconds between two signs of life to a page that has nothing new; between two looks at all
streams; how many of these are told."""

Name = tuple[str, str]
"""Of an alarm: the key of its stream, and its sentence."""


class Hub:
    """The last rows, the alarms with what people said of them, and whoever listens."""

    def __init__(self, folder: Path, keyed: bool = False):
        self.folder, self.keyed = folder, keyed
        self.learned: Learned | None = None
        self.started = self.last = time.time()
        """When the service started, and when it last learned from a row."""
        self.alarms: dict[Name, dict[str, Any]] = {}
        self._history: dict[str, deque[str]] = {}
        self._past: dict[str, Past] = {}
        self._seen: dict[str, float] = {}
        self._now: dict[str, list[str]] = {}
        self._notes = _read(folder / NOTES)
        self._listeners: dict[asyncio.Queue[str], tuple[str, asyncio.AbstractEventLoop]] = {}
        self._lock = threading.RLock()
        self.alarmed: Callable[[dict[str, Any]], None] = lambda alarm: None
        """Told each alarm that is new."""
        self.grown: Callable[[], None] = lambda: None
        """Told that lines were written."""

    def begin(self, learned: Learned, past: Sequence[str]) -> None:
        """The run is known, and the last rows that it has learned from."""
        keys = [json.loads(line)["key"] for line in past] if self.keyed else [""] * len(past)
        self._remember(keys, past, new=False)
        self.learned = learned
        with self._lock:
            for queue in self._listeners:
                self._tell(queue, "begin", "{}")

    def publish(self, keys: Sequence[str] | None, text: str) -> None:
        """Lines of estimates that were just written, and whose they are."""
        lines = text.splitlines()
        keys = [""] * len(lines) if keys is None else keys
        self.last = time.time()
        self.grown()
        with self._lock:
            self._seen.update(dict.fromkeys(keys, self.last))
            older = self._remember(keys, lines)
            for queue, (key, _) in self._listeners.items():
                own = [line for line, of in zip(lines, keys, strict=True) if of == key]
                if own:  # scores are summed up only for somebody
                    about, past = to_json(self.about(key)), to_json(older.get(key, []))
                    told = f'{{"rows": [{", ".join(own)}], "about": {about}, "past": {past}}}'
                    self._tell(queue, "rows", told)

    def _remember(
        self, keys: Sequence[str], lines: Sequence[str], new: bool = True
    ) -> dict[str, list[Any]]:
        """Keep lines; returns what became of those that are kept no longer, by key."""
        older: dict[str, list[Any]] = {}
        with self._lock:
            for key, line in zip(keys, lines, strict=True):
                self._history.setdefault(key, deque()).append(line)
                self._now.pop(key, None)
                if WORDS in line:
                    self._alarm(key, json.loads(line), new)
            room = min(HISTORY, max(LEAST, ALL // max(len(self._history), 1)))
            for key in dict.fromkeys(keys):
                past = self._history[key]
                while len(past) >= room + EACH:
                    some = [past.popleft() for _ in range(EACH)]
                    older.setdefault(key, []).append(self._past.setdefault(key, Past()).add(some))
        return older

    def _alarm(self, key: str, row: dict[str, Any], new: bool) -> None:
        self._now[key] = row["alarms"]
        for sentence in row["alarms"]:
            name, own = (key, sentence), {"key": key} if self.keyed else {}
            alarm: dict[str, Any] | None = self.alarms.pop(name, None)
            if alarm is None or is_new_episode(row["row"], alarm["last"]):
                first = own | {"sentence": sentence, "row": row["row"], "time": row["time"]}
                alarm = first | {"rows": 0}
                if new:
                    self.alarmed({"run": self.folder.name} | first)
                    self._forget(name)
            self.alarms[name] = alarm | {"rows": alarm["rows"] + 1, "last": row["row"]}
        while len(self.alarms) > KEPT:
            del self.alarms[next(iter(self.alarms))]

    def _forget(self, name: Name) -> None:
        """What was said of an alarm was said of an episode that is over."""
        if self._notes.pop(_noted(name), None) is not None:
            self._write_notes()

    def about(self, key: str = "") -> dict[str, Any]:
        """Names, counts and scores of a stream."""
        learned = self.learned
        plain = {"name": self.folder.name, "key": key, "keyed": self.keyed}
        if learned is None or (self.keyed and not key):
            return plain | {"columns": [], "rows": 0, "scores": {}, "units": {}}
        plan = learned.plan
        return plain | {"columns": plan.columns, "units": plan.units} | learned.about(key)

    @property
    def rows(self) -> int:
        """Rows that were learned from."""
        return 0 if self.learned is None else self.learned.rows

    def streams(self, find: str = "", most: int = LISTED) -> dict[str, Any]:
        """The streams whose key holds some text, those with an alarm first, then by trouble."""
        rows = [] if self.learned is None else self.learned.ranked()
        with self._lock:
            now, seen = dict(self._now), dict(self._seen)
        found = [row for row in rows if find.casefold() in row["key"].casefold()]
        found.sort(key=lambda row: row["key"] not in now)
        told = [
            row | {"alarms": now.get(row["key"], []), "seen": seen.get(row["key"])}
            for row in found[:most]
        ]
        failing = sum(row["failure"] > 0.5 for row in rows)
        counts = {"total": len(rows), "found": len(found), "alarmed": len(now), "failing": failing}
        return counts | {"rows": self.rows, "streams": told}

    def lines(self, key: str = "") -> list[str]:
        """The last lines of a stream."""
        with self._lock:
            return list(self._history.get(key, ()))

    def latest(self, key: str = "") -> dict[str, Any] | None:
        """The last row of a stream."""
        with self._lock:
            past = self._history.get(key)
            return json.loads(past[-1]) if past else None

    def snapshot(self, key: str = "") -> str:
        """All that a page shows, as JSON."""
        with self._lock:
            rows, past = ", ".join(self.lines(key)), self._past.get(key, Past()).told()
        about, alarms = to_json(self.about(key)), to_json(self.listed())
        return f'{{"rows": [{rows}], "past": [{past}], "about": {about}, "alarms": {alarms}}}'

    def listed(self, key: str | None = None) -> list[dict[str, Any]]:
        """The alarms, of all streams or of one, the latest first, with what was said of them."""
        with self._lock:
            names = [name for name in reversed(self.alarms) if key is None or name[0] == key]
            return [
                self.alarms[name] | {"note": self._notes.get(_noted(name))}
                for name in names[:LISTED]
            ]

    def acknowledge(self, name: Name, note: str) -> bool:
        """Somebody has seen an alarm; whether there is such a one."""
        with self._lock:
            if name not in self.alarms:
                return False
            self._notes[_noted(name)] = {"text": note[:NOTE], "when": time.time()}
            self._write_notes()
            for queue in self._listeners:
                self._tell(queue, "alarms", to_json({"alarms": self.listed()}))
        return True

    def _write_notes(self) -> None:
        replace(self.folder / NOTES, to_json(self._notes).encode())

    def listen(self, key: str = "") -> asyncio.Queue[str]:
        """A queue of messages about a stream from now on; an empty one says that the reader was
        too slow.
        """
        queue: asyncio.Queue[str] = asyncio.Queue(BEHIND)
        with self._lock:
            self._listeners[queue] = key, asyncio.get_running_loop()
        return queue

    def leave(self, queue: asyncio.Queue[str]) -> None:
        """No more messages."""
        with self._lock:
            self._listeners.pop(queue, None)

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def _tell(self, queue: asyncio.Queue[str], event: str, content: str) -> None:
        _, loop = self._listeners[queue]
        if not loop.is_closed():
            loop.call_soon_threadsafe(_put, queue, f"event: {event}\ndata: {content}\n\n")


class Beat:
    """When a page is told of all streams: at most once a second, if anything is new."""

    def __init__(self, hub: Hub):
        self._hub, self._when, self._last = hub, 0.0, -1.0
        self.patience = OFTEN if hub.keyed else BEAT

    def due(self) -> bool:
        """Whether it is time."""
        new = self._hub.learned is not None and self._hub.last != self._last
        return self._hub.keyed and new and time.monotonic() - self._when >= OFTEN

    def message(self) -> str:
        """The most troubled streams."""
        self._when, self._last = time.monotonic(), self._hub.last
        return f"event: streams\ndata: {to_json({'streams': self._hub.streams(most=TOP)})}\n\n"


def _put(queue: asyncio.Queue[str], message: str) -> None:
    if queue.full():
        while not queue.empty():
            queue.get_nowait()
        message = ""
    queue.put_nowait(message)


def _noted(name: Name) -> str:
    """The name of an alarm in the file of notes."""
    key, sentence = name
    return f"{key}\n{sentence}" if key else sentence


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
