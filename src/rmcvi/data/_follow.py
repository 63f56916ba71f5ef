"""A file that grows: whole lines as they come, through truncation and rotation."""

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from rmcvi.data._errors import DataError
from rmcvi.data._lines import MAX_LINE, Line, check_length, open_bytes


class Tail:
    """Lines of a growing file.

    A last line without its end is kept back until the rest comes. If the file shrinks, or another
    one takes its name, reading starts again at its top; what an old file ended with still counts.
    """

    def __init__(self, path: Path, offset: int = 0, number: int = 0):
        self.path = path
        self._stream = self._open()
        self._stream.seek(offset)
        self._offset, self._number, self._held = offset, number, b""

    def poll(self) -> Line | None:
        """The next whole line, None if there is none yet."""
        self._held += self._stream.readline(MAX_LINE)
        if not self._held.endswith(b"\n"):
            check_length(self._held, str(self.path), self._number + 1)
            return self._renewed()
        return self._take()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _take(self) -> Line:
        data, self._held = self._held, b""
        start, self._offset = self._offset, self._offset + len(data)
        self._number += 1
        return Line(data, self._number, start, self._offset)

    def _renewed(self) -> Line | None:
        """Notice a new or shortened file; its predecessor's last words, if any."""
        try:
            now = os.stat(self.path)
        except OSError:
            return None
        old = os.fstat(self._stream.fileno())
        rotated = (now.st_ino, now.st_dev) != (old.st_ino, old.st_dev)
        if not rotated and now.st_size >= self._stream.tell():
            return None
        last = self._take() if rotated and self._held else None
        self._stream.close()
        self._stream = self._open()
        self._offset, self._number, self._held = 0, 0, b""
        return last

    def _open(self) -> io.BufferedIOBase:
        try:
            return open_bytes(self.path)
        except OSError as error:
            message = f"{self.path}: cannot be read ({error.strerror or error})"
            raise DataError(message) from None


def follow_lines(
    path: Path,
    stop: Callable[[], bool],
    sleep: Callable[[float], None],
    offset: int = 0,
    number: int = 0,
    poll: float = 0.5,
) -> Iterator[Line]:
    """Lines of a growing file until `stop()` says so; `sleep(poll)` when there is none."""
    tail = Tail(path, offset, number)
    try:
        while not stop():
            line = tail.poll()
            if line is None:
                sleep(poll)
            else:
                yield line
    finally:
        tail.close()


def first_lines(
    path: Path,
    count: int,
    stop: Callable[[], bool],
    sleep: Callable[[float], None],
    least: int = 3,
    poll: float = 0.5,
) -> list[Line]:
    """Up to `count` lines that a growing file has now; at least `least` are waited for."""
    tail, lines = Tail(path), []
    try:
        while len(lines) < count and not stop():
            line = tail.poll()
            if line is not None:
                lines.append(line)
            elif len(lines) >= least:
                break
            else:
                sleep(poll)
    finally:
        tail.close()
    return lines
