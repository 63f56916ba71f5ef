"""Whatever the bytes, what comes out is rows of numbers or one sentence, and soon.

One strategy for each class of files that were met, or thought of by somebody with a grudge.
"""

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmcvi.app.sources import DataError, Pace, read

_LETTERS = '0123456789.,;:-/|" \tabnNeE{}[]#\r\n'
_WORDS = [
    "NA",
    "nan",
    "",
    "-",
    "inf",
    "-Infinity",
    "1e999",
    "0x10",
    "1_000",
    "1,5",
    "\u0661",
    "NW",
    "½",
]
_HUGE = ["1e308", "-1e308", "9" * 400, "1e-400", "9.96921e36", "-3.4028235e38", "1e20", "-0.0"]
_TIMES = ["2024-02-30", "0000-01-01", "9999-12-31T23:59:60", "1e18", "-1", "24:00", "13/13/2024"]
_OBJECTS = [
    *('{"a": 1}', '{"a": "\\ud800"}', '{"\\ud800": 1}', '{"a": 1e999}', '{"a": NaN}', "null"),
    *('{"a": [1]}', "{}", "[]", "{", '{"a": {"a": 1}}', "[" * 5000, '{"": true}', '{"a": false}'),
    *('{"a": ' + "9" * 5000 + "}", '{"time": "x", "a": 2}'),
]
_number = st.integers(-99, 99).map(str) | st.floats(-1e3, 1e3).map(lambda v: f"{v:.3f}")
_cell = st.one_of(_number, _number, st.sampled_from([*_WORDS, *_HUGE, *_TIMES]))
_ends = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\n\r"])
_marks = st.sampled_from([",", ";", "\t", "|", " "])


def _rows(cell: st.SearchStrategy[str], least: int = 0, most: int = 4) -> st.SearchStrategy[Any]:
    return st.lists(st.lists(cell, min_size=least, max_size=most), min_size=1, max_size=12)


def _join(rows: list[list[str]], mark: str, end: str) -> bytes:
    return end.join(mark.join(row) for row in rows).encode("utf-8", "replace")


def _good(count: int = 12) -> bytes:
    return b"t,a,b\n" + b"".join(b"%d,%d.5,%d\n" % (i, i, i * i) for i in range(count))


def _spliced(junk: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Junk at some place in a good file."""
    cuts = st.integers(0, len(_good()))
    return st.builds(lambda part, at: _good()[:at] + part + _good()[at:], junk, cuts)


def _named(names: st.SearchStrategy[list[str]]) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda header, count: _join([header, *[["1.5"] * len(header)] * count], ",", "\n"),
        names,
        st.integers(0, 5),
    )


_table = st.builds(_join, _rows(_cell, 3, 3), _marks, _ends)
CLASSES: dict[str, st.SearchStrategy[bytes]] = {
    "bytes": st.binary(max_size=60),
    "letters": st.text(_LETTERS, max_size=80).map(str.encode),
    "spliced": _spliced(st.binary(max_size=20)),
    "ragged": st.builds(_join, _rows(_cell), _marks, _ends),
    "without a header": _table,
    "mixed delimiters": st.lists(_table, min_size=2, max_size=3).map(b"\n".join),
    "quotes": _spliced(st.text('"",\n1', min_size=1, max_size=12).map(str.encode)),
    "encodings": st.builds(
        lambda text, code: f"t;Süd\n1;2\n2;{text}\n".encode(code, "replace"),
        st.text(max_size=20),
        st.sampled_from(["utf-8-sig", "cp1252", "utf-16", "utf-32", "utf-7", "shift-jis"]),
    ),
    "marks": _spliced(st.sampled_from([b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb"])),
    "returns": _spliced(st.sampled_from([b"\r", b"\r\r", b"\n\r", b"\r\n", b"\x0b", b"\x85"])),
    "zeros": _spliced(st.sampled_from([b"\0", b"\0" * 20, b"\n\0,\0\n"])),
    "names": _named(st.lists(st.sampled_from(["a", "a (2)", "", "t", "#", "é"]), max_size=9)),
    "many names": st.sampled_from([9, 99]).map(lambda n: _join([["a"] * n] * 2, ",", "\n")),
    "long lines": _spliced(st.integers(1, 3).map(lambda n: b"1" * (n << 19))),
    "long cells": _spliced(st.integers(1, 3).map(lambda n: b'"' + b"1\n" * (36 * n))),
    "numbers": st.builds(_join, _rows(st.sampled_from(_HUGE), 2, 2), _marks, _ends),
    "times": st.builds(_join, _rows(st.sampled_from(_TIMES), 2, 2), _marks, _ends),
    "comments": st.text("# ,a1\n", max_size=60).map(str.encode),
    "objects": st.lists(st.sampled_from(_OBJECTS), max_size=6).map(
        lambda lines: "\n".join(lines).encode()
    ),
    "empty": st.sampled_from([b"", b"\n", b" ", b"\r\n\r\n", b",", b",,\n,,\n", b'""', b"#"]),
}


def _outcome(source: Any, policy: str, **options: Any) -> None:
    try:
        stream = read(source, on_bad_row=policy, **options)
        rows = list(stream)
    except DataError as error:
        assert "\n" not in str(error) and 0 < len(str(error)) < 1000
        return
    for row in rows:
        assert not np.isinf(row.y).any() and np.isfinite(row.dt) and row.y.dtype == float
    assert all(len(r.text) <= 500 and r.place and r.reason for r in stream.rejected)
    assert all(line.endswith(".") for line in [*stream.describe(), *stream.counts.describe()])
    " ".join([*stream.describe(), *stream.counts.describe()]).encode()  # can be written


def _examples(number: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return settings(max_examples=number, deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize("kind", CLASSES)
@_examples(8)
@given(data=st.data(), policy=st.sampled_from(["error", "skip", "missing"]))
def test_rows_or_one_sentence(kind: str, data: st.DataObject, policy: str) -> None:
    _outcome(io.BytesIO(data.draw(CLASSES[kind])), policy)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@_examples(30)
@given(
    content=st.sampled_from(sorted(CLASSES)).flatmap(lambda kind: CLASSES[kind]),
    name=st.sampled_from(["a.csv", "a.csv.gz", "a.jsonl", "a.parquet"]),
    cut=st.integers(0, 30),
    follow=st.booleans(),
)
def test_files(folder: Path, content: bytes, name: str, cut: int, follow: bool) -> None:
    if name.endswith(".gz"):
        content = gzip.compress(content, mtime=0)
        content = content[: len(content) - cut]
    (folder / name).write_bytes(content)
    waits = []
    clock = {"pace": Pace(lambda: len(waits) > 2, waits.append)}
    _outcome(folder / name, "skip", follow=follow, **clock)
