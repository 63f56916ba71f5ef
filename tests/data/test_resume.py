"""Stopped after any observation and resumed, a stream is the uninterrupted one."""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rmcvi.data import DataError, Observation, Schema, Source, read

ROWS = [
    ("0", "1.5", "10"),
    ("1", "NA", ""),
    ("2", "2.5", "12"),
    ("5", "word", ""),
    ("5", "3.5", "13"),
    ("6", "4.5", ""),
    ("x", "5.5", "14"),
    ("8", "6.5", "15"),
    ("8.5", "7.5", ""),
    ("12", "8.5", "16"),
    *((str(i), f"{i / 4}", "17") for i in range(13, 30)),
]


def _lines(header: bool = True) -> list[str]:
    lines = [",".join(row) for row in ROWS]
    lines[2:2] = ["", ",,"]
    lines[6:6] = ['"a quoted\ncell",1,2', "7,7", "t,a,u"]
    return ["t,a,u", *lines] if header else lines


def _plain(row: Observation) -> str:
    shown = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in vars(row).items()}
    return repr(shown)


def _csv(folder: Path) -> Callable[[], Any]:
    (folder / "a.csv").write_text("\n".join(_lines()))
    return lambda: folder / "a.csv"


def _gz(folder: Path) -> Callable[[], Any]:
    (folder / "a.csv.gz").write_bytes(gzip.compress("\r\n".join(_lines()).encode()))
    return lambda: folder / "a.csv.gz"


def _pipe(folder: Path) -> Callable[[], Any]:
    return lambda: io.BytesIO("\n".join(_lines()).encode())


def _parts(folder: Path) -> Callable[[], Any]:
    lines = _lines(header=False)
    for i, (start, end) in enumerate([(0, 4), (4, 12), (12, 13), (13, 99)]):
        (folder / f"{i}.csv").write_text("\n".join(["t,a,u", *lines[start:end], ""]))
    return lambda: folder


def _json(folder: Path) -> Callable[[], Any]:
    rows = [json.dumps(dict(zip(("t", "a", "u"), row, strict=True))) for row in ROWS]
    (folder / "a.jsonl").write_text("\n".join([*rows[:4], "", "{broken", "[1]", *rows[4:]]))
    return lambda: folder / "a.jsonl"


def _parquet(folder: Path) -> Callable[[], Any]:
    table = dict(zip(("t", "a", "u"), zip(*ROWS, strict=True), strict=True))
    pl.DataFrame(table).write_parquet(folder / "a.parquet")
    return lambda: folder / "a.parquet"


@pytest.mark.parametrize("make", [_csv, _gz, _pipe, _parts, _json, _parquet])
@pytest.mark.parametrize("policy", ["missing", "skip"])
def test_resumed_is_uninterrupted(
    tmp_path: Path, make: Callable[[Path], Callable[[], Any]], policy: str
) -> None:
    opened = make(tmp_path)
    options: dict[str, Any] = {"on_bad_row": policy, "gaps": "rows"}
    stream = read(opened(), inputs=["u"], time="t", **options)
    whole = list(stream)
    assert any(row.filled for row in whole) and stream.counts.bad
    schema = Schema.from_json(json.loads(json.dumps(stream.schema.to_json())))
    for k, row in enumerate(whole):
        assert row.source is not None
        after = Source.from_json(json.loads(json.dumps(row.source.to_json())))
        rest = [_plain(r) for r in read(opened(), schema, after=after, **options)]
        assert rest == [_plain(r) for r in whole[k + 1 :]], k


def test_a_file_that_has_grown_goes_on_where_it_ended(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a\n1,1.5\n2,2.5")
    stream = read(file)
    last = list(stream)[-1]
    with file.open("a") as more:
        more.write("\n3,3.5\n")
    rest = list(read(file, stream.schema, after=last.source))
    assert [(row.time, row.y.tolist(), row.dt) for row in rest] == [(3.0, [3.5], 1.0)]


def test_places_that_no_longer_exist(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a\n1,1.5\n2,2.5\n")
    stream = read(file)
    last = list(stream)[-1]
    file.write_text("t,a\n1,1.5\n")
    with pytest.raises(DataError, match="shorter than the 16 bytes"):
        list(read(file, stream.schema, after=last.source))
    with pytest.raises(DataError, match="not among the parts"):
        list(read(file, stream.schema, after=Source("b.csv", 1, 3)))
    with pytest.raises(DataError, match="expected what"):
        Source.from_json({"name": "a"})
