"""Which columns streams have together, from the first rows of a source."""

from collections import Counter
from dataclasses import replace

import numpy as np

from rmcvi.app.sources import KeyedStream, Rules, Schema
from rmcvi.app.sources.one_stream import HEAD
from rmcvi.app.sources.source import Source

SHARE = 0.05
"""Of the streams in these rows: fewer have lost a value or a sensor, and are no kind."""
MOST = 8
"""Sets, since each number of columns has a program that takes a minute to compile."""


def column_sets(source: Source, schema: Schema, key: str, rules: Rules) -> list[list[int]]:
    """Sets of columns by their places, the smallest first, the last with all of them."""
    every = list(range(len(schema.columns)))
    loose = replace(rules, gaps="ignore", on_bad_row="missing")
    rows = KeyedStream(source.head(), schema, loose, key, lambda _: True)
    head = next(rows.batches(None, lambda: HEAD))
    seen: dict[str, np.ndarray] = {}
    for name, row in zip(head.keys, ~np.isnan(head.y), strict=True):
        seen[name] = seen.get(name, False) | row
    counts = Counter(tuple(np.flatnonzero(own).tolist()) for own in seen.values() if own.any())
    usual = [own for own, n in counts.most_common(MOST) if n >= SHARE * len(seen)]
    kinds = [list(own) for own in usual if list(own) != every]
    return [*sorted(kinds, key=lambda own: (len(own), own)), every]
