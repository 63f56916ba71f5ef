import gzip
import io
import os
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rmcvi.app.sources import DataError, Observation, Pace, observations, read


def _matrix(rows: list[Observation]) -> np.ndarray:
    return np.array([row.y for row in rows])


def _frame(length: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.normal(size=length).round(4)
    return pl.DataFrame(
        {
            "time": pl.datetime_range(
                pl.datetime(2024, 1, 1), pl.datetime(2025, 1, 1), "1h", eager=True
            )[:length],
            "a": a,
            "b": [None if i % 7 == 0 else float(i) for i in range(length)],
            "word": ["x, 'y'" if i % 2 else 'say "no"\nor not' for i in range(length)],
        }
    )


def test_csv_as_polars_reads_it(tmp_path: Path) -> None:
    frame = _frame()
    file = tmp_path / "a.csv"
    frame.write_csv(file)
    stream = read(file)
    rows = list(stream)
    expected = pl.read_csv(file).select("a", "b").to_numpy()
    np.testing.assert_array_equal(_matrix(rows), expected)
    assert [row.time for row in rows] == frame["time"].dt.epoch("s").cast(float).to_list()
    assert rows[1].position is not None and rows[1].time_text == "2024-01-01T01:00:00.000000"
    # The odd quoted cells hold a line end, so that a record spans two lines.
    assert rows[2].position is not None
    assert (rows[0].position and rows[0].position.line, rows[2].position.line) == (3, 6)
    assert rows[-1].position and rows[-1].position.offset == file.stat().st_size


@pytest.mark.parametrize(
    "kind", ["csv", "tsv", "gz", "jsonl", "parquet", "arrow", "feather", "arrows"]
)
def test_the_same_rows_in_every_format(tmp_path: Path, kind: str) -> None:
    frame = _frame().drop("word")
    file = tmp_path / f"a.{kind}"
    if kind == "csv":
        frame.write_csv(file)
    elif kind == "tsv":
        frame.write_csv(file, separator="\t")
    elif kind == "gz":
        file.write_bytes(gzip.compress(frame.write_csv().encode()))
    elif kind == "jsonl":
        frame.with_columns(pl.col("time").dt.to_string("iso")).write_ndjson(file)
    elif kind == "arrows":
        frame.write_ipc_stream(file)
    elif kind in ("arrow", "feather"):
        frame.write_ipc(file, compression="zstd" if kind == "feather" else "uncompressed")
    else:
        frame.write_parquet(file)
    rows = list(read(file))
    np.testing.assert_array_equal(_matrix(rows), frame.select("a", "b").to_numpy())
    assert [row.time for row in rows] == frame["time"].dt.epoch("s").cast(float).to_list()


def test_decimals_are_numbers(tmp_path: Path) -> None:
    prices = pl.Series("a", ["1.25", None, "-3.50"]).cast(pl.Decimal(10, 2))
    pl.DataFrame([pl.Series("t", [1, 2, 3]), prices]).write_parquet(tmp_path / "a.parquet")
    np.testing.assert_array_equal(
        _matrix(list(read(tmp_path / "a.parquet"))), [[1.25], [np.nan], [-3.5]]
    )


def test_parts_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for i in (10, 2, 1):
        (tmp_path / f"part-{i}.csv").write_text(f"t,a,b\n{i},{i}.5,0.25\n")
    (tmp_path / "part-3.csv").write_text("b,a,t\n0.25,3.5,3\n")
    (tmp_path / "part-4.csv").write_text("")
    (tmp_path / "part-5.csv").write_text("t,a,b\n")
    (tmp_path / "README.md").write_text("not a part")
    (tmp_path / ".hidden.csv").write_text("nor this")
    rows = list(read(tmp_path, gaps="ignore"))
    np.testing.assert_array_equal(_matrix(rows), [[i + 0.5, 0.25] for i in (1, 2, 3, 10)])
    assert [row.position and Path(row.position.name).name for row in rows] == [
        f"part-{i}.csv" for i in (1, 2, 3, 10)
    ]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO(b"t,a\n1,2.5\n2,3.5\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(raw))
    rows = list(read("-"))
    assert [row.y.tolist() for row in rows] == [[2.5], [3.5]]
    assert rows[0].position and rows[0].position.name == "standard input"


def test_file_objects_of_bytes_and_text(tmp_path: Path) -> None:
    text = "t,a\n1,2.5\n2,3.5\n"
    (tmp_path / "a.csv").write_text(text)
    for stream in (io.StringIO(text), io.BytesIO(text.encode())):
        assert _matrix(list(read(stream))).tolist() == [[2.5], [3.5]]
    with open(tmp_path / "a.csv", "rb", buffering=0) as raw, open(tmp_path / "a.csv") as text_file:
        assert _matrix(list(read(raw))).tolist() == [[2.5], [3.5]]
        assert _matrix(list(read(text_file))).tolist() == [[2.5], [3.5]]


def test_a_live_pipe_is_not_waited_for() -> None:
    out, into = os.pipe()
    with open(out, "rb") as reader, open(into, "wb", buffering=0) as writer:
        writer.write(b"t,a\n1,1.5\n2,2.5\n3,3.")
        stream = iter(read(reader, pace=Pace(patience=0.0)))
        assert [next(stream).y.tolist() for _ in range(2)] == [[1.5], [2.5]]
        writer.write(b"5\n4,4.5\n")
        assert next(stream).y.tolist() == [3.5]
        writer.close()
        assert [row.y.tolist() for row in stream] == [[4.5]]


def test_a_pipe_with_a_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    writer = threading.Thread(target=(tmp_path / "a").write_bytes, args=(b"t,a\n1,1.5\n2,2.5",))
    writer.start()
    assert _matrix(list(read(tmp_path / "a"))).tolist() == [[1.5], [2.5]]
    writer.join()


def test_blank_rows_trailing_cells_and_repeated_headers_are_passed_over() -> None:
    text = "\n\nt;a;b;;\n1;2;3;;\n;;;;\n\n2;3;4\nt;a;b;;\n3;4;5;;;;\n;;\n"
    stream = read(io.StringIO(text))
    assert _matrix(list(stream)).tolist() == [[2, 3], [3, 4], [4, 5]]
    assert (stream.counts.rows, stream.counts.blank, stream.counts.headers) == (3, 3, 1)


def test_inputs_keep_their_last_value() -> None:
    stream = read(io.StringIO("t,a,u\n1,1,\n2,NA,5\n3,3,NA\n4,4,7\n"), inputs=["u"])
    rows = list(stream)
    assert [row.u.tolist() for row in rows] == [[0], [5], [5], [7]]
    assert [np.isnan(row.y).all() for row in rows] == [False, True, False, False]
    assert stream.counts.held == 2


def test_a_file_can_be_read_twice(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,a\n1,2.5\n2,3.5\n")
    stream = read(tmp_path / "a.csv")
    assert len(list(stream)) == len(list(stream)) == 2


def test_arrays_are_streams_too() -> None:
    ys, u = np.arange(6.0).reshape(3, 2), np.ones((3, 1))
    rows = list(observations(ys, u, [1, 2, 1], [0, 2, 3]))
    np.testing.assert_array_equal(_matrix(rows), ys)
    assert [(row.u.tolist(), row.dt, row.time) for row in rows] == [
        ([1.0], 1.0, 0.0),
        ([1.0], 2.0, 2.0),
        ([1.0], 1.0, 3.0),
    ]
    with pytest.raises(DataError, match="expected 3 rows each"):
        observations(ys, dt=[1.0])
    with pytest.raises(DataError, match="ys"):
        observations([1.0, 2.0])
