"""The running digest of what was read, from which a fingerprint is made.

All of a file could be read again to see that nothing in it has changed, but not gigabytes at every
start: the digest covers the last one to two MiB of records, or all of a pipe, which is read anyway.
A copy with the same content is the same file, whatever its inode.
"""

import zlib
from hashlib import blake2b
from math import inf
from pathlib import Path

from rmcvi.app.sources.errors import DataError
from rmcvi.app.sources.lines import open_bytes
from rmcvi.app.sources.observation import Fingerprint
from rmcvi.app.sources.records import Record

HEAD = 1 << 12
"""Bytes at the top that are compared."""
WINDOW = float(1 << 20)
"""Bytes of records before our place that are compared at least, if so many were read."""
Head = tuple[int, str]


class Changed(DataError):
    """Another file under the name, or another content."""


class Trace:
    """The running digest of one file's records."""

    def __init__(
        self,
        path: Path | None = None,
        parts: dict[str, int] | None = None,
        whole: bool = False,
    ):
        self._path, self._top, self._head = path, b"", (0, "")
        self._parts, self._window = parts or {}, inf if whole else WINDOW
        self._older: _Digest | None = None
        self._newer: _Digest | None = None
        self.end = 0

    def add(self, record: Record) -> None:
        """Take a record that follows the ones before; one that does not begins a new trace."""
        if record.start < self.end:
            self._older = self._newer = None
            self._top, self._head = b"", (0, "")
        latest = self._newer or self._older
        if latest is None:
            self._older = _Digest(record.start, record.first - 1)
        elif latest.size >= self._window:
            self._older, self._newer = latest, _Digest(record.start, record.first - 1)
        # Not line ends: the last one may come later. Blank lines are nothing.
        data = b"".join(record.raw).strip() if record.raw else repr(record.cells).encode()
        for digest in (self._older, self._newer):
            if digest is not None and data:
                digest.add(data)
        self.end = record.end

    def mark(self) -> Fingerprint | None:
        """The fingerprint at the end of the last record; None before the first."""
        if self._older is None:
            return None
        start, line, digest = self._older.start, self._older.line, self._older.value()
        return Fingerprint(start, line, digest, *self._first_bytes(), self._parts)

    def _first_bytes(self) -> Head:
        """The number and the digest of the first bytes, of those that were read."""
        size = 0 if self._path is None else min(HEAD, self.end)
        if self._path is not None and self._head[0] < size:
            if len(self._top) < size:
                self._top = _top_of(self._path)
            self._head = _digest_of(self._top[:size])
        return self._head


class _Digest:
    def __init__(self, start: int, line: int):
        self.start, self.line, self.size = start, line, 0
        self._hash = blake2b(digest_size=16)

    def add(self, data: bytes) -> None:
        self._hash.update(data)
        self._hash.update(b"\n")
        self.size += len(data)

    def value(self) -> str:
        return self._hash.hexdigest()


def begins_alike(path: Path, known: Fingerprint) -> bool:
    """Whether the first bytes of a file are those of the fingerprint."""
    return not known.size or _digest_of(_top_of(path)[: known.size]) == (known.size, known.head)


def _top_of(path: Path) -> bytes:
    try:
        with open_bytes(path) as stream:
            return stream.read(HEAD)
    except (OSError, EOFError, zlib.error):
        return b""


def _digest_of(data: bytes) -> Head:
    return len(data), blake2b(data, digest_size=16).hexdigest()
