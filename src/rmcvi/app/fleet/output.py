"""What a shard writes of its rows: JSON lines, or the parts of a Parquet table.

Both are appended to and cut at a length that the checkpoint remembers: bytes of a file, or parts in
a folder. A part is written once, whole, no later than the checkpoint that counts it. Lines, too,
are written in parts if they go to a storage, on which nothing can be appended to.
"""

import io
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rmcvi.app.run.estimates import INTEGER, TEXTS, TIME, VALUE, Field, pairs
from rmcvi.app.run.output import Appended, Lines, json_text, moment
from rmcvi.app.run.plan import Plan
from rmcvi.app.run.reading import objects
from rmcvi.core.files import replace
from rmcvi.learners import Estimates
from rmcvi.scale import Results

PART = 1 << 18
"""Rows of a part, unless a checkpoint comes first: tens of megabytes before they are packed."""


class Learned(NamedTuple):
    """Rows and what was estimated at them, in the order of the source."""

    columns: Sequence[str]
    keys: Sequence[str]
    numbers: Sequence[int]
    """Of each row in its stream, from 1."""
    times: np.ndarray
    """NaN if there is none."""
    y: np.ndarray
    estimates: Estimates


def estimates_of(results: Results, sentences: list[tuple[str, ...]]) -> Estimates:
    """What was told of rows, without hidden states."""
    n = len(sentences)
    nothing, none = np.full(n, np.nan), np.zeros((n, 0))
    return Estimates(
        *(results.mean, results.low, results.high),
        log_score=results.log_score,
        failure=results.failure,
        anomaly=results.anomaly,
        alarms=sentences,
        filled=results.filled,
        state_mean=none,
        state_std=none,
        elbo=nothing,
        ess=nothing,
        recoveries=results.recoveries,
    )


class Whole(Appended):
    """Lines in one file, cut at `length` bytes."""

    def __init__(self, path: Path, length: int):
        super().__init__(path, length)
        self.cut()

    def settle(self) -> None:
        """All bytes are the system's already."""


class Parted:
    """Lines in parts of a folder, each from one checkpoint to the next, after `length` others."""

    def __init__(self, path: Path, length: int):
        self._path, self.length = path, length
        self._file: Appended | None = None
        path.mkdir(exist_ok=True)
        cut(path, length)

    def write(self, text: str) -> None:
        """Append to the part of now."""
        if text and self._file is None:
            self._file = Appended(self._path / f"part-{self.length:06d}.jsonl", 0)
        if self._file is not None:
            self._file.write(text)

    def settle(self) -> None:
        """What follows is another part."""
        if self._file is not None:
            self.close()
            self.length += 1

    def sync(self) -> None:
        """Parts need not survive here: they are put elsewhere."""

    def close(self) -> None:
        """Close the part of now."""
        if self._file is not None:
            self._file.close()
        self._file = None


def open_lines(path: Path, length: int, parted: bool) -> Whole | Parted:
    """Lines of text in a file that ends in .jsonl, or in parts of a folder without the ending."""
    return Parted(path.with_suffix(""), length) if parted else Whole(path, length)


class JsonLines:
    """A line per row."""

    def __init__(self, file: Whole | Parted, plan: Plan):
        self._lines = lru_cache(lambda *names: Lines(names, "jsonl", plan.row_fields))
        """Of streams with these columns."""
        self._calendar = plan.calendar
        self._file = file

    @property
    def length(self) -> int:
        """In bytes or parts."""
        return self._file.length

    def write(self, told: Learned) -> str:
        """A line for each row, the key after its number; the lines."""
        heads = [
            f'{number}, "key": {json_text(key)}'
            for number, key in zip(told.numbers, told.keys, strict=True)
        ]
        known, which = np.unique(told.times, return_inverse=True)
        texts = [moment(None if t != t else t, self._calendar) for t in known.tolist()]
        times = [texts[i] for i in which.tolist()]
        lines = self._lines(*told.columns).block(heads, times, told.y, told.estimates)
        self._file.write(lines)
        return lines

    def settle(self) -> None:
        """Nothing waits."""
        self._file.settle()

    def sync(self) -> None:
        """Wait until they are on disk, in any thread."""
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Parquet:
    """Parts of a table, each sorted by key and row."""

    def __init__(self, path: Path, plan: Plan, length: int):
        self._path, self.length, self._waiting = path, length, 0
        self._frames: list[pl.DataFrame] = []
        self._fields, self._calendar = pairs(plan.columns, (), plan.row_fields), plan.calendar
        path.mkdir(exist_ok=True)
        cut(path, length)

    def write(self, told: Learned) -> str:
        """Kept until there are enough for a part; there are no lines."""
        table: dict[str, Any] = {}
        for name, field in self._fields:
            table[name] = self._series(field, name, told)
            if field.kind == INTEGER:
                table["key"] = pl.Series(list(told.keys), dtype=pl.String)
        self._frames.append(pl.DataFrame(table))
        self._waiting += len(told.keys)
        if self._waiting >= PART:
            self.settle()
        return ""

    def _series(self, field: Field, name: str, told: Learned) -> pl.Series:
        if field.kind == INTEGER:
            return pl.Series(told.numbers, dtype=pl.Int64)
        if field.kind == TEXTS:
            kinds = {alarms: i for i, alarms in enumerate(dict.fromkeys(told.estimates.alarms))}
            few = pl.Series(list(map(list, kinds)), dtype=pl.List(pl.String))
            return few.gather([kinds[alarms] for alarms in told.estimates.alarms])
        if field.kind == TIME:
            series = pl.Series(told.times, dtype=pl.Float64, nan_to_null=True)
            return (series * 1e6).round().cast(pl.Datetime("us")) if self._calendar else series
        found = told.y if field.kind == VALUE else getattr(told.estimates, field.attribute)
        if field.per == "column":
            column = name.removesuffix(field.name.removeprefix("{column}"))
            if column not in told.columns:
                return pl.Series([None], dtype=pl.Float64).new_from_index(0, len(told.keys))
            found = found[:, told.columns.index(column)]
        return pl.Series(np.ascontiguousarray(found), dtype=pl.Float64, nan_to_null=True)

    def settle(self) -> None:
        """Write what is waiting as one part."""
        if not self._frames:
            return
        packed = io.BytesIO()
        pl.concat(self._frames).sort("key", "row").write_parquet(packed)
        replace(self._path / f"part-{self.length:06d}.parquet", packed.getvalue())
        self.length, self._waiting, self._frames = self.length + 1, 0, []

    def sync(self) -> None:
        """Parts are on disk when they are written."""

    def close(self) -> None:
        """What is waiting is not written: no checkpoint counts it."""
        self._frames = []


def open_output(
    path: Path, form: str, plan: Plan, length: int, parted: bool
) -> JsonLines | Parquet:
    """Estimates in one of the forms, cut at `length`; `parted` as of `open_lines`."""
    if form == "jsonl":
        return JsonLines(open_lines(path, length, parted), plan)
    return Parquet(path, plan, length)


def cut(path: Path, length: int) -> None:
    """Drop what no checkpoint accounts for: bytes of a file, or parts in a folder."""
    if path.is_dir():
        for part in path.glob("part-*.*"):
            if int(part.stem.removeprefix("part-")) >= length:
                part.unlink()
        for rest in path.glob(".part-*"):  # of one that was killed
            rest.unlink()
    elif path.exists():
        with path.open("r+b") as file:
            file.truncate(length)


def lines_of(directory: Path, form: str, keys: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What was written of some streams, row by row, in no order: the fields of a JSON line."""
    if form == "jsonl":
        parts = directory.glob("estimates-*/part-*.jsonl")
        for path in sorted([*directory.glob("estimates-*.jsonl"), *parts]):
            yield from (line for _, line in objects(path) if line.get("key") in keys)
        return
    for path in sorted(directory.glob("estimates-*/part-*.parquet")):
        for line in pl.scan_parquet(path).filter(pl.col("key").is_in(keys)).collect().to_dicts():
            time = line["time"]
            line["time"] = time.isoformat() if isinstance(time, datetime) else time
            yield line
