"""One of the streams that share a source: the first one, whose step and season stand for all."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from rmcvi.app.sources.clock import usual_step
from rmcvi.app.sources.errors import DataError, unknown
from rmcvi.app.sources.formats import Part
from rmcvi.app.sources.observation import Fingerprint, Position
from rmcvi.app.sources.reader import Stream
from rmcvi.app.sources.schema import Schema
from rmcvi.app.sources.source import Named, Source
from rmcvi.app.sources.trace import Trace

HEAD = 20_000
"""Records among which the first stream is looked for: its step and season stand for all."""


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

    def starts(self, schema: Schema, after: Position | None) -> Iterator[tuple[Part, int, int]]:
        """It is read record by record."""
        return iter(())

    def mark(self, part: Part, schema: Schema, offset: int, line: int) -> Fingerprint | None:
        """Nobody goes on in it."""
        return None

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
