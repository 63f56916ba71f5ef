"""The checkpoint of a shard: its streams, its place in the source and the lengths of its output.

A checkpoint is a small file that names segments, each with the streams that had changed since the
one before; the later counts. A segment is written once and never changed, the small file replaced
as a whole, and what neither it nor the one before names is removed. So a kill at any moment leaves
one of the two whole. Writing a segment does not wait for the disk: while that takes it in, streams
may change, and the checkpoint counts when it is done. A new segment takes the place of later ones
that are not much longer: each of those that stay is more than twice as long as the next.

A stream can be read alone, so that those that are idle need not be in memory.
"""

import json
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rmcvi.app.fleet.storage import sealed, unsealed
from rmcvi.core.files import replace, sync, to_json
from rmcvi.learners import CheckpointError

CURRENT, PREVIOUS = "checkpoint.json", "checkpoint-previous.json"
SHIFT, OFFSET = 44, (1 << 44) - 1
"""A place is the number of a segment and an offset in it, of up to 17 terabytes."""
LONGER = 2
"""A segment at most so many times as long as the new one is written anew with it."""
BUFFER = 1 << 20
"""Bytes that are given to the system together."""
SIZES = struct.Struct("<4I")
"""Before each stream: numbers of its clock, of its state, bytes of one of these, of its note."""


class Kept(NamedTuple):
    """A stream in a checkpoint."""

    clock: list[float | None]
    state: np.ndarray
    note: str = ""
    """What else there is to know of it."""

    @property
    def noted(self) -> dict[str, Any]:
        """The same as plain values."""
        return json.loads(self.note) if self.note else {}

    def packed(self) -> bytes:
        """As it is written; the next one begins at a multiple of eight bytes."""
        clock = np.array([np.nan if v is None else v for v in self.clock], float)
        state, note = self.state.tobytes(), self.note.encode()
        note += b" " * (-(len(note) + len(state)) % 8)
        sizes = SIZES.pack(len(clock), len(self.state), self.state.itemsize, len(note))
        return b"".join((sizes, clock.tobytes(), state, note))

    @classmethod
    def at(cls, data: mmap.mmap, offset: int) -> "Kept":
        """The one that begins at an offset; its state lies where it was read."""
        clock, words, size, note = SIZES.unpack_from(data, offset)
        begin = offset + SIZES.size
        times = np.frombuffer(data, float, clock, begin).tolist()
        begin += 8 * clock
        state = np.frombuffer(data, f"<f{size}", words, begin)
        begin += words * size
        text = data[begin : begin + note].decode().rstrip()
        return cls([None if v != v else v for v in times], state, text)


def _length(data: mmap.mmap, offset: int) -> int:
    """Bytes of the stream that begins at an offset."""
    clock, words, size, note = SIZES.unpack_from(data, offset)
    return SIZES.size + 8 * clock + words * size + note


class Store:
    """The folder of one shard's checkpoints."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._names: list[dict[str, Any]] = []
        self._segments: dict[int, mmap.mmap] = {}
        self._places: dict[str, int] = {}
        """Segment and offset of each stream in one number: there may be a million of them."""
        self._number = 0
        self._begun: tuple[list[dict[str, Any]], dict[str, Any]] = [], {}
        self._file: int | None = None

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def get(self, key: str) -> Kept:
        """A stream as the checkpoint has it."""
        place = self._places[key]
        return Kept.at(self._segments[place >> SHIFT], place & OFFSET)

    def load(self) -> tuple[dict[str, Any] | None, str | None]:
        """The newest whole checkpoint: what was saved with its streams, a remark if it is the one
        before; (None, None) if there is none.
        """
        trouble: CheckpointError | None = None
        for name in (CURRENT, PREVIOUS):
            path = self.folder / name
            if not path.exists():
                continue
            self._segments, self._places = {}, {}
            try:
                plain = self._read(path)
                for segment in plain["segments"]:
                    self._open(segment)
            except CheckpointError as error:
                trouble = error
                continue
            self._names, self._number = plain["segments"], plain["number"]
            self._begun = self._names, plain["extra"]
            return plain["extra"], None if trouble is None else f"{trouble} Going back."
        if trouble is not None:
            raise trouble
        return None, None

    def save(
        self, extra: dict[str, Any], changed: Sequence[str], kept: Callable[[str], Kept]
    ) -> None:
        """Write the streams that have changed, or all of them; then what counts.

        Args:
            extra: what else belongs to the checkpoint.
            changed: the streams that have changed.
            kept: what they are now.
        """
        self.begin(extra, changed, kept)
        self.sync()
        self.commit()

    def begin(
        self, extra: dict[str, Any], changed: Sequence[str], kept: Callable[[str], Kept]
    ) -> None:
        """As `save`, up to where the disk has to be waited for."""
        self.folder.mkdir(exist_ok=True)
        self._number += 1
        keys, new, names = list(changed), set(changed), list(self._names)
        while names and names[-1]["streams"] <= LONGER * len(keys):
            last = names.pop()
            here = (key for key in self._index(last)["keys"] if key not in new)
            keys += [key for key in here if self._places[key] >> SHIFT == last["number"]]
        parts = (kept(key).packed() if key in new else self._bytes(key) for key in keys)
        if keys or not names:
            names = [*names, self._write(keys, parts)]
        self._begun = names, extra

    def sync(self) -> None:
        """Wait until the segment that was begun is on disk; nothing else is touched, so that
        another thread may do it.
        """
        if self._file is not None:
            os.fsync(self._file)
            sync(self.folder)

    @property
    def begun(self) -> dict[str, Any]:
        """The checkpoint that was begun or loaded: its segments, and what else belongs to it."""
        names, extra = self._begun
        return {"number": self._number, "segments": names, "extra": extra}

    def commit(self) -> None:
        """From now on, the checkpoint that was begun is the one that counts."""
        names, _ = self._begun
        current, previous = self.folder / CURRENT, self.folder / PREVIOUS
        if current.exists():
            replace(previous, current.read_bytes())
        replace(current, sealed(self.begun))
        self._let_go()
        if names[-1] not in self._names:
            self._open(names[-1], sure=True)
        self._names = names
        self._sweep()

    def _let_go(self) -> None:
        """The segment that was written is written no more."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _bytes(self, key: str) -> bytes:
        place = self._places[key]
        data, offset = self._segments[place >> SHIFT], place & OFFSET
        return data[offset : offset + _length(data, offset)]

    def _write(self, keys: list[str], parts: Iterable[bytes]) -> dict[str, Any]:
        """A new segment: one stream after the other, then their keys and where each begins."""
        number, crc, size, places = self._number, 0, 0, []
        self._let_go()
        with open(self.folder / f"segment-{number}", "wb", buffering=BUFFER) as file:
            for part in parts:
                places.append(size)
                crc, size = zlib.crc32(part, crc), size + file.write(part)
            index = to_json({"keys": keys, "places": places}).encode()
            crc, end = zlib.crc32(index, crc), size + file.write(index)
            self._file = os.dup(file.fileno())
        return {"number": number, "index": size, "bytes": end, "crc": crc, "streams": len(keys)}

    def _read(self, path: Path) -> dict[str, Any]:
        plain = unsealed(path.read_bytes())
        if plain is None:
            raise CheckpointError(path, "damaged", "It was not written as it is.")
        return plain

    def _open(self, segment: dict[str, Any], sure: bool = False) -> None:
        """Make the streams of a segment those that count; `sure` that they are as written."""
        number = int(segment["number"])
        path = self.folder / f"segment-{number}"
        if not path.exists() or path.stat().st_size != segment["bytes"]:
            raise CheckpointError(path, "damaged or cut short", "Restore it from a copy.")
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if not sure:
            damaged = zlib.crc32(data) != segment["crc"]
            data.madvise(mmap.MADV_DONTNEED)  # what was looked at need not stay in memory
            if damaged:
                raise CheckpointError(path, "damaged or cut short", "Restore it from a copy.")
        self._segments[number] = data
        index = self._index(segment)
        places = ((number << SHIFT) + place for place in index["places"])
        self._places.update(zip(index["keys"], places, strict=True))

    def _index(self, segment: dict[str, Any]) -> dict[str, Any]:
        """The keys of a segment's streams, and where each begins."""
        return json.loads(self._segments[segment["number"]][segment["index"] :])

    def _sweep(self) -> None:
        """Remove the segments that no checkpoint names."""
        current = {segment["number"] for segment in self._names}
        self._segments = {k: data for k, data in self._segments.items() if k in current}
        previous = self.folder / PREVIOUS
        if previous.exists():
            current |= {segment["number"] for segment in self._read(previous)["segments"]}
        for path in self.folder.glob("segment-*"):
            if int(path.name.removeprefix("segment-")) not in current:
                path.unlink()
