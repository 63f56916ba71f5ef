"""Stopped after any observation and resumed, a stream is the uninterrupted one."""

import gzip
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rmcvi.app.sources import DataError, Observation, Position, Schema, read

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


def _arrow(folder: Path) -> Callable[[], Any]:
    table = dict(zip(("t", "a", "u"), zip(*ROWS, strict=True), strict=True))
    pl.DataFrame(table).write_ipc(folder / "a.arrow")
    return lambda: folder / "a.arrow"


def _arrow_parts(folder: Path) -> Callable[[], Any]:
    for i, rows in enumerate((ROWS[:9], ROWS[9:])):
        table = dict(zip(("t", "a", "u"), zip(*rows, strict=True), strict=True))
        pl.DataFrame(table).write_ipc_stream(folder / f"{i}.arrows")
    return lambda: folder


@pytest.mark.parametrize("make", [_csv, _gz, _pipe, _parts, _json, _parquet, _arrow, _arrow_parts])
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
        assert row.position is not None
        after = Position.from_json(json.loads(json.dumps(row.position.to_json())))
        rest = [_plain(r) for r in read(opened(), schema, after=after, **options)]
        assert rest == [_plain(r) for r in whole[k + 1 :]], k


def test_a_file_that_has_grown_goes_on_where_it_ended(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a\n1,1.5\n2,2.5\n3,3.")
    stream = read(file)
    last = list(stream)[-1]
    assert (last.time, stream.counts.unfinished) == (2.0, 1)
    (said,) = stream.counts.describe()
    assert said.startswith(f"{file}, line 4: has no end and may be half-written")
    with file.open("a") as more:
        more.write("5\n4,4.5\n")
    rest = list(read(file, stream.schema, after=last.position))
    assert [(row.time, row.y.tolist(), row.dt) for row in rest] == [(3, [3.5], 1), (4, [4.5], 1)]


@pytest.mark.parametrize("how", ["gzip", "pipe", "json", "earlier part"])
def test_what_cannot_grow_is_whole(tmp_path: Path, how: str) -> None:
    data = b"t,a\n1,1.5\n2,2.5"
    source: Any = tmp_path / "a.csv"
    if how == "gzip":
        source.write_bytes(gzip.compress(data))
    elif how == "pipe":
        source = io.BytesIO(data)
    elif how == "json":
        source.write_text('{"t": 1, "a": 1.5}\n{"t": 2, "a": 2.5}')
    else:
        source.write_bytes(data)
        (tmp_path / "b.csv").write_text("t,a\n3,3.5\n4,4")
        source = tmp_path
    stream = read(source)
    rows = [row.y.tolist() for row in stream]
    assert rows == [[1.5], [2.5], [3.5]][: 3 if how == "earlier part" else 2]
    assert stream.counts.unfinished == (how == "earlier part")


def test_places_that_no_longer_exist(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("t,a\n1,1.5\n2,2.5\n")
    stream = read(file)
    last = list(stream)[-1]
    file.write_text("t,a\n1,1.5\n")
    with pytest.raises(DataError, match="shorter than the 16 bytes"):
        list(read(file, stream.schema, after=last.position))
    with pytest.raises(DataError, match="not among the parts"):
        list(read(file, stream.schema, after=Position("b.csv", 1, 3)))
    with pytest.raises(DataError, match="expected what"):
        Position.from_json({"name": "a"})
    for wrong in ({"offset": "3"}, {"line": -1}, {"fingerprint": {"start": 1}}, {"fingerprint": 3}):
        with pytest.raises(DataError, match="expected what"):
            Position.from_json({**Position("a", 1, 2).to_json(), **wrong})


def _numbers(first: int, last: int) -> str:
    return "".join(f"{i},{i % 7}.5\n" for i in range(first, last))


@pytest.fixture
def begun(tmp_path: Path) -> tuple[Path, Schema, Position]:
    """A file of which 50 rows were read."""
    file = tmp_path / "a.csv"
    file.write_text("t,a\n" + _numbers(0, 50))
    stream = read(file)
    last = list(stream)[-1].position
    assert last is not None
    return file, stream.schema, last


def _rest(file: Path, schema: Schema, after: Position) -> list[float | None]:
    return [row.time for row in read(file, schema, after=after)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("t,a\n" + _numbers(100, 200), "does not begin as the file that was read before"),
        ("t,a\n" + _numbers(0, 50).replace("40,", "41,") + _numbers(50, 60), "does not begin"),
        ("t,a\n1" + _numbers(0, 60), "does not begin"),
        ("t,a\n" + _numbers(0, 49), "is shorter than the"),
    ],
)
def test_another_file_under_the_name_is_refused(
    begun: tuple[Path, Schema, Position], content: str, said: str
) -> None:
    file, schema, after = begun
    file.write_text(content)
    with pytest.raises(DataError, match=said) as caught:
        _rest(file, schema, after)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)


def test_a_copy_that_has_grown_is_the_same_file(begun: tuple[Path, Schema, Position]) -> None:
    file, schema, after = begun
    copy = file.with_name("copy")
    copy.write_text(file.read_text() + _numbers(50, 53))
    copy.replace(file)
    assert _rest(file, schema, after) == [50, 51, 52]
    # What was not yet read may be repaired.
    copy.write_text("t,a\n" + _numbers(0, 50) + "50,7.25\n")
    copy.replace(file)
    assert _rest(file, schema, after) == [50]
    copy.write_text("t,a\n" + _numbers(0, 53))
    copy.replace(file)
    assert _rest(file, schema, replace(after, fingerprint=None)) == [50, 51, 52]


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "arrow"])
def test_a_change_far_from_the_top_is_noticed(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"a.{kind}"

    def write(rows: dict[str, Any]) -> None:
        frame = pl.DataFrame(rows)
        if kind == "parquet":
            frame.write_parquet(file)
        elif kind == "arrow":
            frame.write_ipc(file)
        else:
            text = frame.write_csv().encode()
            file.write_bytes(gzip.compress(text) if kind == "csv.gz" else text)

    times = list(range(1000, 1600))
    rows = {"t": times, "a": [i % 7 + 0.5 for i in times]}
    write(rows)
    stream = read(file)
    last = list(stream)[-1].position
    assert last is not None
    write({name: [*column, 1600] for name, column in rows.items()})
    assert _rest(file, stream.schema, last) == [1600]
    write({name: column[:-1] for name, column in rows.items()})
    with pytest.raises(DataError, match="is shorter than"):
        _rest(file, stream.schema, last)
    rows["a"][590] = 9.5
    write(rows)
    with pytest.raises(DataError, match=r"before line .* it is not what was read before"):
        _rest(file, stream.schema, last)


def test_late_and_changed_parts_are_refused(tmp_path: Path) -> None:
    for i in (1, 3):
        (tmp_path / f"{i}.csv").write_text("t,a\n" + _numbers(10 * i, 10 * i + 10))
    stream = read(tmp_path)
    last = list(stream)[-1].position
    assert last is not None
    (tmp_path / "4.csv").write_text("t,a\n" + _numbers(40, 42))
    assert _rest(tmp_path, stream.schema, last) == [40, 41]
    (tmp_path / "2.csv").write_text("t,a\n" + _numbers(20, 22))
    with pytest.raises(DataError, match=r"2.csv: has come after 3.csv was read"):
        _rest(tmp_path, stream.schema, last)
    (tmp_path / "2.csv").unlink()
    (tmp_path / "1.csv").write_text("t,a\n" + _numbers(10, 21))
    with pytest.raises(DataError, match=r"1.csv: has changed since"):
        _rest(tmp_path, stream.schema, last)
    (tmp_path / "1.csv").unlink()  # what was read may be cleared away
    assert _rest(tmp_path, stream.schema, last) == [40, 41]


def test_a_pipe_begins_as_it_did_before() -> None:
    text = "t,a\n" + _numbers(0, 30)
    stream = read(io.StringIO(text))
    after = list(stream)[-1].position
    assert after is not None

    def rest(text: str) -> list[float | None]:
        return [row.time for row in read(io.StringIO(text), stream.schema, after=after)]

    assert rest(text + _numbers(30, 32)) == [30, 31]
    with pytest.raises(DataError, match="ended after 20 rows, of which 30 were read before"):
        rest("t,a\n" + _numbers(0, 20))
    with pytest.raises(DataError, match="its first 30 rows are not those that were read before"):
        rest("t,a\n" + _numbers(30, 90))


def test_the_fingerprint_looks_back_a_bounded_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmcvi.app.sources.trace.WINDOW", 100.0)
    file = tmp_path / "a.csv"
    file.write_text("t,a\n" + _numbers(1000, 1100))
    stream = read(file)
    whole = list(stream)
    for k, row in enumerate(whole):
        after = row.position
        assert after is not None and after.fingerprint is not None
        assert after.offset - after.fingerprint.start < 240
        if k % 20 == 0:
            rest = [_plain(r) for r in read(file, stream.schema, after=after)]
            assert rest == [_plain(r) for r in whole[k + 1 :]]
