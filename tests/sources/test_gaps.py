import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmcvi.app.sources import Observation, Stream, read
from rmcvi.app.sources.clock import Clock, Step, usual_step, whole_steps


def _stream(times: list[Any], **options: Any) -> Stream:
    text = "\n".join(["t,a", *(f"{t},{i}.5" for i, t in enumerate(times))])
    return read(io.StringIO(text), **options)


def _told(rows: list[Observation]) -> list[tuple[float | None, float, bool]]:
    return [(row.time, row.dt, row.filled) for row in rows]


HOLES = [0, 1, 2, 5, 6, 7, 9, 10, 11, 12]


def test_gaps_become_missing_rows() -> None:
    stream = _stream(HOLES)
    rows = list(stream)
    assert [row.time for row in rows] == list(range(13))
    assert all(row.dt == 1.0 for row in rows)
    assert [row.time for row in rows if row.filled] == [3, 4, 8]
    assert all(np.isnan(row.y).all() == row.filled for row in rows)
    assert stream.counts.filled == 3 and stream.counts.rows == 10


def test_gaps_become_long_steps() -> None:
    steps = [row.dt for row in _stream(HOLES, gaps="dt")]
    assert steps == [1, 1, 1, 3, 1, 1, 2, 1, 1, 1]


def test_gaps_can_be_ignored() -> None:
    assert [row.dt for row in _stream(HOLES, gaps="ignore")] == [1.0] * 10


def test_a_gap_beyond_the_limit_is_one_long_step() -> None:
    rows = list(_stream([0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 15], fill_limit=2))
    assert _told(rows)[9:] == [(9, 1, True), (10, 1, True), (11, 1, False), (15, 4, False)]


def test_irregular_times_are_told_as_dt() -> None:
    times = [0.0, 1.0, 2.4, 2.9, 4.3, 5.3, 5.7, 7.2, 8.2]
    stream = _stream(times)
    assert stream.rules.gaps == "dt" and not stream.schema.regular
    step = np.median(np.diff(times))
    expected = [1.0, *(np.diff(times) / step)]
    np.testing.assert_allclose([row.dt for row in stream], expected, rtol=1e-12)


def test_jitter_is_no_gap_and_months_are_regular() -> None:
    rows = list(_stream([0, 60.2, 119.9, 180.1, 300.0, 360.3]))
    assert [(row.dt, row.filled) for row in rows[3:]] == [
        (1, False),
        (1, True),
        (1, False),
        (1, False),
    ]
    months = [f"2023-{m:02d}-01,{m}.5" for m in range(1, 13) if m != 6]
    rows = list(read(io.StringIO("\n".join(["date,a", *months]))))
    assert len(rows) == 12 and [row.filled for row in rows].index(True) == 5


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.floats(0.01, 1e4), st.lists(st.integers(1, 30), min_size=3, max_size=20))
def test_time_adds_up(step: float, counts: list[int]) -> None:
    """However a gap is told, the steps of a regular stream sum to its length."""
    times = np.cumsum([0, *counts]) * step
    for gaps in ("rows", "dt"):
        clock, total = Clock(Step(step), gaps), -1.0
        for time in times.tolist():
            while clock.absent(time):
                clock.fill()
                total += 1.0
            total += clock.tick(time)
        assert total == pytest.approx(sum(counts), rel=1e-9)


def test_the_usual_step_is_the_median() -> None:
    assert usual_step(np.array([0.0, 2.0, 4.0, 6.0, 6.0, 5.0, 15.0, 17.0])) == (Step(2.0), True)
    assert usual_step(np.array([3.0])) == (None, False)
    assert whole_steps(2.3) is None and whole_steps(1.9) == 2 and whole_steps(0.4) is None
