import io
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmcvi.app.sources import DataError, Schema, Stream, read, sniff
from rmcvi.app.sources.delimited import unique_names


def _pipe(text: str, encoding: str = "utf-8") -> io.BytesIO:
    return io.BytesIO(text.encode(encoding))


def _values(stream: Stream) -> np.ndarray:
    return np.array([row.y for row in stream])


HOURLY = "".join(f"2024-01-01 {h:02d}:00:00,{h / 8},{h * h % 7}.5\n" for h in range(24))


@pytest.mark.parametrize(
    ("delimiter", "decimal"),
    [(",", "."), (";", ","), (";", "."), ("\t", ","), ("|", "."), (" ", ",")],
)
@pytest.mark.parametrize("clock", ["iso", "uci", "seconds", "counter", "none"])
@settings(max_examples=4, deadline=None, derandomize=True)
@given(data=st.data())
def test_text_is_read_back_whatever_its_look(
    delimiter: str, decimal: str, clock: str, data: st.DataObject
) -> None:
    blank = delimiter == " " or clock == "none"  # where an empty cell, or row, is none
    words = ["NA", "nan", "null"] if blank else ["NA", "", "-"]
    number = st.floats(-90, 90).map(lambda v: round(v, 3)) | st.sampled_from(words)
    row = st.lists(number, min_size=3, max_size=3)
    table = data.draw(st.lists(row, min_size=4, max_size=8))
    # At least one number per column, with a decimal mark, so that there is something to see.
    table = [[0.25, -1.5, 7.125], *table, [0.5, 1.75, 2.5]]
    lines = []
    for i, cells in enumerate(table):
        moment = datetime(2024, 2, 27 + i // 24, i % 24, tzinfo=UTC)
        head = {
            "iso": [f"{moment:%Y-%m-%dT%H:%M:%S}"],
            "uci": [f"{moment:%d/%m/%Y}", f"{moment:%H.%M.%S}"],
            "seconds": [str(int(moment.timestamp()))],
            "counter": [str(3 * i)],
            "none": [],
        }[clock]
        tail = [c if isinstance(c, str) else str(c).replace(".", decimal) for c in cells]
        lines.append(delimiter.join([*head, *tail]))
    names = {"uci": ["Date", "Time"], "none": []}.get(clock, ["time"])
    stream = read(_pipe("\n".join([delimiter.join([*names, "a", "b", "c"]), *lines])))
    assert stream.schema.columns == ("a", "b", "c")
    assert stream.schema.time == tuple(names)
    rows = list(stream)
    expected = [[np.nan if isinstance(c, str) else c for c in cells] for cells in table]
    np.testing.assert_array_equal([row.y for row in rows], expected)
    start = datetime(2024, 2, 27, tzinfo=UTC).timestamp()
    times = {"counter": 3.0 * np.arange(len(rows)), "none": [None] * len(rows)}
    hours = start + 3600.0 * np.arange(len(rows))
    assert [row.time for row in rows] == list(times.get(clock, hours))
    assert all(row.dt == 1.0 for row in rows)


def test_the_schema_survives_json() -> None:
    schema = sniff(_pipe("time;a;b;Süd\n1;1,5;-999;x\n2;2,5;-999;y\n3;0,5;4;z\n"), inputs=["a"])
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    with pytest.raises(DataError, match="schema"):
        Schema.from_json({"names": [], "colour": 1})


def test_what_was_assumed_is_said() -> None:
    text = "Date;Time;CO;T;where;;\n" + "".join(
        f"{13 + h // 24}/03/2004;{h % 24:02d}.00.00;{'-200' if h % 5 == 0 else h};{h % 11},5;x;;\n"
        for h in range(40)
    )
    said = read(_pipe(text), inputs=["T"]).describe()
    assert said == [
        "Semicolon-separated text with decimal commas and a header line.",
        "Time: 'Date' and 'Time' (day/month/year, UTC unless a zone is written);"
        " the usual step is 1 hour.",
        "Observed (1): CO.",
        "Inputs (1): T.",
        "-200 means missing in every column.",
        "Left out, for it holds text: where.",
        "Gaps in time are filled by missing rows; longer ones than 1000 are one long step.",
    ]


def test_no_header() -> None:
    stream = read(_pipe(HOURLY))
    assert not stream.schema.header
    assert stream.schema.columns == ("column 2", "column 3")
    assert len(list(stream)) == 24


def test_json_lines_and_absent_keys() -> None:
    lines = [{"ts": 1.7e9 + 60 * i, "a": i / 4, "s": "x", "b": None} for i in range(5)]
    lines[3].pop("a")
    lines.append({"ts": 1.7e9 + 300, "a": True, "b": 2})
    stream = read(_pipe("\n".join(map(json.dumps, lines))))
    assert stream.schema.columns == ("a", "b")
    assert (stream.schema.step, stream.schema.time_format) == (60.0, "seconds")
    nan = np.nan
    expected = [[0, nan], [0.25, nan], [0.5, nan], [nan, nan], [1.0, nan], [1.0, 2.0]]
    np.testing.assert_array_equal(_values(stream), expected)


@pytest.mark.parametrize(
    ("column", "found"),
    [
        ([5, 6, -999, 7, -999, 8], (-999.0,)),
        ([5, 6, -999, 7, 9, 8], (-999.0,)),  # once, but absurd
        ([5, 60, -200, 7, 9, 8], ()),  # once, and not that absurd
        ([5, 60, -2, 999, 9, 8], ()),  # once, and a large value
        ([5, 6, 32767, 7, 9, 8], (32767.0,)),
        ([5, 6, 65535, 7, 9, 8], (65535.0,)),
        ([5, 6, -32768, 7, 9, -8], (-32768.0,)),
        ([5, 6, 1e10, 7, 9, 8], (1e10,)),
        ([5, 6, 9.96921e36, 7, 9, 8], (9.96921e36,)),
        ([5, 6, -3.4028235e38, 7, 9, 8], (-3.4028235e38,)),
        ([5, 6, 1e20, 7, -1e20, 8], (-1e20, 1e20)),
        ([1e20, 1.1e20, 0.9e20, 1e20, 0.95e20, 1.2e20], ()),  # a plasma
        ([0, 255, 17, 255, 254, 3], ()),  # counters of 8 and 16 bits
        ([0, 65535, 1700, 65535, 65534, 30000], ()),
        ([-32768, 32767, -20000, 32767, 15000, 4], ()),
        ([0, 0, 0, 4.5, 4.5, 0], ()),  # rain
        ([0.5, 0.6, 0.4, 2000, 0.3, 2000], ()),  # a heater
        ([5, 6, 7.5e9, 7, 9, 7.5e9], (7.5e9,)),
        ([5, -150, -200, 7, -200, -180], ()),  # among its like
        ([13, -2, -200, 40, -200, 8], (-200.0,)),
        ([1013.2, 9999, 1009, 9999, 1011, 990], (9999.0,)),
        ([998.5, 999, 1001, 999, 1003, 1000], ()),
        ([5, 6, -123, 7, -123, 8], ()),  # nobody writes -123
        ([-999, -999, -999, -999, -999, -999], ()),  # constant, for all that is known
    ],
)
def test_sentinels_are_far_out_and_repeated(column: list[float], found: tuple[float, ...]) -> None:
    schema = sniff(_pipe("\n".join(["a", *map(str, column)])))
    assert schema.sentinels.get("a", ()) == found


def test_fill_values_mean_missing_at_any_row() -> None:
    fills = ["9.96921e+36", "-3.4028234663852886e+38", "1e20", "-1.797693e308", "3.40282e38"]
    rows = [f"{i},{i % 5}" for i in range(300)]
    text = "\n".join(["t,a", *rows, *(f"{300 + i},{fill}" for i, fill in enumerate(fills))])
    for sentinels in (None, [-7]):
        stream = read(_pipe(text), sentinels=sentinels)
        values = _values(stream)
        assert np.isnan(values[300:]).all() and not np.isnan(values[:300]).any()
        assert stream.counts.fills == len(fills) and not stream.rejected
        said = "5 fill values mean missing; the first: stream, line 302, column 'a': 9.96921e+36."
        assert said in stream.counts.describe()
    plasma = "\n".join(["a", *(f"{i % 7 + 1}e19" for i in range(9)), "1e20"])
    assert _values(read(_pipe(plasma)))[-1] == 1e20


def test_a_sentinel_counts_in_every_column_that_it_cannot_belong_to() -> None:
    rows = [(1.0, 20.0, -150.0), (-200, 21, -250), (2, 22, -90), (-200, 23, -180), (3, 24, 60)]
    text = "\n".join(["a,b,c", *(",".join(map(str, row)) for row in rows)])
    assert sniff(_pipe(text)).sentinels == {"a": (-200.0,), "b": (-200.0,)}


def test_the_user_has_the_last_word() -> None:
    text = "t,a,b\n0,1,-200\n1,2,-200\n2,-7,bad\n3,9,3\n"
    stream = read(_pipe(text), columns=["b", "t"], inputs=["a"], time=(), sentinels=["-7", "bad"])
    assert stream.schema.time == ()
    np.testing.assert_array_equal(_values(stream), [[-200, 0], [-200, 1], [np.nan, 2], [3, 3]])
    stream = read(_pipe(text), time="a", sentinels={"b": [3, "bad"]}, on_bad_row="missing")
    assert stream.schema.time == ("a",)
    np.testing.assert_array_equal(_values(stream), [[0, -200], [1, -200], [3, np.nan]])


def test_a_given_delimiter_is_obeyed() -> None:
    stream = read(_pipe("a;b\n1,5;2,5\n3,5;4,5\n"), delimiter=",", on_bad_row="skip")
    assert stream.schema.delimiter == ","


@pytest.mark.parametrize(
    ("texts", "form"),
    [
        (["13/01/2024", "14/01/2024", "15/01/2024"], "day-month-year"),
        (["01/13/2024", "01/14/2024", "01/15/2024"], "month-day-year"),
        (["01/02/2024", "01/03/2024", "02/01/2024"], "month-day-year"),
        (["07/03/2024", "08/03/2024", "09/03/2024"], "day-month-year"),
        (["03/07/2024", "03/08/2024", "03/09/2024"], "month-day-year"),
        (["03/01/2024", "02/02/2024", "01/03/2024"], "day-month-year"),
        (["01/03/2024", "02/02/2024", "03/01/2024"], "month-day-year"),
        (["2024/1/2", "2024/1/3", "2024/1/4"], "year-month-day"),
        (["2024-01", "2024-02", "2024-03"], "year-month-day"),
        (["19580329", "19580405", "19580412"], "yyyymmdd"),
        (["20240129 06:00", "20240229 12:30", "20240301 00:00"], "yyyymmdd"),
        (["2024-01-02T00:00:00+02:00", "2024-01-02T00:00:01+02:00", "2024-01-03"], "iso"),
    ],
)
def test_formats_of_dates(texts: list[str], form: str) -> None:
    text = "\n".join(["when,a", *(f"{t},{i}.5" for i, t in enumerate(texts))])
    assert sniff(_pipe(text)).time_format == form


def test_doubtful_dates_are_told() -> None:
    schema = sniff(_pipe("when,a\n01/01/2024,1.5\n02/02/2024,2.5\n03/03/2024,1.5\n"))
    assert "they are read as day-month-year" in " ".join(schema.describe())


def test_an_index_of_prices_is_not_a_time() -> None:
    text = "index,a\n100.1,1\n99.2,2\n101.5,0\n98.0,4\n"
    assert sniff(_pipe(text)).columns == ("index", "a")


def test_a_meter_of_eight_digits_is_no_date() -> None:
    text = "energy,a\n20240098,1\n20240131,2\n20240145,0\n20240171,4\n"
    assert sniff(_pipe(text)).columns == ("energy", "a")


@pytest.mark.parametrize(
    ("name", "times", "form"),
    [
        ("year", [2000, 2001, 2002], "number"),
        ("anything", [1700000000, 1700000060, 1700000120], "seconds"),
        ("ts", [1700000000000, 1700000060000, 1700000120000], "milliseconds"),
        ("", [0, 1, 2], "number"),
    ],
)
def test_numbers_that_tell_the_time(name: str, times: list[int], form: str) -> None:
    schema = sniff(_pipe("\n".join([f"{name},a", *(f"{t},1.5" for t in times)])))
    assert schema.columns == ("a",) and schema.time_format == form
    assert schema.step == (1.0 if form == "number" else 60.0)


def test_windows_text_and_byte_order_marks() -> None:
    text = "Zeit;Süd °C\r\n1;2,5\r\n2;3,5\r\n"
    for encoding in ("utf-8", "utf-8-sig", "cp1252"):
        stream = read(_pipe(text, encoding))
        assert "Süd °C" in stream.schema.names
        assert len(list(stream)) == 2


def test_comments_and_units_are_passed_over() -> None:
    text = '# made by "hand\n# on 2024\nt,a,b\nh,mm,°C\n' + "".join(
        f"{i},{i}.5,2\n" for i in range(9)
    )
    stream = read(_pipe(text + "# pause\nt,a,b\nh,mm,°C\n9,9.5,2\n"))
    assert stream.schema.columns == ("a", "b") and _values(stream).shape == (10, 2)
    said = " ".join(stream.describe())
    assert "Lines that begin with # are passed over." in said
    assert "The row under the header holds units: h, mm, °C." in said
    assert stream.counts.bad == {}


@pytest.mark.parametrize("header", ["# t,a,b", "#t,a,b", "# t a b"])
def test_names_in_a_comment(header: str) -> None:
    text = f"# x\n{header}\n" + "".join(f"{i},{i}.5,2\n" for i in range(9))
    stream = read(_pipe(text))
    assert stream.schema.names == ("t", "a", "b") and len(list(stream)) == 9


def test_a_row_of_words_is_not_always_units() -> None:
    text = "name,a\nnorth,\nsouth,1.5\nwest,2.5\n"
    assert sniff(_pipe(text)).units == ()
    assert sniff(_pipe("t,a\n1,NA\n2,1.5\n3,2.5\n")).units == ()


def test_old_line_ends(tmp_path: Path) -> None:
    data = b"t,a\r1,1.5\r2,2.5\r3,3.5\r"
    (tmp_path / "a.csv").write_bytes(data)
    stream = read(tmp_path / "a.csv")
    rows = list(stream)
    assert [row.time for row in rows] == [1, 2, 3] == [r.time for r in read(io.BytesIO(data))]
    rest = read(tmp_path / "a.csv", stream.schema, after=rows[0].position)
    assert [row.time for row in rest] == [2, 3]


def test_one_return_is_not_the_way_lines_end() -> None:
    pieces = [b"t,a\n", b"1,1.5\n", b"2,2\r.5", b"\n3,3.5\n"]

    class Slow(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return pieces.pop(0) if pieces else b""

    stream = read(Slow(), on_bad_row="skip", gaps="ignore")
    assert [row.time for row in stream] == [1, 3]
    assert [bad.reason for bad in stream.rejected] == [
        "got a carriage return in the middle of a row"
    ]


def test_many_columns() -> None:
    names = unique_names(["a"] * 4000 + ["a (2)", ""])
    assert len(set(names)) == 4002 and names[:2] == ("a", "a (2)") and names[-1] == "column 4002"
    wide = ",".join(["a"] * 4097)
    with pytest.raises(DataError, match="got 4097 columns, expected 4096 at most"):
        read(_pipe("\n".join([wide, *[wide.replace("a", "1")] * 3])))


def test_names_that_could_not_be_written() -> None:
    stream = read(_pipe('{"a\\ud800": 1.5}\n{"a\\ud800": 2.5}\n'))
    assert stream.schema.columns == ("a?",) and _values(stream).tolist() == [[1.5], [2.5]]
    assert len(list(read(io.StringIO("t,a\ud800\n1,2\n2,3\n")))) == 2


def test_looking_at_a_pipe_takes_only_what_it_needs() -> None:
    taken = []

    class Slow(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            taken.append(size)
            n = len(taken)
            return b"t,a\n" if n == 1 else f"{n},{n}.5\n".encode() if n < 500 else b""

    stream = read(Slow())
    assert len(taken) == 201
    assert [row.time for row in stream] == list(range(2, 500))
