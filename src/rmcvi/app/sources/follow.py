"""A file that grows: whole lines as they come, through truncation and rotation."""

import io
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rmcvi.app.sources.errors import DataError
from rmcvi.app.sources.lines import MAX_LINE, MAX_SAMPLE, Line, cut_line

_WITNESS = 256
"""Bytes before our place that are compared when a file that rested has grown."""


@dataclass(frozen=True)
class Pace:
    """How to wait for a source that is not complete."""

    stop: Callable[[], bool] = lambda: False
    """Asked before each line of a followed file: whether to read no further."""
    sleep: Callable[[float], None] = time.sleep
    """How to wait, `poll` seconds at a time."""
    idle: Callable[[], None] = lambda: None
    """Called before each wait: whoever has put rows aside may have been waiting for more."""
    poll: float = 0.5
    patience: float = 2.0
    """Seconds of silence after which a pipe's first rows are enough to look at."""


class Tail:
    """Lines of a growing file.

    A last line without its end is kept back until the rest comes. If the file shrinks, is written
    anew, or another one takes its name, reading starts again at its top; what a file that was
    renamed ended with still counts.
    """

    def __init__(self, path: Path, offset: int = 0, number: int = 0):
        self.path = path
        self._stream = self._open()
        self._go_to(offset, number)

    def poll(self) -> Line | None:
        """The next whole line, None if there is none yet."""
        if self._waited and self._rewritten():
            return self._renewed()
        self._waited = False
        while data := self._stream.readline(MAX_LINE):
            if self._size <= MAX_LINE:
                self._held += data
            self._size += len(data)
            self._last = (self._last + data)[-_WITNESS:]
            if data.endswith(b"\n"):
                return self._take()
        self._waited = True
        return self._renewed()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _take(self) -> Line:
        self._number += 1
        line = cut_line(self._held, self._number, self._offset, self._size)
        self._offset, self._held, self._size = line.end, b"", 0
        return line

    def _go_to(self, offset: int, number: int) -> None:
        self._stream.seek(offset)
        self._offset, self._number, self._held, self._size = offset, number, b"", 0
        before = min(offset, _WITNESS)
        self._last = os.pread(self._stream.fileno(), before, offset - before)
        self._waited = False

    def _rewritten(self) -> bool:
        """Whether the file was cut and has grown again beyond our place: other bytes before it."""
        begin = self._offset + self._size - len(self._last)
        return os.pread(self._stream.fileno(), len(self._last), begin) != self._last

    def _renewed(self) -> Line | None:
        """Notice a new or shortened file; its predecessor's last words, if any."""
        try:
            now = os.stat(self.path)
        except OSError:
            return None
        old = os.fstat(self._stream.fileno())
        rotated = (now.st_ino, now.st_dev) != (old.st_ino, old.st_dev)
        if not rotated and now.st_size >= self._stream.tell() and not self._rewritten():
            return None
        if rotated and old.st_size > self._stream.tell():
            return self.poll()  # it had grown before it was renamed
        last = self._take() if rotated and self._held else None
        self._stream.close()
        self._stream = self._open()
        self._go_to(0, 0)
        return last or self.poll()

    def _open(self) -> io.BufferedReader:
        try:
            return open(self.path, "rb")
        except OSError as error:
            message = f"{self.path}: cannot be read ({error.strerror or error})"
            raise DataError(message) from None


def follow_lines(path: Path, pace: Pace, offset: int = 0, number: int = 0) -> Iterator[Line]:
    """Lines of a growing file until `pace` says stop."""
    tail = Tail(path, offset, number)
    try:
        while not pace.stop():
            line = tail.poll()
            if line is None:
                pace.idle()
                pace.sleep(pace.poll)
            else:
                yield line
    finally:
        tail.close()


def first_lines(path: Path, count: int, pace: Pace, least: int = 3) -> list[Line]:
    """Up to `count` lines that a growing file has now; at least `least` are waited for."""
    tail, lines, size = Tail(path), [], 0
    try:
        while len(lines) < count and size < MAX_SAMPLE and not pace.stop():
            line = tail.poll()
            if line is not None:
                lines.append(line)
                size += len(line.data)
            elif len(lines) >= least:
                break
            else:
                pace.sleep(pace.poll)
    finally:
        tail.close()
    return lines
