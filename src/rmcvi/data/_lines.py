"""Lines of bytes with their number and offsets, from files (gzip or not) and pipes."""

import gzip
import io
import select
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rmcvi.data._errors import DataError, place

MAX_LINE = 1 << 20
_GZIP, _PARQUET, _ZIP = b"\x1f\x8b", b"PAR1", b"PK\x03\x04"
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_PLAIN_CONTROLS = frozenset(b"\t\n\r\f\x1b")


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


def file_lines(path: Path, offset: int = 0, number: int = 0) -> Iterator[Line]:
    """Lines of a file from a byte offset, where `number` lines come before; gzip is opened."""
    try:
        with open_bytes(path) as stream:
            stream.seek(offset)
            yield from _cut(stream, str(path), offset, number)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path}: got a damaged gzip file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


def open_bytes(path: Path) -> io.BufferedIOBase:
    """The bytes of a file, uncompressed."""
    with open(path, "rb") as stream:
        opener: Callable[..., Any] = gzip.open if stream.read(2) == _GZIP else open
    return opener(path, "rb")


def _cut(stream: Any, name: str, offset: int, number: int) -> Iterator[Line]:
    while data := stream.readline(MAX_LINE):
        number += 1
        check_length(data, name, number)
        yield Line(data, number, offset, offset + len(data))
        offset += len(data)


def check_length(data: bytes, name: str, number: int) -> None:
    """Raise if a line has no end within reason."""
    if len(data) >= MAX_LINE:
        raise DataError(f"{place(name, number)}: got more than 1 MiB without a line end")


class PipeLines:
    """Lines of a pipe or file object, read once; the first ones can be looked at beforehand."""

    def __init__(self, stream: Any, name: str):
        self.name = name
        self._stream = getattr(stream, "buffer", stream)
        self._held = b""
        self._ended = False
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
        while len(self._seen) < count:
            hurry = len(self._seen) >= least
            if hurry and b"\n" not in self._held and not self._ready(patience):
                break
            line = next(self._lines, None)
            if line is None:
                break
            self._seen.append(line)
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
        while data := self._line():
            number += 1
            check_length(data, self.name, number)
            yield Line(data, number, offset, offset + len(data))
            offset += len(data)

    def _line(self) -> bytes:
        parts, size = [], 0
        while b"\n" not in self._held and not self._ended and size < MAX_LINE:
            parts.append(self._held)
            size += len(self._held)
            self._held = self._read()
            self._ended = not self._held
        head, mark, self._held = self._held.partition(b"\n")
        return b"".join([*parts, head, mark])

    def _read(self) -> bytes:
        # read1 gives what is there; a buffered read would wait for a full buffer.
        read = getattr(self._stream, "read1", None) or self._stream.read
        try:
            data = read(1 << 16)
        except (OSError, ValueError, EOFError, zlib.error) as error:
            raise DataError(f"{self.name}: cannot be read ({error})") from None
        return data.encode() if isinstance(data, str) else data or b""


def find_encoding(lines: list[Line], name: str) -> str:
    """UTF-8 if the first lines are, else cp1252; raises on what is no text at all."""
    data = b"".join(line.data for line in lines)
    if data.startswith(_PARQUET):
        raise DataError(f"{name}: got Parquet, expected text; give its path, ending in .parquet")
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
