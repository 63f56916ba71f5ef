"""The journal in parts: what is learned from need not be kept for ever.

Rows are appended to `rows.jsonl`, which the run follows. Once it is long, and the checkpoint's
place is in it, it is renamed to `rows-000001.jsonl`, and another one begins; the run reads the one
to its end and goes over to the other. Killed before its next checkpoint, it would look for its
place in a file that is a part by now: so whoever starts puts the parts from that place on together
again. Parts before it are of no use to the run, and go when there are too many rows, or too old.
"""

import contextlib
import json
import math
import os
import re
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rmcvi.app.fleet.plan import FleetPlan
from rmcvi.app.fleet.store import CURRENT
from rmcvi.app.fleet.store import PREVIOUS as EARLIER
from rmcvi.app.run.directory import CHECKPOINT, FLEET, PREVIOUS
from rmcvi.app.run.speech import Refusal
from rmcvi.app.sources import Position
from rmcvi.app.sources.trace import HEAD, begins_alike
from rmcvi.core.files import sync
from rmcvi.learners import CheckpointError, peek

if TYPE_CHECKING:
    from rmcvi.app.serve.journal import Journal

JOURNAL = "rows.jsonl"
NAME = re.compile(r"rows-(\d{6,})\.jsonl")
PART, LEAST, SHARES = 1 << 26, 1 << 20, 8
"""Bytes of a part: so many, but an eighth of what is kept if that is less, down to the second."""
OFTEN = 10.0
"""Seconds between two looks."""
UNITS = {"MB": 1e6, "GB": 1e9, "TB": 1e12}
ALL = "all"


class Keep(NamedTuple):
    """How many rows are kept."""

    size: float = math.inf
    """In bytes."""
    seconds: float = math.inf
    """Since the last row of their part."""

    @classmethod
    def of(cls, text: str) -> "Keep":
        """From what was said, such as 10GB, 30d or all."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(MB|GB|TB|d)", text.strip(), re.IGNORECASE)
        if text.strip() == ALL:
            return cls()
        if found is None or float(found[1]) <= 0.0:
            raise Refusal(f"--keep-rows: got {text!r}, expected such as 10GB, 500MB, 30d or {ALL}")
        number, unit = float(found[1]), found[2].upper()
        return cls(seconds=86400.0 * number) if unit == "D" else cls(size=UNITS[unit] * number)

    @property
    def part(self) -> float:
        """Bytes after which a part is over."""
        return float(min(PART, max(LEAST, self.size / SHARES)))


def parts(folder: Path) -> list[Path]:
    """The oldest first."""
    return sorted((p for p in folder.iterdir() if NAME.fullmatch(p.name)), key=number_of)


def part_of(folder: Path, number: int) -> Path:
    """Where a part is."""
    return folder / f"rows-{number:06d}.jsonl"


def number_of(path: Path) -> int:
    """Of a part."""
    found = NAME.fullmatch(path.name)
    assert found is not None
    return int(found[1])


def place_in(folder: Path) -> Position | None:
    """How far the rows are learned from, as the checkpoint on disk says."""
    if (folder / FLEET).exists():
        shard = folder / FleetPlan.read(folder).folder(0)
        extras = (_of_shard(shard / name) for name in (CURRENT, EARLIER))
    else:
        extras = (_of_run(folder / name) for name in (CHECKPOINT, PREVIOUS))
    for extra in extras:
        if extra is not None:
            source = extra.get("source")
            return None if source is None else Position.from_json(source)
    return None


def _of_run(path: Path) -> dict | None:
    try:
        return peek(path)["live"]["extra"]
    except (CheckpointError, KeyError, TypeError):
        return None


def _of_shard(path: Path) -> dict | None:
    try:
        return json.loads(path.read_text(encoding="utf-8").partition(" ")[2])["extra"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_in(place: Position, path: Path) -> bool:
    """Whether a place is one of this file."""
    known = place.fingerprint
    if known is None or not path.exists() or path.stat().st_size < place.offset:
        return False
    return known.size > 0 and begins_alike(path, known)


def join(folder: Path) -> None:
    """Put the parts from the checkpoint's place on together, as the file that is followed.

    Killed before the last line, the rows of these parts are on disk twice; they are learned once.
    """
    path, before = folder / JOURNAL, parts(folder)
    place = place_in(folder) if before else None
    if place is None or is_in(place, path):
        return
    first = next((i for i, part in reversed([*enumerate(before)]) if is_in(place, part)), None)
    if first is None:
        return  # other rows: whoever follows the file will see
    whole, later = path.with_name("rows.joined"), before[first:]
    with whole.open("wb") as file:
        for part in (*later, *([path] if path.exists() else [])):
            with part.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
    whole.replace(path)
    sync(folder)
    for part in later:
        part.unlink()


class Keeper:
    """Renews a journal and removes its old parts, from a thread of its own."""

    def __init__(self, journal: "Journal", keep: Keep):
        self._journal, self._keep = journal, keep
        self._folder, self._begun = journal.path.parent, time.time()
        self._found = place_in(self._folder)
        """Where an earlier process was: ours may not yet have opened the file."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        if keep != Keep():
            self._thread.start()

    def close(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _run(self) -> None:
        while not self._stop.wait(OFTEN):
            with contextlib.suppress(OSError):  # a full disk is the run's to tell
                self.look()

    def look(self) -> None:
        """Renew and remove what is due; nothing that the checkpoint on disk still needs."""
        before = parts(self._folder)
        last = before[-1].stat().st_mtime if before else self._begun
        long = self._journal.length >= self._keep.part
        old = time.time() - last > self._keep.seconds / SHARES and self._journal.length > HEAD
        gone = self._gone(before)
        if not (long or old or gone):
            return
        place = place_in(self._folder)
        # By its first bytes a file is known again: all of them are to have been read.
        if place is None or place == self._found or place.offset < HEAD:
            return
        if not is_in(place, self._journal.path):
            return
        for part in gone:
            part.unlink()
        if long or old:
            self._journal.renew()

    def _gone(self, before: list[Path]) -> list[Path]:
        """Parts that are too many or too old; the last stays, for the checkpoint before."""
        found, size, now = [], self._journal.length, time.time()
        for part in reversed(before):
            stat = part.stat()
            size += stat.st_size
            late = size > self._keep.size or now - stat.st_mtime > self._keep.seconds
            if late and part != before[-1]:
                found.append(part)
        return found[::-1]
