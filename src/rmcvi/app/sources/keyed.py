"""Rows of many streams in one source, told apart by a key.

Each stream has a clock and inputs of its own; all else is as in `Stream`. A shard passes over the
rows of other shards' streams; rows without a key, and what cannot be cut into cells, are the first
shard's.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rmcvi.app.sources.batch import Batch, Rows
from rmcvi.app.sources.clock import Clock, whole_numbers
from rmcvi.app.sources.errors import DataError, place
from rmcvi.app.sources.formats import Part, format_named
from rmcvi.app.sources.observation import Position
from rmcvi.app.sources.one_stream import key_of
from rmcvi.app.sources.quick import Chunk, Plain, chunks, suits
from rmcvi.app.sources.reader import Rules, Stream
from rmcvi.app.sources.records import UNFINISHED, Record
from rmcvi.app.sources.rows import RowParser
from rmcvi.app.sources.schema import Schema
from rmcvi.app.sources.source import Named, Source


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
        self._part: Part | None = None
        self.clocks: dict[str, tuple[Clock, np.ndarray]] = {}
        self.touched: set[str] = set()
        """Streams of which a record was read since this was last emptied."""
        self.recall: Callable[[str], Sequence[float | None] | None] = lambda key: None
        """What `kept` gave of a stream whose clock is not here."""
        self._rows = self._empty()
        self._place: Named | None = None
        self._last: Position | None = None

    def batches(
        self,
        after: Position | None,
        size: Callable[[], int],
        until: Position | None = None,
        follow: bool = False,
    ) -> Iterator[Batch]:
        """About `size()` rows at a time; the last one may be empty, and says where reading ended.

        Args:
            after: where reading goes on.
            size: rows of a batch, asked at each; those that fill a gap come beside.
            until: where it ends, of places that batches had.
            follow: whether the source waits for more at its end, and asks `so_far` before.
        """
        end = None if until is None else (until.name, until.offset)
        if after is not None and end == (after.name, after.offset):
            yield self._empty().batch(after)
            return
        parser, last = RowParser(self.schema), self._empty().batch(after)
        for part, offset, line in self.source.starts(self.schema, after):
            if follow or not suits(self.schema, part):
                break
            stop = until.offset if until is not None and until.name == part.name else None
            for chunk in chunks(part, self.schema, offset, line, size, stop):
                last = self._chunk(parser, chunk, offset)
                offset = last.position.offset if last.position else offset
                yield last
            if stop is not None:
                return
        else:
            if last.position is not after:
                return
        yield from self._records(parser, last.position, size, end)

    def _records(
        self, parser: RowParser, after: Position | None, size: Callable[[], int], end: Any
    ) -> Iterator[Batch]:
        """Record by record."""
        self._rows, self._place, self._last = self._empty(), None, after
        for name, record in self.source.records(self.schema, after):
            self._take(parser, name, record, self._rows)
            if record.reason == UNFINISHED:
                continue  # left for a later run
            self._trace(record)
            self._place = name, record
            if len(self._rows) >= size():
                yield self.so_far()
            if end == (name, record.end):
                break
        yield self.so_far()

    def so_far(self) -> Batch:
        """The rows that were read since the last batch, as a batch of their own."""
        rows, self._rows = self._rows, self._empty()
        if self._place is not None:
            self._last = self._here(*self._place)
        return rows.batch(self._last)

    def _empty(self) -> Rows:
        return Rows(len(self.schema.columns), len(self.schema.inputs))

    def _chunk(self, parser: RowParser, chunk: Chunk, begin: int) -> Batch:
        """Rows of a file at once, as far as they are plain; those before `begin` were read."""
        name, end, line = chunk.part.name, chunk.end, chunk.line + chunk.lines
        plain = chunk.plain(self.schema, self._key) if chunk.start >= begin else None
        self._part = chunk.part
        if plain is not None:
            return self._plain(parser, chunk, plain, Position(name, line, end))
        rows = self._empty()
        form, end, line = format_named(self.schema.kind), max(begin, chunk.start), chunk.line
        for record in form.records(chunk.part, self.schema, end, line):
            if record.start >= chunk.end:
                break
            self._take(parser, name, record, rows)
            if record.reason != UNFINISHED:
                end, line = record.end, record.last
        return rows.batch(Position(name, line, end))

    def known_again(self, position: Position | None) -> Position | None:
        """The place of the last batch, with that by which the source will be known again."""
        if position is None or position.fingerprint is not None or self._part is None:
            return position
        place = self._part, self.schema, position.offset, position.line
        return replace(position, fingerprint=self.source.mark(*place))

    def _plain(self, parser: RowParser, chunk: Chunk, plain: Plain, after: Position) -> Batch:
        """Streams whose times go on by usual steps together; the others row by row."""
        mine = np.array([self._mine(key) for key in plain.names])
        rows = np.flatnonzero(mine[plain.codes])
        codes, times = plain.codes[rows], plain.times[rows]
        usual, dt = self._usual(codes, plain.names, times if self.schema.time else None)
        self.touched.update(plain.names[i] for i in np.flatnonzero(mine))
        odd, places = self._empty(), []
        for row in rows[~usual].tolist():
            self._take(parser, chunk.part.name, chunk.record(row, self.schema), odd)
            places += [row] * (len(odd) - len(places))
        rows = rows[usual]
        self.counts.rows += len(rows)
        keys = [plain.names[i] for i in codes[usual].tolist()]
        inputs = np.zeros((len(rows), 0))
        batch = Batch(keys, plain.y[rows], inputs, dt[usual], times[usual], after)
        if not places:
            return batch
        order = np.argsort(np.concatenate([rows, np.array(places, int)]), kind="stable")
        return batch.with_rows(odd.batch(after), order)

    def _usual(
        self, codes: np.ndarray, names: list[str], times: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which rows are of streams whose times all go on as usual, and the lengths of their steps.

        The clocks of those streams are moved on.
        """
        order = np.argsort(codes, kind="stable")
        streams, first, counts = np.unique(codes[order], return_index=True, return_counts=True)
        clocks = [(self.clocks.get(names[i]) or self._begin(names[i]))[0] for i in streams]
        fine, dt, step = np.ones(len(codes), bool), np.ones(len(codes)), self.schema.usual
        if times is not None:
            last = np.roll(times[order], 1)
            last[first] = [np.nan if c.last is None else c.last for c in clocks]
            new = np.isnan(last)
            ratio = (times[order] - last) / (1.0 if step is None else step.size)
            fine = new | (ratio > 0.0)
            if step is not None and self.rules.gaps == "rows":
                fine &= new | (whole_numbers(ratio) == 1.0)
            elif step is not None and self.rules.gaps == "dt":
                dt = np.where(new, 1.0, ratio)
        good = np.logical_and.reduceat(fine, first) if len(first) else fine
        for i in np.flatnonzero(good).tolist():
            time = None if times is None else float(times[order[first[i] + counts[i] - 1]])
            clocks[i].pass_over(time, int(counts[i]))
        usual, steps = np.empty(len(codes), bool), np.empty(len(codes))
        usual[order], steps[order] = np.repeat(good, counts), dt
        return usual, steps

    def _here(self, name: str, record: Record) -> Position:
        return Position(name, record.last, record.end, fingerprint=self.source.trace.mark())

    def _take(self, parser: RowParser, name: str, record: Record, rows: Rows) -> None:
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
            rows.add(key, nothing, held.copy(), 1.0, clock.fill())
        dt = clock.tick(row.time)
        self.counts.leaps += self.rules.gaps == "rows" and dt > 1.5
        if held.size:
            absent = np.isnan(row.u)
            self.counts.held += int(absent.sum())
            held[:] = np.where(absent, held, row.u)
        rows.add(key, row.y, held.copy(), dt, row.time)

    def kept(self, key: str) -> list[float | None]:
        """The clock and the inputs of a stream as plain numbers."""
        clock, held = self.clocks.get(key) or self._begin(key)
        return [*clock.kept(), *held.tolist()]

    def _begin(self, key: str) -> tuple[Clock, np.ndarray]:
        clock = Clock(self.schema.usual, self.rules.gaps, self.rules.fill_limit)
        held, plain = np.zeros(len(self.schema.inputs)), self.recall(key)
        if plain is not None:
            clock.restore(plain[:4])
            held[:] = plain[4:]
        self.clocks[key] = clock, held
        return self.clocks[key]

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
