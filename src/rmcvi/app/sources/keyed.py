"""Rows of many streams in one source, told apart by a key.

Each stream has a clock and inputs of its own; all else is as in `Stream`. A shard passes over the
rows of other shards' streams; rows without a key, and what cannot be cut into cells, are the first
shard's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rmcvi.app.sources.clock import Clock, usual_step
from rmcvi.app.sources.errors import DataError, place, unknown
from rmcvi.app.sources.observation import Position
from rmcvi.app.sources.reader import Rules, Stream
from rmcvi.app.sources.records import UNFINISHED, Record
from rmcvi.app.sources.rows import RowParser
from rmcvi.app.sources.schema import Schema
from rmcvi.app.sources.source import Named, Source
from rmcvi.app.sources.trace import Trace

HEAD = 20_000
"""Records among which the first stream is looked for: its step and season stand for all."""


@dataclass
class Batch:
    """Rows of any streams in the order of the source, and the place after them."""

    keys: list[str] = field(default_factory=list)
    y: list[np.ndarray] = field(default_factory=list)
    u: list[np.ndarray] = field(default_factory=list)
    dt: list[float] = field(default_factory=list)
    times: list[float | None] = field(default_factory=list)
    position: Position | None = None

    def add(self, key: str, y: np.ndarray, u: np.ndarray, dt: float, time: float | None) -> None:
        """One row more."""
        self.keys.append(key)
        self.y.append(y)
        self.u.append(u)
        self.dt.append(dt)
        self.times.append(time)

    def __len__(self) -> int:
        return len(self.keys)


class OneStream:
    """The rows of one key in a source, as a source."""

    def __init__(self, source: Source, at: int, key: str):
        self._source, self._at, self._key = source, at, key
        self.name, self.trace = source.name, Trace()

    def sniff(self, wishes: Any) -> Schema:
        """That of the whole."""
        return self._source.sniff(wishes)

    def head(self) -> Source:
        """The same as far as it is there."""
        return OneStream(self._source.head(), self._at, self._key)

    def records(self, schema: Schema, after: Position | None) -> Iterator[Named]:
        """Those of the key, up to `HEAD` records into the source."""
        for (name, record), _ in zip(
            self._source.records(schema, after), range(HEAD), strict=False
        ):
            if record.cells and key_of(record.cells[self._at]) == self._key:
                yield name, record


def key_of(cell: Any) -> str:
    """A key as text; '' if there is none."""
    return "" if cell is None else str(cell).strip()


def first_stream(stream: Stream, key: str) -> Stream:
    """The stream of the first key, with the columns and the step that all streams have.

    Raises:
        DataError: there is no such column, or nothing else to learn.
    """
    schema, source = stream.schema, stream.source
    if key not in schema.names:
        raise DataError(f"{stream.name}: {unknown('key', key, schema.names)}")
    columns = tuple(name for name in schema.columns if name != key)
    inputs, time = (tuple(n for n in part if n != key) for part in (schema.inputs, schema.time))
    if not columns:
        raise DataError(f"{stream.name}: got no columns of numbers beside the key {key!r}")
    schema = replace(schema, columns=columns, inputs=inputs, time=time)
    at = schema.names.index(key)
    records = (record for _, record in source.head().records(schema, None) if record.cells)
    first = next((k for r in records if r.cells and (k := key_of(r.cells[at]))), "")
    if not first:
        raise DataError(f"{stream.name}: got no row with a {key!r}, expected rows of streams")
    one = OneStream(source, at, first)
    loose = replace(stream.rules, gaps="ignore", on_bad_row="missing")
    rows = Stream(one, replace(schema, step=None), loose).head(200)
    times = np.array([row.time for row in rows if row.time is not None])
    step, regular = usual_step(times, schema.time_format != "number")
    known = {} if step is None else {"step": step.size, "months": step.months}
    known |= {} if step is None else {"month_day": step.day}
    schema = replace(schema, **{"step": None, "months": 0, **known}, regular=regular)
    return Stream(one, schema, replace(stream.rules, gaps="auto"))


class KeyedStream(Stream):
    """Batches of rows of the streams that are `mine`, each with a clock of its own."""

    def __init__(
        self,
        source: Source,
        schema: Schema,
        rules: Rules,
        key: str,
        mine: Callable[[str], bool],
        first: bool = True,
    ):
        """As `Stream`; the `first` shard also has the records without a key."""
        super().__init__(source, schema, rules)
        self._at, self._mine, self._first = schema.names.index(key), mine, first
        self._key = key
        self.clocks: dict[str, tuple[Clock, np.ndarray]] = {}
        self.touched: set[str] = set()
        """Streams of which a record was read since this was last emptied."""

    def batches(
        self, after: Position | None, size: Callable[[], int], until: Position | None = None
    ) -> Iterator[Batch]:
        """About `size()` rows at a time; the last one may be empty, and says where reading ended.

        Args:
            after: where reading goes on.
            size: rows of a batch, asked at each; those that fill a gap come beside.
            until: where it ends, of places that batches had.
        """
        parser, batch, place = RowParser(self.schema), Batch(), None
        end = None if until is None else (until.name, until.offset)
        if after is not None and end == (after.name, after.offset):
            yield Batch(position=after)
            return
        room = size()
        for name, record in self.source.records(self.schema, after):
            self._take(parser, name, record, batch)
            if record.reason == UNFINISHED:
                continue  # left for a later run
            self._trace(record)
            place = name, record
            if len(batch) >= room:
                batch.position = self._here(*place)
                yield batch
                batch, room = Batch(), size()
            if end == (name, record.end):
                break
        batch.position = after if place is None else self._here(*place)
        yield batch

    def _here(self, name: str, record: Record) -> Position:
        return Position(name, record.last, record.end, fingerprint=self.source.trace.mark())

    def _take(self, parser: RowParser, name: str, record: Record, batch: Batch) -> None:
        key = key_of(record.cells[self._at]) if record.cells else ""
        plain = record.cells is not None and not parser.is_blank(record)
        if not key or parser.is_header(record):
            if self._first:
                self._keyless(parser, name, record, plain)
            return
        if not self._mine(key):
            return
        clock, held = self.clocks.get(key) or self._begin(key)
        self.touched.add(key)
        row = self._admit(parser, name, record, clock)
        if row is None:
            return
        while row.time is not None and clock.absent(row.time):
            self.counts.filled += 1
            nothing = np.full(len(self.schema.columns), np.nan)
            batch.add(key, nothing, held.copy(), 1.0, clock.fill())
        dt = clock.tick(row.time)
        self.counts.leaps += self.rules.gaps == "rows" and dt > 1.5
        if held.size:
            absent = np.isnan(row.u)
            self.counts.held += int(absent.sum())
            held[:] = np.where(absent, held, row.u)
        batch.add(key, row.y, held.copy(), dt, row.time)

    def kept(self, key: str) -> list[float | None]:
        """The clock and the inputs of a stream as plain numbers."""
        clock, held = self.clocks.get(key) or self._begin(key)
        return [*clock.kept(), *held.tolist()]

    def restore(self, key: str, plain: list[float | None]) -> None:
        """What `kept` gave."""
        clock, held = self._begin(key)
        clock.restore(plain[:4])
        held[:] = plain[4:]

    def _begin(self, key: str) -> tuple[Clock, np.ndarray]:
        clock = Clock(self.schema.usual, self.rules.gaps, self.rules.fill_limit)
        return self.clocks.setdefault(key, (clock, np.zeros(len(self.schema.inputs))))

    def _keyless(self, parser: RowParser, name: str, record: Record, plain: bool) -> None:
        """A record that is nobody's: counted, and if it is a row, a bad one."""
        if not plain or parser.is_header(record):
            self._admit(parser, name, record, Clock(None, "ignore"))
            return
        self.counts.rows += 1
        sentence = f"{place(name, record.first, self._key)}: got nothing, expected a key"
        if self.rules.on_bad_row == "error":
            raise DataError(sentence)
        self.counts.note("no_key", sentence)
        self.counts.skipped += 1
        self.reject(name, record, [sentence])
