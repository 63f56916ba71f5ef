"""Asked to stop, finish the row first."""

import signal
from types import FrameType
from typing import Any

ASKED = (signal.SIGINT, signal.SIGTERM)
AGAIN = 0.1
"""Seconds after which we look whether a wait began just as we were asked, and end it."""


class Interrupted(KeyboardInterrupt):
    """Raised while we wait for a row, or if we are asked twice."""


class Stopper:
    """Catches SIGINT and SIGTERM within a `with` block; the second is not
    waited for, more are ignored.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.waiting = False
        self._times = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stopper":
        try:
            self._before = {number: signal.signal(number, self._ask) for number in ASKED}
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._look)
        except ValueError:
            self._before = {}  # not the main thread: signals are not ours
        return self

    def __exit__(self, *_: object) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def asked(self) -> bool:
        """Whether to stop."""
        return self.signal != 0

    @property
    def status(self) -> int:
        """Exit status: 128 and the signal's number, 0 without one."""
        return 128 + self.signal if self.signal else 0

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._times += 1
        self.signal = number
        signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)
        if self._times == 2 or (self._times == 1 and self.waiting):
            raise Interrupted

    def _look(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.waiting:
            raise Interrupted
