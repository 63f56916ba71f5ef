"""Whatever comes in, what comes out is rows or one sentence."""

import gzip
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rmcvi.app.sources import DataError, read
from rmcvi.app.sources.reader import open_source
from rmcvi.app.sources.source import Pace

GOOD = "t,a,b\n" + "".join(f"{i},{i}.5,{i * i}\n" for i in range(12))


def _sentence(source: Any, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        list(read(source, **options))
    text = str(caught.value)
    assert "\n" not in text and len(text) < 400
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return text


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", b"", "got an empty file"),
        ("a.csv", b"\n\n  \n", "got no rows"),
        ("a.csv", b"\xef\xbb\xbf", "got no rows"),
        ("a.csv", b"\xef\xbb\xbf\r\n", "got no rows"),
        ("a.csv", b"# nothing\n# but comments\n", "got no row of cells"),
        ("a.csv", b"t,a\n1,2.5", "its last line has no line end and was left out"),
        ("a.csv", b"t,a,b", "got no line end, expected rows of numbers"),
        ("a.csv", b"\x00\x01\x02\x03 binary \xff\xfe" * 20, "got binary data"),
        ("a.csv", b"\x7fELF\x02\x01\x01\x00\x00", "got binary data"),
        ("a.csv", "t,a\n1,2\n".encode("utf-16"), "got UTF-16"),
        ("a.csv", b"PK\x03\x04 zip", "got an archive"),
        ("a.csv", b"PAR1....", "got Parquet"),
        ("a.csv", b"ARROW1....", "got Arrow, expected text"),
        ("a.arrow", b"ARROW1 not really", "cannot be read as Arrow"),
        ("a.arrow", b"not at all", "cannot be read as Arrow"),
        ("a.feather", b"FEA1....", "got Feather of version 1, expected version 2"),
        (
            "a.csv",
            b"name,place\nx,y\nz,w\n",
            "got no column of numbers to observe, only 'name', 'place'",
        ),
        ("a.csv", b"t,a,b\n", "got no rows below the header"),
        ("a.csv", b"t\n1\n2\n3\n", "got no column of numbers to observe, only 't'"),
        ("a.csv", b"1" * (1 << 20) + b"1\n", "line 1: got more than 1 MiB without a line end"),
        ("a.csv", b't,a\n1,2\n2,"3\n' + b"3,4\n" * 200, "line 3: got a quote that is not closed"),
        ("a.jsonl", b"[1, 2]\n[3, 4]\n", "line 1: got '[1, 2]', expected one JSON object per line"),
        ("a.jsonl", b'{"a": 1}\n{"a": 2}\n{oops}\n', "line 3: got no JSON object"),
        ("a.jsonl", b'{"a": "x"}\n{"b": []}\n', "got no column of numbers"),
        ("a.jsonl", b"{}\n{}\n", "no columns at all"),
        ("a.csv.gz", gzip.compress(GOOD.encode(), mtime=0)[:-15], "got a damaged gzip file"),
        ("a.parquet", b"PAR1 not really", "cannot be read as Parquet"),
    ],
)
def test_sources_that_are_none(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    sentence = _sentence(file)
    assert expected in sentence and str(file) in sentence


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "stream.csv").write_text(GOOD)
    assert "did you mean" in _sentence(tmp_path / "steam.csv")
    (tmp_path / "empty").mkdir()
    assert "got a directory without parts" in _sentence(tmp_path / "empty")
    assert "source: got int" in _sentence_of_type(3)


def _sentence_of_type(source: Any) -> str:
    with pytest.raises(DataError) as caught:
        open_source(source, False, Pace())
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"columns": ["A1"]},
            "columns: got 'A1', expected one of 't', 'a', 'b'; did you mean 'a'?",
        ),
        ({"inputs": ["bb"]}, "inputs: got 'bb', expected one of 't', 'a', 'b'; did you mean 'b'?"),
        ({"time": "T"}, "time: got 'T', expected one of 't', 'a', 'b'; did you mean 't'?"),
        ({"sentinels": {"c": [1]}}, "sentinels: got 'c', expected one of 'a', 'b'"),
        ({"delimiter": "ab"}, "delimiter: got 'ab', expected one character"),
    ],
)
def test_wrong_options(options: dict[str, Any], expected: str) -> None:
    assert expected in _sentence(io.StringIO(GOOD), **options)


def test_wrong_choices_are_wrong_calls() -> None:
    with pytest.raises(ValueError, match=r"on_bad_row: got 'skp'.*did you mean 'skip'"):
        read(io.StringIO(GOOD), on_bad_row="skp")
    with pytest.raises(ValueError, match="gaps: got 'fill'"):
        read(io.StringIO(GOOD), gaps="fill")


def test_a_column_of_text_is_not_observed() -> None:
    text = "t,a,where\n1,1.5,north\n2,2.5,south\n"
    sentence = _sentence(io.StringIO(text), columns=["where"])
    assert sentence == "stream, column 'where': got 'north', expected a column of numbers"
    assert "got no date or number" in _sentence(io.StringIO(text), time="where")


BAD = {
    "ragged": ("12,12.5", "line 14: got 2 cells, expected 3"),
    "text": ("12,oops,144", "line 14, column 'a': got 'oops', expected a number"),
    "no_time": ("noon,12.5,144", "line 14, column 't': got 'noon', expected a number that tells"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_rows_follow_the_policy(kind: str) -> None:
    row, expected = BAD[kind]
    text = f"{GOOD}{row}\n13,13.5,169\n"
    assert expected in _sentence(io.StringIO(text))

    stream = read(io.StringIO(text), on_bad_row="skip", gaps="dt")
    rows = list(stream)
    assert len(rows) == 13 and (rows[-1].dt, rows[-1].time) == (2.0, 13.0)
    assert stream.counts.bad == {kind: 1} and stream.counts.skipped == 1
    assert expected in stream.counts.first[kind] and expected in stream.counts.describe()[0]

    stream = read(io.StringIO(text), on_bad_row="missing", gaps="dt")
    rows = list(stream)
    assert len(rows) == 14 and stream.counts.bad == {kind: 1} and stream.counts.skipped == 0
    bad, after = rows[-2], rows[-1]
    assert bad.dt == 1.0
    (rejected,) = stream.rejected
    assert rejected.place == "stream, line 14" and rejected.text == row
    assert expected.removeprefix("line 14").lstrip(", :") in rejected.reason
    nan = np.nan
    kept = {"ragged": [nan, nan], "text": [nan, 144.0]}.get(kind, [12.5, 144.0])
    np.testing.assert_array_equal(bad.y, kept)
    assert after.dt == 1.0


def test_infinite_numbers_are_text() -> None:
    for cell in ("inf", "-Infinity", "1e999", "1_000"):
        assert f"got {cell!r}, expected a number" in _sentence(io.StringIO(f"{GOOD}12,{cell},1\n"))


@pytest.mark.parametrize(
    "bad", ["12," + "1" * 3_000_000, '12,"1', '12,"' + "1" * 40_000 + '\n13,"' + "1" * 200_000]
)
def test_records_without_a_sane_end_are_left_out(bad: str) -> None:
    lines = [f"{i},{i}.5,1" for i in range(20, 400)]
    text = "\n".join([GOOD.rstrip(), bad, *lines])
    stream = read(io.StringIO(text), on_bad_row="skip", gaps="ignore")
    assert [row.time for row in stream] == [*range(12), *range(20, 400)]
    assert stream.counts.bad["unreadable"] == len(stream.rejected) == bad.count("\n") + 1
    assert all(len(rejected.text) <= 500 for rejected in stream.rejected)


def test_columns_that_appear_or_vanish(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text(GOOD)
    (tmp_path / "2.csv").write_text("t,a,b,c\n20,1,2,3\n")
    sentence = _sentence(tmp_path)
    assert sentence.endswith("2.csv, line 1, column 'c': has appeared, expected 't', 'a', 'b'")
    (tmp_path / "2.csv").write_text("t,b\n20,1\n")
    assert _sentence(tmp_path).endswith("2.csv, line 1, column 'a': has vanished, found 't', 'b'")
    (tmp_path / "2.parquet").write_bytes(b"x")
    assert "Parquet and text parts together" in _sentence(tmp_path)


def test_parquet_parts_with_other_columns(tmp_path: Path) -> None:
    frame = pl.DataFrame({"t": [1, 2], "a": [0.5, 1.5], "b": [1, 2]})
    frame.write_parquet(tmp_path / "1.parquet")
    frame.drop("a").write_parquet(tmp_path / "2.parquet")
    assert "column 'a': has vanished" in _sentence(tmp_path)


def test_parquet_without_polars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pl.DataFrame({"a": [0.5]}).write_parquet(tmp_path / "1.parquet")
    monkeypatch.setitem(sys.modules, "polars", None)
    assert "needs polars" in _sentence(tmp_path / "1.parquet")


def test_bytes_that_are_no_text_are_no_number() -> None:
    data = GOOD.encode() * 20 + b"300,\xff\xfe,1\n"
    stream = read(io.BytesIO(data), on_bad_row="missing")
    assert np.isnan(list(stream)[-1].y[0]) and stream.counts.bad["text"] == 1
