"""Who may do what alone: learn a shard, or compile what the others then find in the cache."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rmcvi.app.run.speech import Refusal

COMPILING = ".rmcvi-compiling.lock"
PATIENCE = 600.0
"""Seconds to wait for the compiler of another process; then both compile."""


def locked(path: Path, patience: float = 60.0) -> int:
    """Wait until whoever had the lock has ended; a process that was killed has."""
    number = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(number)
                raise Refusal(f"{path.parent}: another process is learning here") from None
            time.sleep(0.1)


@contextmanager
def compiling() -> Iterator[None]:
    """One process at a time compiles for a cache; without one, each for itself and at once."""
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    try:
        lock = locked(Path(cache) / COMPILING, PATIENCE) if cache else None
    except (OSError, Refusal):  # there is no such folder, or it cannot be written
        lock = None
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)
