import io
import json
from typing import Any

import numpy as np
import pytest

from rmcvi.app.sources import DataError, Diagnosis, doctor


def _table(columns: dict[str, Any]) -> io.StringIO:
    rows = zip(*columns.values(), strict=True)
    return io.StringIO("\n".join([",".join(columns), *(",".join(map(str, r)) for r in rows)]))


def _healthy(length: int = 400) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "t": list(range(length)),
        "smooth": rng.normal(size=length).cumsum().round(3).tolist(),
        "coarse": rng.integers(0, 4, length).tolist(),
        "skewed": rng.exponential(size=length).round(3).tolist(),
    }


def _about(found: Diagnosis, name: str) -> list[str]:
    return [line for line in found.suggestions() if line.startswith(name)]


def test_healthy_data_gets_no_advice() -> None:
    found = doctor(_table(_healthy()))
    assert found.suggestions() == []
    assert (found.rows, found.period, found.regular, found.gaps) == (400, 1.0, True, 0)
    assert (found.first, found.last) == (0.0, 399.0)
    assert found.describe()[0] == "stream: 400 rows, 3 columns."


def test_sick_columns() -> None:
    sick = _healthy()
    sick["stuck"] = list(sick["smooth"])
    sick["stuck"][100:140] = [sick["smooth"][100]] * 40
    sick["constant"] = [7] * 400
    sick["twin"] = sick["skewed"]
    sick["late"] = [*sick["skewed"][1:300], *[-999] * 30, *sick["skewed"][:71]]
    sick["spike"] = [*sick["smooth"][:55], 5e6, *sick["smooth"][56:]]
    sick["hole"] = ["NA" if i % 4 else i % 7 for i in range(400)]
    found = doctor(_table(sick))
    assert [(s.column, s.line, s.length) for s in found.stuck] == [("stuck", 102, 40)]
    assert found.constant == ("constant",)
    assert found.duplicated == (("skewed", "twin"),)
    assert found.sentinels == {"late": {"-999": 30}} and found.hidden == ("late",)
    assert found.missing["late"] == 30 / 400 and found.missing["hole"] == 0.75
    assert [(o.column, o.count, o.worst, o.line) for o in found.outliers] == [("spike", 1, 5e6, 57)]
    for name in ("stuck", "constant", "twin", "late", "spike", "hole"):
        assert _about(found, name), name
    assert any("say --missing -999" in line for line in found.suggestions())
    assert json.loads(json.dumps(found.to_json()))["stuck"][0]["length"] == 40


def test_habits_are_not_failures() -> None:
    rng = np.random.default_rng(1)
    wet = rng.uniform(size=600) < 0.15
    rain = np.where(wet, rng.exponential(size=600).round(1), 0.0)
    steps = np.repeat(rng.integers(0, 100, 60), 10)
    found = doctor(_table({"t": range(600), "rain": rain.tolist(), "steps": steps.tolist()}))
    assert found.stuck == ()


def test_counters_and_directions() -> None:
    """Named with what to do; a walk, rain and noise of any range are neither."""
    rng, table = np.random.default_rng(4), _healthy()
    table["packets"] = (rng.poisson(3.0, 400).cumsum() % 500).tolist()
    table["wind"] = ((350.0 + 8.0 * rng.normal(size=400).cumsum()) % 360.0).round(1).tolist()
    table["noise"] = rng.uniform(0.0, 360.0, 400).round(1).tolist()
    found = doctor(_table(table))
    assert (found.counters, found.directions) == (("packets",), ("wind",))
    assert "learn from its changes" in _about(found, "packets")[0]
    assert "sine and cosine" in _about(found, "wind")[0]


def test_dry_weather_is_not_a_failure() -> None:
    rng = np.random.default_rng(2)
    rain = np.where(rng.uniform(size=700) < 0.3, rng.exponential(size=700).round(1) + 0.1, 0.0)
    rain[200:500] = 0.0
    smooth = rng.normal(size=700).cumsum().round(3)
    smooth[200:240] = 0.0
    found = doctor(_table({"t": range(700), "rain": rain.tolist(), "smooth": smooth.tolist()}))
    assert [run.column for run in found.stuck] == ["smooth"]


def test_no_advice_that_loses_the_data() -> None:
    words = [i if i % 6 else "calm" for i in range(300)]
    found = doctor(_table({"t": range(300), "wind": words, "a": [i % 7 for i in range(300)]}))
    (said,) = [line for line in found.suggestions() if "'calm'" in line]
    assert "skip" not in said and "--columns" in said and "'wind'" in said
    words[1:] = [i % 5 for i in range(299)]
    found = doctor(_table({"t": range(300), "wind": words, "a": [i % 7 for i in range(300)]}))
    assert any("--on-bad-row skip" in line for line in found.suggestions())
    early = [0] * 299 + [1]
    found = doctor(_table({"t": early, "a": [i % 7 + i / 100 for i in range(300)]}), time="t")
    assert "skip" not in " ".join(found.suggestions())


def test_plain_words() -> None:
    table = _healthy(300)
    table["fill"] = [*table["skewed"][:250], *["9.96921e36"] * 50]
    table["t"] = [*range(100), *range(150, 350)]
    said = " ".join(doctor(_table(table)).suggestions())
    assert "50 fill values stand for missing ones" in said
    for jargon in ("='", "=[", "sentinel", "robust", "on_bad_row", "None", "dt"):
        assert jargon not in said, jargon


def test_time() -> None:
    times = [*range(0, 50), *range(60, 80), 79, 40, *range(81, 90), *range(92, 100)]
    found = doctor(_table({"t": times, "a": [i * i % 17 for i in range(len(times))]}))
    assert (found.repeated, found.backward) == (1, 1)
    assert found.longest is not None
    # The second 79 and the 40 after it are left out.
    assert (found.gaps, found.longest.steps) == (3, 11.0)
    assert found.absent == 10 + 1 + 2
    said = " ".join(found.suggestions())
    assert "1 repeated and 1 backward times" in said and "line 72" in said


def test_bad_rows_are_counted() -> None:
    text = _table(_healthy(50)).getvalue() + "\n50,1\n51,x,2,3\n52,1,1,1\n"
    found = doctor(io.StringIO(text))
    assert found.bad == {"ragged": 1, "text": 1} and found.rows == 53
    assert any("line 52" in line for line in found.suggestions())


def test_dates_are_shown_as_dates() -> None:
    days = [*range(1, 10), *range(15, 25)]
    table = {"day": [f"2024-03-{d:02d}" for d in days], "a": [d % 5 for d in days]}
    lines = doctor(_table(table)).describe()
    assert "From 2024-03-01 00:00:00 to 2024-03-24 00:00:00." in lines
    assert "Regular, one row every 1 day." in lines
    assert any("6 steps after 2024-03-09 00:00:00 (line 10)" in line for line in lines)


def test_nothing_to_look_at() -> None:
    with pytest.raises(DataError, match="no rows"):
        doctor(io.StringIO("t,a\n"), columns=["a"])
