import math
from datetime import UTC, datetime

import numpy as np
import pytest

from rmcvi.app.sources import calendar, calendar_names


def _time(year: int, month: int, day: int, hour: int = 0) -> float:
    return datetime(year, month, day, hour, tzinfo=UTC).timestamp()


def test_the_hour_of_the_day() -> None:
    noon = calendar(_time(2024, 5, 17, 12), ["hour"])
    np.testing.assert_allclose(noon, [0.0, -1.0], atol=1e-9)
    six = calendar(_time(1999, 12, 31, 6), ["hour"], harmonics=2)
    np.testing.assert_allclose(six, [1.0, 0.0, 0.0, -1.0], atol=1e-9)


def test_the_week_begins_on_monday() -> None:
    assert datetime(2024, 5, 13).weekday() == 0
    np.testing.assert_allclose(calendar(_time(2024, 5, 13), ["week"]), [0.0, 1.0], atol=1e-9)
    thursday_noon = calendar(_time(2024, 5, 16, 12), ["week"])
    np.testing.assert_allclose(thursday_noon, [0.0, -1.0], atol=1e-9)


@pytest.mark.parametrize("year", [1970, 1999, 2024, 2100])
def test_the_year_begins_in_january(year: int) -> None:
    day = 2.0 * math.pi / 365.2425
    sine, cosine = calendar(_time(year, 1, 1), ["year"])
    assert abs(math.atan2(sine, cosine)) < 1.01 * day


def test_rows_with_a_known_period() -> None:
    t = np.arange(50)
    waves = calendar(t, [24, 7.5], harmonics=2)
    expected = [
        wave(2.0 * np.pi * h * t / period)
        for period in (24.0, 7.5)
        for h in (1, 2)
        for wave in (np.sin, np.cos)
    ]
    np.testing.assert_allclose(waves, np.stack(expected, -1), atol=1e-12)
    assert calendar_names([24, 7.5], 2)[4:] == ("7.5 sin 1", "7.5 cos 1", "7.5 sin 2", "7.5 cos 2")


def test_many_times_are_as_single_ones() -> None:
    cycles = ["hour", "week", "month", "year"]
    times = _time(2023, 1, 1) + 5000.0 * np.arange(20)
    waves = calendar(times, cycles, 3)
    assert waves.shape == (20, len(calendar_names(cycles, 3))) == (20, 24)
    np.testing.assert_array_equal(waves[7], calendar(float(times[7]), cycles, 3))


def test_an_unknown_time_is_the_middle_of_every_cycle() -> None:
    np.testing.assert_array_equal(calendar(None, ["hour", "week"]), np.zeros(4))
    assert calendar([0.0, np.nan], ["hour"])[1].tolist() == [0.0, 0.0]


def test_wrong_cycles() -> None:
    with pytest.raises(ValueError, match=r"cycles: got 'hours'.*did you mean 'hour'"):
        calendar(0.0, ["hours"])
    with pytest.raises(ValueError, match="cycles: got -1"):
        calendar(0.0, [-1])
