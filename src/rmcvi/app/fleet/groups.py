"""The streams of a shard by their columns: each pays for those that it has, not for all.

The sets of columns that streams may have are part of the plan, found in the first rows of the
source. A stream has the smallest of them that holds its values. If it later has a value in another
column, it goes over to the smallest set that holds all of its columns, and is learned afresh. So
its set depends on its own rows alone. A table and its program are for a number of columns,
whichever they are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rmcvi.app.fleet.alarms import Alarms
from rmcvi.scale import Streams, Tally

GROUP, BEFORE = "columns", "before"
"""In the note of a stream: its set of columns, unless it has all; rows before it came there."""


class Group(NamedTuple):
    """What streams of the same columns have in common."""

    names: list[str]
    columns: np.ndarray
    """Their places among all columns."""
    alarms: Alarms
    streams: Streams


class Groups:
    """The streams that are in memory, each in the table of its group."""

    def __init__(
        self,
        sets: Sequence[Sequence[str]],
        columns: Sequence[str],
        make: Callable[[int], Streams],
        sensitivity: float,
    ):
        """Groups with sets of columns, the last with all; `make` a table for so many columns.

        Tables are made when they are needed: programs have to be compiled.
        """
        self._sets, self._make = [list(names) for names in sets], make
        self._places = [np.array([list(columns).index(n) for n in s]) for s in self._sets]
        self._masks = np.array([[name in own for name in columns] for own in self._sets])
        self._alarms = [Alarms(names, sensitivity) for names in self._sets]
        self._tables: dict[int, Streams] = {}
        self._of: dict[str, int] = {}
        """Groups of streams, but for those of the last one."""
        self._before: dict[str, int] = {}
        """Rows of a stream before it came to its group, if there were any."""
        self._seen: dict[str, np.ndarray] = {}
        """Columns in which a stream has had a value, if there is more than one group."""
        self.moved: list[str] = []
        """Sentences about streams that have gone over to another group."""

    @property
    def unmade(self) -> list[int]:
        """The first group of each table that will be needed, but is not there. That for all
        columns may never be, unless there is no other.
        """
        sizes = [len(own) for own in self._sets[: max(len(self._sets) - 1, 1)]]
        return [sizes.index(size) for size in dict.fromkeys(sizes) if size not in self._tables]

    def group(self, number: int) -> Group:
        """One of them."""
        size = len(self._sets[number])
        if size not in self._tables:
            self._tables[size] = self._make(size)
        about = self._sets[number], self._places[number], self._alarms[number]
        return Group(*about, self._tables[size])

    def of(self, key: str) -> Group:
        """That of a stream."""
        return self.group(self._of.get(key, len(self._sets) - 1))

    @property
    def keys(self) -> list[str]:
        """Those of all streams."""
        return [key for table in self._tables.values() for key in table.keys]

    def __len__(self) -> int:
        return sum(map(len, self._tables.values()))

    def __contains__(self, key: str) -> bool:
        return any(key in table for table in self._tables.values())

    @property
    def failing(self) -> int:
        """Streams with a sensor that fails now."""
        return sum(table.failing for table in self._tables.values())

    def tallies(self) -> Iterator[tuple[list[str], Tally, list[int]]]:
        """How the streams have fared, and their alarms, those of one table after the other."""
        for table in self._tables.values():
            if len(table):
                yield table.keys, table.tallies(), [self.of(k).alarms.count(k) for k in table.keys]

    def add(self, states: Mapping[str, np.ndarray], notes: Mapping[str, dict[str, Any]]) -> int:
        """Streams as they were kept; returns how many have a sensor that fails."""
        together: dict[int, dict[str, np.ndarray]] = {}
        for key, state in states.items():
            number = notes[key].get(GROUP, len(self._sets) - 1)
            self._settle(key, number, notes[key].get(BEFORE, 0))
            together.setdefault(number, {})[key] = state
        failing = 0
        for number, some in together.items():
            group = self.group(number)
            failing += group.streams.add(some)
            if len(self._sets) > 1:
                last = group.streams.block.tallies(np.stack(list(some.values()))).last
                for key, own in zip(some, ~np.isnan(last), strict=True):
                    self._seen[key] = np.zeros(self._masks.shape[1], bool)
                    self._seen[key][group.columns] = own
        return failing

    def note(self, key: str) -> dict[str, Any]:
        """What `add` has to know of a stream beside its state."""
        own = {GROUP: self._of.get(key), BEFORE: self._before.get(key)}
        return {name: value for name, value in own.items() if value is not None}

    def remove(self, keys: Sequence[str]) -> int:
        """They leave; returns how many have a sensor that fails."""
        failing = 0
        for key in keys:
            group = self.of(key)
            failing += group.streams.remove([key])
            group.alarms.forget(key)
            for known in (self._of, self._before, self._seen):
                known.pop(key, None)
        return failing

    def numbers(self, group: Group, keys: Sequence[str]) -> list[int]:
        """The numbers, from 1, of the rows of streams of a group that were just learned."""
        found = group.streams.numbers(keys)
        if not self._before:
            return found
        return [self._before.get(key, 0) + n for key, n in zip(keys, found, strict=True)]

    def parts(self, keys: Sequence[str], y: np.ndarray) -> Iterator[tuple[Group, np.ndarray]]:
        """Rows by groups: each part has to be learned before the next is asked for."""
        if len(self._sets) == 1:
            yield self.group(0), np.arange(len(keys))
            return
        rows: dict[str, list[int]] = {}
        for i, key in enumerate(keys):
            rows.setdefault(key, []).append(i)
        present = ~np.isnan(y)
        left = {key: self._stretches(key, present[own]) for key, own in rows.items()}
        while left:
            together: dict[int, list[int]] = {}
            for key, stretches in left.items():
                number, begin, end = stretches.pop(0)
                self._come(key, number)
                together.setdefault(number, []).extend(rows[key][begin:end])
            left = {key: stretches for key, stretches in left.items() if stretches}
            for number, some in together.items():
                yield self.group(number), np.sort(np.array(some))

    def _stretches(self, key: str, present: np.ndarray) -> list[tuple[int, int, int]]:
        """Groups of a stream's next rows, with the first of them and the one after the last."""
        nothing = np.zeros(present.shape[1], bool)
        sofar = np.logical_or.accumulate(present, 0) | self._seen.get(key, nothing)
        self._seen[key] = sofar[-1]
        found = [(self._of.get(key, len(self._sets) - 1), 0)] if key in self else []
        if found and not (sofar[-1] & ~self._masks[found[0][0]]).any():
            return [(*found[0], len(present))]
        for i, row in enumerate(sofar):
            if not found or (row & ~self._masks[found[-1][0]]).any():
                found.append((int(np.argmax((self._masks >= row).all(1))), i))
        ends = [begin for _, begin in found[1:]] + [len(present)]
        whole = [(*pair, end) for pair, end in zip(found, ends, strict=True)]
        return [stretch for stretch in whole if stretch[1] < stretch[2]]

    def _come(self, key: str, number: int) -> None:
        """A stream is new in a group, or was there."""
        if key in self:
            group = self.of(key)
            if group.names == self._sets[number]:
                return
            before = self._before.get(key, 0) + group.streams.numbers([key])[0]
            seen = self._seen[key]
            self.remove([key])
            self._settle(key, number, before)
            self._seen[key] = seen
            new = ", ".join(name for name in self._sets[number] if name not in group.names)
            self.moved.append(f"{key!r} has {new} from row {before + 1} on")
        else:
            self._settle(key, number, 0)

    def _settle(self, key: str, number: int, before: int) -> None:
        if number < len(self._sets) - 1:
            self._of[key] = number
        if before:
            self._before[key] = before
