"""What a service knows, between the thread that learns and those that look.

The learning thread publishes the lines that it has written; whoever looks is given the last of them
and then each one that comes. Questions that need the learner are asked of `Live`, which is locked.
"""

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rmcvi.app.run.engine import Engine
from rmcvi.core.files import replace, to_json

HISTORY = 3600
"""Rows that a page is shown when it opens: an hour of seconds."""
BEHIND = 200
"""Messages that a slow reader may be behind; it is then sent away, and may come back."""
NOTES, NOTE = "notes.json", 500
"""What people said of alarms, and how long that may be."""
LISTED = 200
"""Alarms that are told."""
WORDS = '"alarms": ["'
"""In a line that has alarms."""


class Hub:
    """The last rows, the alarms with what people said of them, and whoever listens."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.engine: Engine | None = None
        self.started = self.learned = time.time()
        """When the service started, and when it last learned from a row."""
        self.alarms: dict[str, dict[str, Any]] = {}
        self._history: deque[str] = deque(maxlen=HISTORY)
        self._notes = _read(folder / NOTES)
        self._listeners: dict[asyncio.Queue[str], asyncio.AbstractEventLoop] = {}
        self._lock = threading.RLock()
        self.alarmed: Callable[[dict[str, Any]], None] = lambda alarm: None
        """Told each alarm that is new."""

    def begin(self, engine: Engine, past: Sequence[str]) -> None:
        """The run is known, and the last rows that it has learned from."""
        self.engine = engine
        engine.published = self.publish
        self._remember(past, new=False)
        self._tell("begin", "{}")

    def publish(self, text: str) -> None:
        """Lines of estimates that were just written."""
        lines = text.splitlines()
        self.learned = time.time()
        self._remember(lines)
        if self._listeners:  # scores are summed up only for somebody
            about = to_json(self.about())
            self._tell("rows", f'{{"rows": [{", ".join(lines)}], "about": {about}}}')

    def _remember(self, lines: Sequence[str], new: bool = True) -> None:
        with self._lock:
            self._history.extend(lines)
            for row in (json.loads(line) for line in lines if WORDS in line):
                for sentence in row["alarms"]:
                    if sentence not in self.alarms:
                        first = {"sentence": sentence, "row": row["row"], "time": row["time"]}
                        self.alarms[sentence] = first | {"rows": 0}
                        if new:
                            self.alarmed({"run": self.folder.name} | first)
                    alarm = self.alarms[sentence]
                    alarm |= {"rows": alarm["rows"] + 1, "last": row["row"]}

    def about(self) -> dict[str, Any]:
        """Names, counts and scores."""
        engine = self.engine
        if engine is None:
            return {"columns": [], "rows": 0, "scores": {}, "units": {}, "name": self.folder.name}
        scores = engine.scores
        return {
            "name": self.folder.name,
            "columns": engine.plan.columns,
            "units": engine.plan.units,
            "rows": scores.rows,
            "scores": scores.overall() | {"columns": scores.by_column()},
        }

    def latest(self) -> dict[str, Any] | None:
        """The last row."""
        with self._lock:
            return json.loads(self._history[-1]) if self._history else None

    def snapshot(self) -> str:
        """All that a page shows, as JSON."""
        with self._lock:
            rows, about = ", ".join(self._history), to_json(self.about())
            return f'{{"rows": [{rows}], "about": {about}, "alarms": {to_json(self.listed())}}}'

    def listed(self) -> list[dict[str, Any]]:
        """The alarms, the latest first, with what was said of them."""
        with self._lock:
            found = sorted(self.alarms.values(), key=lambda alarm: -alarm["last"])[:LISTED]
            return [alarm | {"note": self._notes.get(alarm["sentence"])} for alarm in found]

    def acknowledge(self, sentence: str, note: str) -> bool:
        """Somebody has seen an alarm; whether there is such a one."""
        with self._lock:
            if sentence not in self.alarms:
                return False
            self._notes[sentence] = {"text": note[:NOTE], "when": time.time()}
            replace(self.folder / NOTES, to_json(self._notes).encode())
        self._tell("alarms", to_json({"alarms": self.listed()}))
        return True

    def listen(self) -> asyncio.Queue[str]:
        """A queue of messages from now on; an empty one says that the reader was too slow."""
        queue: asyncio.Queue[str] = asyncio.Queue(BEHIND)
        with self._lock:
            self._listeners[queue] = asyncio.get_running_loop()
        return queue

    def leave(self, queue: asyncio.Queue[str]) -> None:
        """No more messages."""
        with self._lock:
            self._listeners.pop(queue, None)

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def _tell(self, event: str, content: str) -> None:
        message = f"event: {event}\ndata: {content}\n\n"
        with self._lock:
            for queue, loop in self._listeners.items():
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_put, queue, message)


def _put(queue: asyncio.Queue[str], message: str) -> None:
    if queue.full():
        while not queue.empty():
            queue.get_nowait()
        message = ""
    queue.put_nowait(message)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
