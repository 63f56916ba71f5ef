"""A shard: the streams of some keys, from the source to its own output and checkpoint.

It knows no engine: it reads the source itself and passes over the keys of others. Killed at any
moment it goes on from its checkpoint, and writes what came after it again, with the same bytes.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rmcvi.app.fleet.groups import Group, Groups
from rmcvi.app.fleet.locks import compiling, locked
from rmcvi.app.fleet.output import Learned, estimates_of, open_lines, open_output
from rmcvi.app.fleet.plan import FleetPlan
from rmcvi.app.fleet.remote import Published
from rmcvi.app.fleet.residents import Residents
from rmcvi.app.fleet.routing import owner
from rmcvi.app.fleet.storage import emptied
from rmcvi.app.fleet.store import Kept, Store
from rmcvi.app.fleet.told import Told
from rmcvi.app.run.plan import SENSITIVITY, anchored
from rmcvi.app.sources import (
    Batch,
    Counts,
    KeyedStream,
    Pace,
    Position,
    Rules,
    Schema,
    open_source,
)
from rmcvi.core.files import to_json
from rmcvi.scale import Streams

ROWS, STREAM_ROWS, MOST = 4096, 16, 1 << 18
"""Rows of a batch: so many, or so many of each stream, at most the last number."""
SHARE, PATIENCE = 20.0, 30.0
"""A checkpoint may hold up learning for one part in so many of the time; one is due after so many
seconds."""


class Shard:
    """One of a fleet's shards; `run` it to its end, or stop anywhere."""

    def __init__(
        self,
        directory: Path,
        number: int,
        model: str | None = None,
        pace: Pace | None = None,
        published: Published | None = None,
    ):
        """Take up a shard where its checkpoint is.

        Args:
            directory: of the fleet; of this shard alone if it is published elsewhere.
            number: of the shard.
            model: allows a plan's own code, as in `Plan.trusted`.
            pace: the source is followed, and what has come is learned before each wait.
            published: where checkpoints and output come from, and go to.
        """
        self.directory, self.number, self._storage = directory, number, published
        self._lock = locked(directory / f".shard-{number}.lock")
        try:
            self._open(model, pace)
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self, model: str | None, pace: Pace | None) -> None:
        directory, number = self.directory, self.number
        if self._storage is not None:
            self._storage.take(directory)
        self._fleet = FleetPlan.read(directory)
        self.plan = self._fleet.plan.trusted(model)
        self._sensitivity: float = self.plan.options.get("sensitivity", SENSITIVITY)
        groups, columns = self._fleet.groups, self.plan.columns
        self.streams = Groups(groups, columns, self._table, self._sensitivity)
        self._mine: dict[str, bool] = {}
        self._follow = pace is not None
        waits = None if pace is None else replace(pace, idle=self._idle)
        place = self.plan.place() if self.plan.source != "-" else "-"
        source = open_source(place, self._follow, waits)
        self.lock = threading.RLock()
        """Held while streams change and their lines are told."""
        self.published: Callable[[Sequence[str], str], None] = lambda keys, lines: None
        """Told the keys of rows and their lines of estimates, once they are written."""
        schema = Schema.from_json(self.plan.schema)
        rules, key = Rules(self.plan.options["on_bad_row"]), self._fleet.key
        self._reader = KeyedStream(source, schema, rules, key, self._is_mine, first=number == 0)
        store = Store(directory / self._fleet.folder(number))
        extra, self.remark = store.load()
        self.residents = Residents(self.streams, store, self._reader, self._fleet.resident)
        self._restore(extra or {})
        self._saved, self._cost, self._pending = time.perf_counter(), 0.0, 0
        self._disk = ThreadPoolExecutor(1)
        self._syncing: Future[None] | None = None
        self.checkpoint_seconds = 0.0
        """What the last checkpoint took, the disk included."""
        self._clean = True
        """Whether the checkpoint holds all that was done."""
        if extra is None:
            self.save()
        if self._follow:  # other threads ask of streams at once
            deque(self._prepare())

    def _table(self, columns: int) -> Streams:
        """For streams of so many columns; other shards find the program in the cache."""
        learner = replace(self.plan, columns=self.plan.columns[:columns]).built()
        with compiling():
            whole = self.plan.options.get("whole", False)
            return Streams(learner, self.plan.seed, self._sensitivity, whole=whole)

    def _prepare(self) -> Generator[Told]:
        """Compile what will be needed, and say so before."""
        for number in self.streams.unmade:
            size = len(self._fleet.groups[number])
            what = f"preparing the program for streams of {size} column{'s' if size > 1 else ''}"
            yield self._told(f"{what}: compiled once, later runs take it from the cache")
            self.streams.group(number)

    def _restore(self, extra: dict[str, Any]) -> None:
        place, lengths = extra.get("source"), extra.get("lengths", {})
        self.position = None if place is None else Position.from_json(place)
        self.rows: int = extra.get("rows", 0)
        self._begun = self.rows
        self.residents.idle_failing = extra.get("failing", 0)
        self._reader.counts = Counts(**extra.get("counts", {}))
        path, parted = self.directory / self._fleet.estimates(self.number), bool(self._storage)
        length = lengths.get("estimates", 0)
        self._estimates = open_output(path, self._fleet.form, self.plan, length, parted)
        path = self.directory / self._fleet.rejected(self.number)
        self._rejected = open_lines(path, lengths.get("rejected", 0), parted)

    def _is_mine(self, key: str) -> bool:
        mine = self._mine.get(key)
        if mine is None:
            mine = self._mine[key] = owner(key, self._fleet.shards) == self.number
        return mine

    def run(self, until: Position | None = None) -> Generator[Told]:
        """Learn up to the end of the source, or up to a place; tells what it did after each batch.

        Whatever happens, what was told last is in the files, and a checkpoint can be made of it.
        """
        yield from self._prepare()
        try:
            for batch in self._reader.batches(self.position, self._size, until, self._follow):
                self._learn(batch)
                yield self._told()
                self._save_if_due()
        finally:
            self._end_save()
            if not self._clean:
                self.save()
        yield replace(self._told(), done=True)

    def _idle(self) -> None:
        """The source is about to wait."""
        self._learn(self._reader.so_far())
        if not self._clean or self._syncing is not None:
            self._save_if_due()

    def _size(self) -> int:
        size = min(max(ROWS, STREAM_ROWS * len(self.residents)), MOST)
        return min(size, self.residents.room or size)

    def _learn(self, batch: Batch) -> None:
        """A batch from its rows to the files."""
        if len(batch):
            with self.lock:
                self._estimate(batch)
        while self._reader.rejected:
            record = self._reader.rejected.popleft().to_json()
            record["place"] = record["place"].removeprefix(f"{self.plan.path}/")
            self._rejected.write(to_json(record) + "\n")
        self.rows += len(batch)
        self._pending += len(batch)
        self._clean = self._clean and not len(batch) and self.position == batch.position
        self.position = batch.position

    def _estimate(self, batch: Batch) -> None:
        """Predict rows, learn from them, and write down what was predicted."""
        self.residents.wake(batch.keys)
        for group, rows in self.streams.parts(batch.keys, batch.y):
            whole = len(self._fleet.groups) == 1
            self._estimate_group(group, batch if whole else batch.some(rows, group.columns))
        while self.streams.moved:
            self._reader.counts.note("columns", self.streams.moved.pop(0))

    def _estimate_group(self, group: Group, batch: Batch) -> None:
        y, u = batch.y, self.plan.inputs_at_each(batch.u, batch.times)
        results = group.streams.learn(batch.keys, y, u, batch.dt)
        numbers = self.streams.numbers(group, batch.keys)
        sentences = group.alarms.sentences(batch.keys, numbers, y, results)
        estimates = estimates_of(results, sentences)
        told = Learned(group.names, batch.keys, numbers, batch.times, y, estimates)
        self.published(batch.keys, self._estimates.write(told))

    def _told(self, doing: str = "") -> Told:
        counts = self.rows, self._begun, len(self.residents), self.residents.failing, self._left()
        about = {"process": os.getpid(), "checkpoint": self.checkpoint_seconds}
        return Told(self.number, *counts, **about, doing=doing)

    def _left(self) -> int:
        if self.plan.source == "-" or self.position is None:
            return 0
        path = Path(self.plan.path) / self.position.name
        size = path.stat().st_size if path.exists() else 0
        return max(size - self.position.offset, 0)

    def _save_if_due(self) -> None:
        if self._syncing is not None and self._syncing.done():
            self._end_save()
        waited = time.perf_counter() - self._saved
        often = self._pending >= self.plan.options["checkpoint_every"]
        due = (often and waited >= SHARE * self._cost) or waited >= PATIENCE
        idle = self.residents.idle()
        if any(map(self.residents.changed, idle)):
            self.save()
        elif due and self._syncing is None:
            self._begin_save()
        if self._syncing is None:
            self.residents.drop(idle)

    def save(self) -> None:
        """Write the checkpoint, and wait until it counts."""
        self._end_save()
        self._begin_save()
        self._end_save()

    def _begin_save(self) -> None:
        """Write the checkpoint; the disk takes it in while learning goes on."""
        begun = time.perf_counter()
        self._estimates.settle()
        self._rejected.settle()
        place = self._reader.known_again(self.position)
        place = None if place is None else anchored(place, self.plan).to_json()
        extra = {
            "rows": self.rows,
            "source": place,
            "lengths": {"estimates": self._estimates.length, "rejected": self._rejected.length},
            "counts": asdict(self._reader.counts),
            "failing": self.residents.failing,
        }
        self.residents.begin_save(extra)
        self._syncing = self._disk.submit(self._sync)
        self._saved = time.perf_counter()
        self._pending, self._cost, self._clean = 0, self._saved - begun, True

    def _sync(self) -> None:
        """In another thread: output first."""
        for file in (self._estimates, self._rejected, self.residents):
            file.sync()
        if self._storage is not None:
            self._storage.publish(self.directory, self.residents.begun)

    def _end_save(self) -> None:
        """Wait for the disk; then the checkpoint counts."""
        if self._syncing is None:
            return
        syncing, self._syncing = self._syncing, None
        clean, self._clean = self._clean, False
        syncing.result()
        begun = time.perf_counter()
        self.residents.end_save()
        self._clean = clean
        self._cost += time.perf_counter() - begun
        self.checkpoint_seconds = begun - self._saved + self._cost

    @property
    def done(self) -> int:
        """Rows of the source that were learned from so far, and bad ones."""
        return self.rows - self._reader.counts.filled + self._reader.counts.skipped

    @property
    def left_out(self) -> int:
        """Rows that could not be learned from."""
        return self._reader.counts.skipped

    def kept(self, key: str) -> Kept:
        """One of the streams as it is now."""
        with self.lock:
            kept = self.residents.kept(key)
            return kept._replace(state=kept.state.copy())

    def close(self) -> None:
        """Close the files, and let another process have the shard."""
        self._disk.shutdown()
        self._estimates.close()
        self._rejected.close()
        if self._storage is not None:
            emptied(self.directory)
        os.close(self._lock)
