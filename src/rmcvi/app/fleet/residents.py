"""Which streams of a shard are in memory: all, or the busiest; the others wait in the checkpoint.

A stream that has not changed since the checkpoint can be dropped, and read again when a row of it
comes: the same bits, so that nothing told of it depends on where it was.
"""

import json
from collections.abc import Iterable
from itertools import islice
from typing import Any

from rmcvi.app.fleet.groups import Groups
from rmcvi.app.fleet.store import Kept, Store
from rmcvi.app.sources import KeyedStream

TOGETHER = 1024
"""Streams that are read together."""
UNITS, ALARMS = "units", "alarms"
"""In the note of a stream: what is known of its units, and what goes on."""


class Residents:
    """The streams of a shard with their clocks, in memory or not."""

    def __init__(
        self,
        streams: Groups,
        store: Store,
        reader: KeyedStream,
        limit: int | None,
    ):
        """About `limit` streams are in memory; None for all."""
        self.streams, self._store = streams, store
        self._reader, self._limit = reader, limit
        self._recent: dict[str, None] = {}
        """In memory, in the order of their last rows; only kept if there is a limit."""
        self._new = 0
        """Streams that no checkpoint has."""
        self._saving: set[str] = set()
        """Streams that have changed, and are part of a checkpoint that does not count yet."""
        self.idle_failing = 0
        """Streams with a sensor that fails, among those that are not in memory."""
        reader.recall = lambda key: store.get(key).clock if key in store else None

    def __len__(self) -> int:
        """All of them."""
        return len(self._store) + self._new

    @property
    def failing(self) -> int:
        """Streams with a sensor that fails now."""
        return self.streams.failing + self.idle_failing

    @property
    def room(self) -> int | None:
        """Streams that stay, and rows of a batch beside them; None if there is no limit."""
        return None if self._limit is None else max(self._limit // 2, 1)

    def wake(self, keys: Iterable[str]) -> None:
        """Streams that are about to learn."""
        wanted = dict.fromkeys(keys)
        absent = [key for key in wanted if key not in self.streams]
        old = {key: self._store.get(key) for key in absent if key in self._store}
        self._new += len(absent) - len(old)
        notes = {key: kept.noted for key, kept in old.items()}
        states = {key: kept.state for key, kept in old.items()}
        self.idle_failing -= self.streams.add(states, notes)
        for key, note in notes.items():
            self._recall(key, note)
        if self._limit is not None:
            for key in wanted:
                self._recent.pop(key, None)
            self._recent.update(wanted)

    def wake_all(self) -> None:
        """Every stream, as far as there is a place for it."""
        keys = list(islice(self._store, self._limit))
        for begin in range(0, len(keys), TOGETHER):
            self.wake(keys[begin : begin + TOGETHER])

    def idle(self) -> list[str]:
        """Those to be dropped now: the longest without a row."""
        over = 0 if self.room is None else len(self.streams) - self.room
        return [key for key, _ in zip(self._recent, range(over), strict=False)]

    def changed(self, key: str) -> bool:
        """Whether a stream is another one than in the checkpoint."""
        return key in self._reader.touched or key in self._saving

    def drop(self, keys: Iterable[str]) -> None:
        """Streams that have not changed since the checkpoint leave the memory."""
        gone = list(keys)
        assert not any(map(self.changed, gone))
        self.idle_failing += self.streams.remove(gone)
        for key in gone:
            self._recent.pop(key, None)
        clocks = self._reader.clocks  # also of streams of which only bad rows came
        for key in [key for key in clocks if key not in self.streams and key in self._store]:
            if not self.changed(key):
                del clocks[key]

    def begin_save(self, extra: dict[str, Any]) -> None:
        """Write down what has changed, without waiting for the disk; streams may go on."""
        self._saving |= self._reader.touched
        self._reader.touched.clear()
        known = (key for key in self._saving if key in self.streams or key in self._store)
        self._store.begin(extra, list(known), self.kept)

    @property
    def begun(self) -> dict[str, Any]:
        """The checkpoint that was begun."""
        return self._store.begun

    def sync(self) -> None:
        """Wait until that is on disk, in any thread."""
        self._store.sync()

    def end_save(self) -> None:
        """The checkpoint that was begun counts."""
        self._store.commit()
        self._saving.clear()
        self._new = sum(key not in self._store for key in self.streams.keys)

    def kept(self, key: str) -> Kept:
        """A stream as it is now; its numbers are those in memory."""
        clock = self._reader.kept(key)
        if key not in self.streams:
            return self._store.get(key)._replace(clock=clock)
        group, plain = self.streams.of(key), self.streams.note(key)
        if group.streams.units is not None:
            plain[UNITS] = group.streams.units.kept(key)
        if (alarms := group.alarms.kept(key)) is not None:
            plain[ALARMS] = alarms
        state = group.streams.state(group.streams.place(key))
        return Kept(clock, state, json.dumps(plain) if plain else "")

    def _recall(self, key: str, plain: dict[str, Any]) -> None:
        group = self.streams.of(key)
        if group.streams.units is not None and UNITS in plain:
            group.streams.units.recall(key, plain[UNITS])
        if ALARMS in plain:
            group.alarms.recall(key, plain[ALARMS])
