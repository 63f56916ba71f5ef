"""Lines of bytes with their number and offsets, from files (gzip or not) and pipes."""

import gzip
import io
import select
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rmcvi.app.sources.errors import TEXT, DataError

MAX_LINE = 1 << 20
"""Bytes in the longest line that is read; of a longer one only the beginning is kept."""
MAX_SAMPLE = 1 << 22
"""Bytes that are looked at to find out what a source is made of."""
LONG = "more than 1 MiB without a line end"
UNENDED = "no line end"
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
_TABLES = {b"PAR1": ("Parquet", ".parquet"), b"ARROW1": ("Arrow", ".arrow")}
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_PLAIN_CONTROLS = frozenset(b"\t\n\r\f\x1b")
_CHUNK = 1 << 16


@runtime_checkable
class Readable(Protocol):
    """A file object: standard input, a pipe, `io.BytesIO`."""

    def read(self, size: int = -1, /) -> Any:
        """Bytes or text."""
        ...


class Line(NamedTuple):
    """A line with its ending, its number from 1, and the bytes before it and up to its end."""

    data: bytes
    number: int
    start: int
    end: int
    flaw: str = ""
    """LONG, or UNENDED at the end of a file that may grow: it may be half of a line."""


def can_grow(path: Path) -> bool:
    """Whether more may be written to it: a plain file, not compressed, not a pipe."""
    try:
        with open(path, "rb") as stream:
            return path.is_file() and stream.read(2) != _GZIP
    except OSError:
        return False


def file_lines(path: Path, offset: int = 0, number: int = 0, grows: bool = False) -> Iterator[Line]:
    """Lines of a file from a byte offset, where `number` lines come before; gzip is opened.

    `grows`: whether a last line without its end may be half of a line.
    """
    try:
        with open_bytes(path) as stream:
            stream.seek(offset)
            yield from _cut(stream, offset, number, grows)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path}: got a damaged gzip file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


def line_before(path: Path, offset: int, size: int = 1 << 16) -> tuple[int, int]:
    """Where the first line begins that is at most `size` bytes before an offset, and how many lines
    there are in between.
    """
    with path.open("rb") as file:
        file.seek(max(offset - size, 0))
        if offset > size:
            file.readline()
        start = file.tell()
        return start, file.read(offset - start).count(b"\n")


def open_bytes(path: Path) -> io.BufferedIOBase:
    """The bytes of a file, uncompressed; lines that end in CR alone end in LF instead."""
    with open(path, "rb") as stream:
        opener: Callable[..., Any] = gzip.open if stream.read(2) == _GZIP else open
    stream = opener(path, "rb")
    old = _ends_in_cr(stream.read(_CHUNK))
    stream.seek(0)
    return io.BufferedReader(_OldLines(stream)) if old else stream


def _ends_in_cr(head: bytes) -> bool:
    # A CR at the very end may have its LF yet to come.
    return b"\n" not in head and b"\r" in head[:-1]


class _OldLines(io.RawIOBase):
    """Bytes with LF for CR: as many, so that offsets hold."""

    def __init__(self, stream: Any):
        self._stream = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._stream.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        data = self._stream.read(len(buffer)).replace(b"\r", b"\n")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _cut(stream: Any, offset: int, number: int, grows: bool) -> Iterator[Line]:
    while data := stream.readline(MAX_LINE):
        number += 1
        size, rest = len(data), data
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(MAX_LINE)
            size += len(rest)
        yield cut_line(data, number, offset, size, grows and not rest)
        offset += size


def cut_line(data: bytes, number: int, start: int, size: int, half: bool = False) -> Line:
    """A line of `size` bytes that begins with `data`; `half`: its end may be yet to come."""
    long = size > MAX_LINE
    flaw = UNENDED if half else LONG if long else ""
    return Line(data[:TEXT] if long else data, number, start, start + size, flaw)


class PipeLines:
    """Lines of a pipe or file object, read once; the first ones can be looked at beforehand."""

    def __init__(self, stream: Any, name: str, idle: Callable[[], None]):
        """`idle` is called before each wait."""
        self.name, self._idle = name, idle
        self._stream = getattr(stream, "buffer", stream)
        self._held = b""
        self._ended = False
        self._old: bool | None = None
        """Whether lines end in CR alone; None before the first bytes, which tell."""
        self._lines = self._cut()
        self._seen: list[Line] = []

    def __iter__(self) -> Iterator[Line]:
        while self._seen:
            yield self._seen.pop(0)
        yield from self._lines

    def peek(self, count: int, patience: float = 2.0, least: int = 3) -> list[Line]:
        """The first `count` lines: fewer if the pipe ends, or rests for `patience` seconds.

        At least `least` lines are waited for.
        """
        size = 0
        while len(self._seen) < count and size < MAX_SAMPLE:
            hurry = len(self._seen) >= least
            if hurry and b"\n" not in self._held and not self._ready(patience):
                break
            line = next(self._lines, None)
            if line is None:
                break
            self._seen.append(line)
            size += len(line.data)
        return list(self._seen)

    def _ready(self, patience: float) -> bool:
        if self._ended:
            return True
        try:
            return bool(select.select([self._stream.fileno()], [], [], patience)[0])
        except (AttributeError, OSError, ValueError, io.UnsupportedOperation):
            return True

    def _cut(self) -> Iterator[Line]:
        number, offset = 0, 0
        while not (self._ended and not self._held):
            data, size = self._line()
            if size:
                number += 1
                yield cut_line(data, number, offset, size)
                offset += size

    def _line(self) -> tuple[bytes, int]:
        """The next line, or the beginning of a long one, and its size."""
        parts, size = [], 0
        while b"\n" not in self._held and not self._ended:
            if size <= MAX_LINE:
                parts.append(self._held)
            size += len(self._held)
            self._held = self._read()
            self._ended = not self._held
            if self._old is None:
                self._old = _ends_in_cr(self._held)
            if self._old:
                self._held = self._held.replace(b"\r", b"\n")
        head, mark, self._held = self._held.partition(b"\n")
        return b"".join([*parts, head, mark]), size + len(head) + len(mark)

    def _read(self) -> bytes:
        if not self._ready(0.0):
            self._idle()
        # read1 gives what is there; a buffered read would wait for a full buffer.
        read = getattr(self._stream, "read1", None) or self._stream.read
        try:
            data = read(_CHUNK)
        except (OSError, ValueError, EOFError, zlib.error) as error:
            raise DataError(f"{self.name}: cannot be read ({error})") from None
        return data.encode("utf-8", "replace") if isinstance(data, str) else data or b""


def find_encoding(lines: list[Line], name: str) -> str:
    """UTF-8 if the first lines are, else cp1252; raises on what is no text at all."""
    data = b"".join(line.data for line in lines)
    for magic, (title, ending) in _TABLES.items():
        if data.startswith(magic):
            message = f"got {title}, expected text; give its path, ending in {ending}"
            raise DataError(f"{name}: {message}")
    if data.startswith((_GZIP, _ZIP)):
        raise DataError(f"{name}: got an archive, expected text; unpack it first")
    if data.startswith(_WIDE):
        raise DataError(f"{name}: got UTF-16 text, expected UTF-8")
    controls = sum(byte < 32 and byte not in _PLAIN_CONTROLS for byte in data)
    if b"\0" in data or controls > 0.01 * len(data):
        raise DataError(f"{name}: got binary data, expected text with rows of numbers")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"
