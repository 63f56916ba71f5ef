"""Rows that were pushed at us, as a file that grows: what is acknowledged is on disk.

Whatever pushes rows (HTTP, MQTT, Redis, Kafka) has them written here, a JSON object a line, and is
answered when they are on disk. The run follows this file as it would any other, so that all that
holds for files (resuming to the byte, bad rows, gaps, seasons) holds for brokers. A line keeps the
mark that its broker gave it: whoever starts again asks for what comes after the last one.

A file that has become long is renamed, and is then one of the parts (`parts.py`).
"""

import errno
import fcntl
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmcvi.app.run.output import Appended
from rmcvi.app.run.speech import Refusal
from rmcvi.app.serve.parts import JOURNAL, is_in, join, number_of, part_of, parts, place_in
from rmcvi.app.sources import Position
from rmcvi.core.files import sync

LOCK = "rows.lock"
MARK, PART = "_mark", "_part"
"""Fields with the place in the broker, and in the first row of a file with the number of the part
that it will be, so that no two files begin alike; text, so that they are never learned."""
ENCODER = json.JSONEncoder(allow_nan=False)
"""Made once: that takes as long as writing a row."""
RESERVE = 1 << 20
"""Bytes of the disk that are left to estimates and checkpoints when no more rows are taken."""
ENDING = 1 << 20
"""Bytes at the end of the journal in which the last mark is looked for."""


class Journal:
    """Appended to by many threads, followed by one."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / JOURNAL
        _check(self.path)
        self._locked = (folder / LOCK).open("ab")
        try:
            fcntl.flock(self._locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._locked.close()
            raise Refusal(f"{folder}: another service takes rows here") from None
        join(folder)
        length = self.path.stat().st_size if self.path.exists() else 0
        self._file = Appended(self.path, _whole(self.path, length), None)
        self._file.cut()
        self._lock, self._more = threading.Lock(), threading.Event()
        self.rows = 0
        """Rows that came since the start."""
        self.left = _lines(self.path, place_in(folder))
        """Rows that an earlier process had not learned from."""

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows down; they are on disk when this returns."""
        text = "".join(ENCODER.encode(row) + "\n" for row in rows)
        with self._lock:
            if not self._file.length and (before := parts(self.path.parent)):
                first = {PART: str(number_of(before[-1]) + 1)} | rows[0]
                text = "".join(ENCODER.encode(row) + "\n" for row in [first, *rows[1:]])
            self._check_room(len(text))
            before = self._file.length
            try:
                self._file.write(text)
                self._file.sync()
            except OSError:  # they were not acknowledged: nothing of them may stay
                self._file.length = before
                self._file.cut()
                raise
            self.rows += len(rows)
        self._more.set()

    def _check_room(self, size: int) -> None:
        """Refuse rows while there is room for what they will become: half a row is no row."""
        disk = os.statvfs(self.path.parent)
        if disk.f_bavail * disk.f_frsize < RESERVE + size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def wait(self, seconds: float) -> None:
        """Until there is more, or so long."""
        self._more.wait(seconds)
        self._more.clear()

    @property
    def length(self) -> int:
        """Bytes of the file."""
        return self._file.length

    def renew(self) -> None:
        """Make the file a part, and begin another one."""
        with self._lock:
            before = parts(self.path.parent)
            number = number_of(before[-1]) + 1 if before else 1
            self._file.close()
            self.path.rename(part_of(self.path.parent, number))
            self._file = Appended(self.path, 0, None)
            sync(self.path.parent)
        self._more.set()

    @property
    def mark(self) -> str | None:
        """The place in the broker after which to go on; None if nothing has come from one."""
        with self._lock:
            for path in (self.path, *reversed(parts(self.path.parent))):
                if (mark := _last_mark(path)) is not None:
                    return mark
        return None

    def close(self) -> None:
        """Close the file, and let others in."""
        self._file.close()
        self._locked.close()


def _lines(path: Path, place: Position | None) -> int:
    """After a place of this file."""
    with path.open("rb") as file:
        file.seek(place.offset if place is not None and is_in(place, path) else 0)
        return sum(1 for _ in file)


def _last_mark(path: Path) -> str | None:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - ENDING))
        lines = file.read().splitlines()
    for line in reversed(lines):
        if f'"{MARK}"'.encode() in line:
            return str(json.loads(line)[MARK])
    return None


def _check(path: Path) -> None:
    """Refuse a file that somebody else wrote."""
    if not path.exists():
        return
    with path.open("rb") as file:
        first = file.readline(ENDING)
    try:
        ours = not first.endswith(b"\n") or isinstance(json.loads(first), dict)
    except ValueError:
        ours = False
    if not ours:
        raise Refusal(f"{path}: holds no rows of a service, expected another --out")


def _whole(path: Path, length: int) -> int:
    """The length without half a line at the end: it was never acknowledged."""
    if not length:
        return 0
    with path.open("rb") as file:
        begin = max(0, length - ENDING)
        file.seek(begin)
        return begin + file.read(length - begin).rfind(b"\n") + 1
