"""Rows that come late, gaps that are too long: a rule and a count, and the same from any row on."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from rmcvi.app.sources import DataError, Observation, Position, Stream, read
from rmcvi.app.sources.clock import SET_BACK


def _text(times: list[Any]) -> str:
    return "\n".join(["t,a", *(f"{t},{i}.5" for i, t in enumerate(times)), ""])


def _stream(times: list[Any], **options: Any) -> Stream:
    return read(io.StringIO(_text(times)), **options)


@pytest.mark.parametrize("policy", ["error", "skip", "missing"])
def test_late_rows_are_left_out_and_counted(policy: str) -> None:
    stream = _stream([*range(10), 9, 10, 7, 8, 11, 12], on_bad_row=policy)
    rows = list(stream)
    assert [row.time for row in rows] == list(range(13))
    assert stream.counts.bad == {"repeated": 1, "backward": 2} and stream.counts.skipped == 3
    told = " ".join(stream.counts.describe())
    assert "line 12, column 't': got '9', the time of the row before again" in told
    assert "line 14, column 't': got '7', an earlier time" in told and "3 of 16 rows" in told


@pytest.mark.parametrize("times", [list(range(50, 0, -1)), [i // 24 for i in range(500)]])
def test_a_source_that_is_not_in_order_is_refused_with_the_way_out(times: list[int]) -> None:
    """Newest first, or dates without their hours."""
    with pytest.raises(DataError, match=r"sort it by 't', or read it without times \(--time none"):
        list(_stream(times, time="t"))
    assert list(_stream(times, time="t", on_bad_row="skip"))
    assert len(list(_stream(times, time=()))) == len(times)


def _plain(rows: list[Observation]) -> list[str]:
    return [repr((row.y.tolist(), row.dt, row.time, row.filled, row.position)) for row in rows]


def test_a_clock_set_back_does_not_end_a_stream() -> None:
    """One time far in the future, and a clock that restarts: the stream goes on after a while."""
    times = [*range(300), 10**6, *range(300, 600), *range(300)]
    stream = _stream(times, on_bad_row="skip")
    rows = list(stream)
    assert stream.counts.bad["set_back"] == 2 and stream.counts.late == 2 * SET_BACK
    assert len(rows) == 901 - 2 * SET_BACK and rows[-1].time == 299
    assert rows[300].dt == 10**6 - 299 and rows[301].dt == 1.0
    assert "2 clocks set back; the first: stream, line 403" in " ".join(stream.counts.describe())


def test_few_rows_cannot_become_many() -> None:
    stream = _stream([*range(200), *(199 + 900 * k for k in range(1, 61))])
    rows = list(stream)
    assert len(rows) <= 2 * 260 + 1000 and stream.counts.filled == 899
    assert sum(row.dt for row in rows) == 200 + 900 * 60
    assert any("one long step each" in s and s.endswith(": 59.") for s in stream.counts.describe())


def test_all_of_it_goes_on_from_any_row(tmp_path: Path) -> None:
    times = [*range(20), 19, 25, 24, 90, 91, 60, 130, 131, 900, 901, *range(100, 210), 5, 260, 290]
    file = tmp_path / "a.csv"
    file.write_text(_text(times))
    options: dict[str, Any] = {"on_bad_row": "skip", "fill_limit": 40}
    stream = read(file, time="t", **options)
    whole = list(stream)
    assert stream.counts.leaps and stream.counts.filled and stream.counts.bad["set_back"] == 1
    for k, row in list(enumerate(whole))[::5]:
        assert row.position is not None
        after = Position.from_json(json.loads(json.dumps(row.position.to_json())))
        rest = list(read(file, stream.schema, after=after, **options))
        assert _plain(rest) == _plain(whole[k + 1 :]), k
