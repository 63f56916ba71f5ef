"""Months as steps, dates in several columns, zones, and times that are none."""

import io
from datetime import date, timedelta
from typing import Any

import pytest

from rmcvi.app.sources import DataError, Stream, read
from rmcvi.app.sources.cells import parse_time, utc
from rmcvi.app.sources.clock import Step

MONTH_ENDS = ["2023-10-31", "2023-11-30", "2023-12-31", "2024-01-31"]


def _stream(days: list[str], **options: Any) -> Stream:
    text = "\n".join(["date,a", *(f"{day},{i}.5" for i, day in enumerate(days))])
    return read(io.StringIO(text), **options)


def _next(stream: Stream, last: float | None, count: int) -> list[str]:
    step = stream.schema.usual
    assert step is not None and last is not None
    return [utc(step.after(last, k))[:10] for k in range(1, count + 1)]


@pytest.mark.parametrize(
    ("days", "months", "following"),
    [
        (MONTH_ENDS, 1, ["2024-02-29", "2024-03-31", "2024-04-30"]),
        (["2024-02-29", "2024-04-30", "2024-06-30"], 2, ["2024-08-31", "2024-10-31"]),
        (["2023-11-30", "2023-12-30", "2024-01-30"], 1, ["2024-02-29", "2024-03-30"]),
        (["2023-07-15", "2023-08-15", "2023-09-15"], 1, ["2023-10-15", "2023-11-15"]),
        (["2023-07-01", "2023-08-01", "2023-09-01"], 1, ["2023-10-01", "2023-11-01"]),
        (["2023-03-31", "2023-06-30", "2023-09-30"], 3, ["2023-12-31", "2024-03-31"]),
        (["2020-02-29", "2021-02-28", "2022-02-28"], 12, ["2023-02-28", "2024-02-29"]),
        (["2021-01-01", "2022-01-01", "2023-01-01"], 12, ["2024-01-01", "2025-01-01"]),
        (["2024-03-28", "2024-04-30", "2024-05-31", "2024-06-28"], 1, ["2024-07-31"]),
        (["2024-01-01", "2024-01-29", "2024-02-26"], 0, ["2024-03-25", "2024-04-22"]),
        (["2024-02-12", "2024-02-19", "2024-02-26"], 0, ["2024-03-04"]),
    ],
)
def test_steps_of_the_calendar(days: list[str], months: int, following: list[str]) -> None:
    stream = _stream(days)
    assert stream.schema.months == months and stream.schema.regular
    rows = list(stream)
    assert [row.dt for row in rows] == [1.0] * len(days)
    assert _next(stream, rows[-1].time, len(following)) == following


def test_months_are_said_counted_and_filled_as_months() -> None:
    months = [f"2023-{m:02d}" for m in range(1, 13) if m not in (5, 6)]
    stream = _stream(months)
    assert "the usual step is 1 month." in stream.describe()[1]
    rows = list(stream)
    assert [row.dt for row in rows] == [1.0] * 12
    assert [utc(row.time)[:10] for row in rows if row.filled and row.time is not None] == [
        "2023-05-01",
        "2023-06-01",
    ]
    steps = [row.dt for row in _stream(months, fill_limit=1)]
    assert steps == [1.0, 1.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert Step(365.0 * 86400.0, 12).describe(True) == "1 year"


def test_months_in_another_zone() -> None:
    """Local midnights, an hour apart in UTC by summer time."""
    zones = {1: "+01:00", 2: "+01:00", 3: "+01:00", 4: "+02:00", 5: "+02:00", 6: "+02:00"}
    stream = _stream([f"2024-{m:02d}-01T00:00{zone}" for m, zone in zones.items()])
    assert stream.schema.months == 1 and [row.dt for row in stream] == [1.0] * 6


PARTS = "No,year,month,day,hour,pm\n" + "".join(
    f"{i},2010,{1 if i < 31 * 24 else 2},{1 + i // 24 % 31},{i % 24},{i}.5\n"
    for i in range(31 * 24 - 5, 31 * 24 + 5)
)


@pytest.mark.parametrize("time", [None, ["year", "month", "day", "hour"], ["hour", "day", "month"]])
def test_a_date_in_parts_is_the_time(time: list[str] | None) -> None:
    if time and time[0] == "hour":
        with pytest.raises(DataError, match="got 'hour', 'day', 'month' as time, expected a date"):
            read(io.StringIO(PARTS), time=time)
        return
    stream = read(io.StringIO(PARTS), time=time)
    assert stream.schema.time == ("year", "month", "day", "hour")
    assert stream.schema.columns == ("No", "pm") and stream.schema.step == 3600.0
    rows = list(stream)
    assert [row.dt for row in rows] == [1.0] * 10 and rows[0].time is not None
    assert utc(rows[0].time) == "2010-01-31 19:00:00"


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("Year,MON,v", "2020,{m},1.5", "2020-02-01 00:00:00"),
        ("yyyy,mm,dd,hh,mi,ss,v", "2020,{m},3,4,5,6.5,1.5", "2020-02-03 04:05:06.500000"),
        ("day,month,year,v", "3,{m},2020,1.5", "2020-02-03 00:00:00"),
        ("date,hour,v", "2020-{m:02d}-03,7,1.5", "2020-02-03 07:00:00"),
    ],
)
def test_usual_names_of_parts(header: str, row: str, expected: str) -> None:
    text = "\n".join([header, *(row.format(m=m) for m in (2, 3, 4, 5))])
    stream = read(io.StringIO(text))
    first = next(iter(stream))
    assert stream.schema.columns == ("v",) and first.time is not None
    assert utc(first.time) == expected


def test_named_months_and_parts_by_their_order() -> None:
    text = "a,b,v\n2020,Jan,1.5\n2020,February,2.5\n2020,mar,3.5\n2020,4,4.5\n2020,5,5.5\n"
    stream = read(io.StringIO(text), time=["a", "b"])
    assert stream.schema.months == 1 and [row.dt for row in stream] == [1.0] * 5
    with pytest.raises(DataError, match="line 7, column 'a': got '2020 13', expected a number"):
        list(read(io.StringIO(f"{text}2020,13,6.5\n"), time=["a", "b"]))


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("2024-03-31T02:30:00+02:00", "iso"),
        ("2024-03-31 00:30:00 UTC", "iso"),
        ("2024-03-31T00:30:00Z", "iso"),
        ("31/03/2024 02:30 +0200", "day-month-year"),
        ("03/31/2024 00:30:00Z", "month-day-year"),
        ("2024/3/30 19:30:00 -05:00", "year-month-day"),
    ],
)
def test_zones_are_understood(text: str, form: str) -> None:
    assert utc(parse_time([text], form)) == "2024-03-31 00:30:00"


def test_local_times_through_both_changes_of_the_clock() -> None:
    """An hour that is absent in spring is filled; one that comes twice in autumn is left out."""
    hours = [f"{hour:02d}:00" for hour in range(24)]
    spring = ["2024-03-31 " + hour for hour in hours if hour != "02:00"]
    autumn = ["2024-10-27 " + hour for hour in [*hours[:3], *hours[2:]]]
    rows = list(_stream(spring))
    assert len(rows) == 24 and rows[2].filled
    stream = _stream(autumn)
    assert len(list(stream)) == 24 and stream.counts.bad == {"repeated": 1}


def test_times_that_no_calendar_holds() -> None:
    start = 1.7e9
    text = "\n".join(["t,a", *(f"{start + 60 * i:.0f},{i}.5" for i in range(20)), "4.6e12,1"])
    with pytest.raises(DataError, match=r"line 22, column 't': got '4.6e12', expected a number"):
        list(read(io.StringIO(text)))
    rows = list(read(io.StringIO(text), on_bad_row="missing"))
    assert rows[-1].time is None and len(rows) == 21
    # Near the last year, steps go on in seconds.
    last = parse_time([date(9999, 12, 31)], "iso")
    assert Step(31 * 86400.0, 1, 31).after(last, 2) == last + 62 * 86400.0


def test_days_of_summer_time_are_days() -> None:
    days = [date(2024, 3, 28) + timedelta(days=k) for k in range(8)]
    zones = ["+01:00" if day <= date(2024, 3, 31) else "+02:00" for day in days]
    stamps = [f"{day}T00:00{zone}" for day, zone in zip(days, zones, strict=True)]
    assert [row.dt for row in _stream(stamps)] == [1.0] * 8
