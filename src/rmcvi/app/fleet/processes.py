"""The default engine: one process for each shard, on this machine.

The processes share nothing but the directory. One that is killed is started again and goes on from
its checkpoint; if it is this process that is killed, they stop at their next batch.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any

from rmcvi.app.fleet.remote import Published, read_plan
from rmcvi.app.fleet.shard import Shard
from rmcvi.app.fleet.storage import Storage, is_remote, scratch
from rmcvi.app.fleet.told import Told
from rmcvi.app.run.speech import Refusal, say
from rmcvi.app.sources import DataError, Position
from rmcvi.learners import CheckpointError

AGAIN = 3
"""Times that a shard is started again without having come further."""
PATIENCE = 60.0
"""Seconds that a shard has to finish its batch; what it has not saved is done again later."""
LOOK = 0.2
"""Seconds between two looks at whether somebody asked us to stop."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
FLAG = "--xla_cpu_multi_thread_eigen=false"
"""Each shard has a core; threads of its own would only get in the way of the others."""


def one_thread() -> dict[str, str]:
    """The environment of a shard, as far as it is not ours already."""
    flags = os.environ.get("XLA_FLAGS", "")
    return ONE_THREAD | {"XLA_FLAGS": flags if FLAG in flags else f"{flags} {FLAG}".strip()}


def sentence(number: int, error: Exception) -> str:
    """Why a shard cannot go on."""
    if isinstance(error, Refusal | DataError | CheckpointError | OSError):
        return str(error)
    first = (str(error).strip() or "no message").splitlines()[0]
    return f"shard {number}: {type(error).__name__}: {first}"


def open_shard(place: str, number: int, model: str | None = None) -> Shard:
    """A shard of a fleet in a directory or on a storage."""
    if not is_remote(place):
        return Shard(Path(place), number, model)
    fleet = read_plan(storage := Storage(place))
    folder = scratch(place, fleet.folder(number))
    return Shard(folder, number, model, published=Published(storage, fleet, number))


class Worker:
    """A process and what it says."""

    def __init__(self, place: str, number: int, model: str | None, until: Position | None):
        context = multiprocessing.get_context("spawn")
        self.number, self.tries = number, 0
        self._words = (place, number, model, None if until is None else until.to_json())
        self._context = context
        self.told = Told(number)
        self.start()

    def start(self) -> None:
        """Begin, or begin again."""
        self.pipe, theirs = self._context.Pipe(duplex=False)
        os.environ.update(one_thread())
        self.process = self._context.Process(target=work, args=(*self._words, theirs))
        self.process.start()
        theirs.close()

    def hear(self) -> None:
        """Take in what it has said.

        Raises:
            Refusal: it cannot go on, and says why.
        """
        try:
            said = self.pipe.recv()
        except EOFError:
            self.process.join()
            self._ended(self.process.exitcode or 0)
            return
        if isinstance(said, str):
            raise Refusal(said)
        self.tries = 0
        self.told = Told(**said)

    def _ended(self, status: int) -> None:
        self.pipe.close()
        if self.told.done and status == 0:
            return
        self.tries += 1
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        if self.tries > AGAIN:
            raise Refusal(f"shard {self.number}: ended {how}, {AGAIN} times in a row")
        say(f"Shard {self.number} ended {how}; it goes on from its checkpoint.")
        self.start()


def run(
    place: str, shards: int, model: str | None = None, until: Position | None = None
) -> Iterator[list[Told]]:
    """All shards to the end of the source, or to a place; tells how far they are, now and then.

    Args:
        place: the directory of the fleet, or where it is on a storage.
        shards: how many.
        model: allows a plan's own code.
        until: as said.
    """
    workers = [Worker(place, number, model, until) for number in range(shards)]
    try:
        while going := [w for w in workers if not w.pipe.closed]:
            ready = wait([w.pipe for w in going], LOOK)
            for worker in going:
                if worker.pipe in ready:
                    worker.hear()
            yield [w.told for w in workers]
    finally:
        for worker in workers:
            worker.process.terminate()  # they save, then end; at once if they only prepare
        for worker in workers:
            worker.process.join(PATIENCE)
            worker.process.kill()
            worker.process.join()


def work(
    place: str, number: int, model: str | None, until: dict[str, Any] | None, pipe: Connection
) -> None:
    """What a process does."""
    asked: list[int] = []
    _keep_to_a_core(number)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's goes to all; who started us says
    parent = os.getppid()
    try:
        shard = open_shard(place, number, model)
        if shard.remark:
            say(shard.remark)
        progress = shard.run(None if until is None else Position.from_json(until))
        for told in progress:
            if asked or os.getppid() != parent:
                progress.close()
                break
            # The compiler hears of no signal until it is done; and there is nothing to be saved.
            gentle = not told.doing
            signal.signal(signal.SIGTERM, partial(_ask, asked) if gentle else signal.SIG_DFL)
            pipe.send(vars(told))
        shard.close()
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:  # it would meet the same again
        pipe.send(sentence(number, error))


def _ask(asked: list[int], number: int, frame: FrameType | None) -> None:
    del frame
    asked.append(number)


def _keep_to_a_core(number: int) -> None:
    """Before JAX is used: it makes as many threads as there are cores to run on."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
