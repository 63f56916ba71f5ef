"""The checkpoint of a shard: its streams, its place in the source and the lengths of its output.

A checkpoint is a small file that names segments, each with the streams that had changed since the
one before; the later counts. A segment is written once and never changed, the small file replaced
as a whole, and what neither it nor the one before names is removed. So a kill at any moment leaves
one of the two whole. When the segments together hold twice as many streams as there are, or nearly
all have changed, one segment takes the place of all.
"""

import json
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rmcvi.core.files import replace, sync, to_json
from rmcvi.learners import CheckpointError

CURRENT, PREVIOUS = "checkpoint.json", "checkpoint-previous.json"
WASTE = 2
"""Streams in all segments for one that there is, at which they are written anew."""


class Kept(NamedTuple):
    """A stream in a checkpoint."""

    key: str
    clock: list[float | None]
    state: np.ndarray


class Store:
    """The folder of one shard's checkpoints."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._segments: list[dict[str, Any]] = []
        self._number = 0

    def load(self) -> tuple[dict[str, Any] | None, dict[str, Kept], str | None]:
        """The newest whole checkpoint: what was saved with it, its streams, a remark if it is the
        one before; (None, {}, None) if there is none.
        """
        trouble: CheckpointError | None = None
        for name in (CURRENT, PREVIOUS):
            path = self.folder / name
            if not path.exists():
                continue
            try:
                plain = self._read(path)
                streams = {kept.key: kept for s in plain["segments"] for kept in self._open(s)}
            except CheckpointError as error:
                trouble = error
                continue
            self._segments, self._number = plain["segments"], plain["number"]
            return plain["extra"], streams, None if trouble is None else f"{trouble} Going back."
        if trouble is not None:
            raise trouble
        return None, {}, None

    def save(
        self, extra: dict[str, Any], changed: Sequence[Kept], whole: Sequence[Kept] | None
    ) -> None:
        """Write what has changed, or the `whole` table if `wants_whole`; then what counts."""
        self.folder.mkdir(exist_ok=True)
        self._number += 1
        if whole is not None:
            self._segments = []
        kept = changed if whole is None else whole
        if kept or not self._segments:
            self._segments = [*self._segments, self._write(kept)]
        current, previous = self.folder / CURRENT, self.folder / PREVIOUS
        if current.exists():
            replace(previous, current.read_bytes())
        plain = {"number": self._number, "segments": self._segments, "extra": extra}
        text = to_json(plain)
        replace(current, f"{zlib.crc32(text.encode())} {text}\n".encode())
        self._sweep()

    def wants_whole(self, changed: int, streams: int) -> bool:
        """Whether the next checkpoint should hold all streams in one segment."""
        held = sum(segment["streams"] for segment in self._segments)
        return held + changed > WASTE * streams or 2 * changed > streams

    def _write(self, kept: Sequence[Kept]) -> dict[str, Any]:
        name = f"segment-{self._number}"
        words = len(kept[0].state) if kept else 0
        kind = str(kept[0].state.dtype) if kept else "float64"
        about = {"keys": [k.key for k in kept], "clocks": [k.clock for k in kept]}
        about |= {"words": words, "dtype": kind}
        crc, size = 0, 0
        with open(self.folder / name, "wb") as file:
            first = (to_json(about) + "\n").encode()
            for part in (first, *(np.ascontiguousarray(k.state).data.cast("B") for k in kept)):
                crc, size = zlib.crc32(part, crc), size + len(part)
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        sync(self.folder)
        return {"name": name, "bytes": size, "crc": crc, "streams": len(kept)}

    def _read(self, path: Path) -> dict[str, Any]:
        crc, _, text = path.read_text().strip().partition(" ")
        if crc != str(zlib.crc32(text.encode())):
            raise CheckpointError(path, "damaged", "It was not written as it is.")
        return json.loads(text)

    def _open(self, segment: dict[str, Any]) -> Iterator[Kept]:
        path = self.folder / Path(segment["name"]).name
        data = path.read_bytes() if path.exists() else b""
        if len(data) != segment["bytes"] or zlib.crc32(data) != segment["crc"]:
            raise CheckpointError(path, "damaged or cut short", "Restore it from a copy.")
        first, _, rest = data.partition(b"\n")
        about = json.loads(first)
        states = np.frombuffer(rest, about["dtype"]).reshape(-1, max(about["words"], 1))
        for kept in zip(about["keys"], about["clocks"], states, strict=True):
            yield Kept(*kept)

    def _sweep(self) -> None:
        """Remove the segments that no checkpoint names."""
        named = {segment["name"] for segment in self._segments}
        previous = self.folder / PREVIOUS
        if previous.exists():
            named |= {segment["name"] for segment in self._read(previous)["segments"]}
        for path in self.folder.glob("segment-*"):
            if path.name not in named:
                path.unlink()
