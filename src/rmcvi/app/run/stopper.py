"""When to stop: signals that are asked to wait for a row, and sources that wait for one."""

import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from rmcvi.app.sources import Observation, Pace

ASKED = (signal.SIGINT, signal.SIGTERM)
AGAIN = 0.1
"""Seconds after which we look whether a wait began just as we were asked, and end it."""
POLL = 0.1
"""Seconds between two looks at a file that is followed: soon enough for people, idle enough."""


class Interrupted(KeyboardInterrupt):
    """Raised while we wait for a row, or if we are asked twice."""


class Stopper:
    """Catches SIGINT and SIGTERM within a `with` block, so that a row is finished first.

    After the second one nothing is waited for; more are ignored.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.waiting = False
        self.before_waiting: Callable[[], None] = lambda: None
        """What is to be done before a source waits for more rows."""
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

    @property
    def pace(self) -> Pace:
        """How a source should wait: it stops when we are asked, and says before it waits."""
        return Pace(self.asked, idle=self._idle, poll=POLL)

    def _idle(self) -> None:
        self.waiting, before = False, self.waiting
        self.before_waiting()
        self.waiting = before

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


abandoned: list[threading.Thread] = []
"""What goes on although nobody waits for it: the process ends without it."""


def unless_asked(work: Callable[[], None], stopper: Stopper) -> bool:
    """Do what hears of no signal, the compiler, in another thread.

    Returns whether it was done; not, if somebody asks to stop before.
    """
    errors: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    try:
        while thread.is_alive() and not stopper.asked():
            thread.join(POLL)
    except Interrupted:
        pass
    if thread.is_alive():
        abandoned.append(thread)
        return False
    for error in errors:
        raise error
    return True


def next_row(rows: Iterator[Observation], stopper: Stopper) -> Observation | None:
    """The next row; None at the end, or if somebody asks to stop while we wait for it."""
    try:
        stopper.waiting = True
        return next(rows, None)
    except Interrupted:
        return None
    finally:
        stopper.waiting = False
