"""The running digest of what was read, from which a fingerprint is made.

All of a file could be read again to see that nothing in it has changed, but not gigabytes at every
start: the digest covers the last one to two MiB of records, or all of a pipe, which is read anyway.
A copy with the same content is the same file, whatever its inode.
"""

from collections.abc import Callable
from hashlib import blake2b
from math import inf
from pathlib import Path

from rmcvi.data._errors import DataError
from rmcvi.data._fingerprint import Fingerprint
from rmcvi.data._lines import open_bytes
from rmcvi.data._records import Record

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
        find_head: Callable[[], Head] = lambda: (0, ""),
        parts: dict[str, int] | None = None,
        whole: bool = False,
    ):
        self._find_head, self._head = find_head, (0, "")
        self._parts, self._window = parts or {}, inf if whole else WINDOW
        self._older: _Digest | None = None
        self._newer: _Digest | None = None
        self.end = 0

    def add(self, record: Record) -> None:
        """Take a record that follows the ones before; one that does not begins a new trace."""
        if record.start < self.end:
            self._older = self._newer = None
        latest = self._newer or self._older
        if latest is None:
            self._older = _Digest(record.start, record.first - 1)
            self._head = self._find_head()
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
        return Fingerprint(start, line, digest, *self._head, self._parts)


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


def head_of(path: Path, size: int | None = None) -> Head:
    """The number and the digest of the first bytes, whole lines if there are few."""
    try:
        with open_bytes(path) as stream:
            data = stream.read(HEAD if size is None else size)
    except (OSError, EOFError):
        return 0, ""
    if size is None and len(data) < HEAD:
        data = data[: data.rfind(b"\n") + 1]
    return len(data), blake2b(data, digest_size=16).hexdigest()
