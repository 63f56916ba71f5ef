"""Numbers of the summary against a computation by hand."""

import json
import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rmcvi.app.report import write
from rmcvi.app.report.calibration import calibrate
from rmcvi.app.report.scores import grid, moving_mean, running_rmse, score
from rmcvi.app.report.scores import summarise as numbers
from rmcvi.app.report.write import NOTHING, number
from rmcvi.app.run.reading import read
from rmcvi.app.run.scores import RunningScores
from rmcvi.core.files import to_json
from rmcvi.core.past import last_value
from tests.report._runs import arrays, make


def small(directory: Path, columns: dict[str, list[Any]], rows: list[dict[str, Any]]) -> Path:
    """A run with a mean of 10, a band from 8 to 12 and the values of `columns`."""
    about = {"format": 1, "columns": list(columns), "level": 0.8, "source": "x"}
    (directory / "run.json").write_text(json.dumps(about))
    with (directory / "estimates.jsonl").open("w") as file:
        for i, more in enumerate(rows):
            told: dict[str, Any] = {"row": i + 1, "time": None, "alarms": [], "log_score": -1.0}
            for name, values in columns.items():
                told |= {name: values[i], f"{name}.mean": 10.0}
                told |= {f"{name}.low": 8.0, f"{name}.high": 12.0}
            file.write(json.dumps(told | more) + "\n")
    return directory


def summarise(directory: Path, seconds: float | None = None) -> dict[str, Any]:
    """The summary of a run, which is also written."""
    run = read(directory)
    told = numbers(run, score(run), seconds)
    (directory / "summary.json").write_text(to_json(told))
    return told


def test_summary_by_hand(tmp_path: Path) -> None:
    """Scored are rows 2, 4 and 5 of a, 3 and 4 of b: predicted, observed, and not the first."""
    columns = {"a": [9.0, 11.0, None, 13.0, 10.0], "b": [None, 10.0, 12.0, 9.0, None]}
    rows: list[dict[str, Any]] = [{"alarms": ["Ow."]}, {}, {}, {}, {"alarms": ["Oh."]}]
    rows[2:4] = [{"alarms": ["Ow.", "Ow."]}, {"alarms": ["Ow."]}]
    told = summarise(small(tmp_path, columns, rows), seconds=2.0)
    assert (told["rows"], told["values"], told["missing_share"]) == (5, 7, pytest.approx(0.3))
    a, b, both = told["columns"]["a"], told["columns"]["b"], told["overall"]
    assert a["rmse"] == pytest.approx(math.sqrt((1 + 9 + 0) / 3))
    assert a["persistence_rmse"] == pytest.approx(math.sqrt((4 + 4 + 9) / 3))
    assert a["coverage"] == pytest.approx(2 / 3)
    assert b["rmse"] == pytest.approx(math.sqrt((4 + 1) / 2))
    assert b["persistence_rmse"] == pytest.approx(math.sqrt((4 + 9) / 2))
    assert (a["values"], b["values"], b["coverage"]) == (4, 3, 1.0)
    spread_a, spread_b = np.var([9, 11, 13, 10]), np.var([10, 12, 9])
    expected = math.sqrt(((1 + 9 + 0) / spread_a + (4 + 1) / spread_b) / 5)
    assert both["rmse"] == pytest.approx(expected)
    assert both["coverage"] == pytest.approx(4 / 5)
    assert both["log_score"] == pytest.approx(-5 / 7)
    assert a["log_score"] is None
    assert told["alarms"] == {"Ow.": 1, "Oh.": 1}
    assert (told["seconds"], told["rows_per_second"]) == (2.0, 2.5)


def test_a_constant_column_counts_only_for_itself(tmp_path: Path) -> None:
    columns = {"a": [9.0, 11.0, 10.0, 12.0], "flat": [7.0] * 4}
    told = summarise(small(tmp_path, columns, [{}] * 4))
    assert told["columns"]["flat"]["rmse"] == pytest.approx(3.0)
    spread = math.sqrt(np.var([9, 11, 10, 12]))
    assert told["overall"]["rmse"] == pytest.approx(told["columns"]["a"]["rmse"] / spread)


def test_nothing_to_score_is_none_not_an_error(tmp_path: Path) -> None:
    told = summarise(make(tmp_path, missing="all", rows=30))
    assert set(told["overall"].values()) == {None}
    assert told["missing_share"] == 1.0


def test_a_stale_summary_is_replaced_a_fresh_one_kept(tmp_path: Path) -> None:
    make(tmp_path, rows=40)
    path = tmp_path / "summary.json"
    write(tmp_path)
    assert json.loads(path.read_text())["rows"] == 40
    summarise(tmp_path, seconds=7.0)
    kept = path.read_bytes(), os.stat(path).st_mtime_ns
    assert "7 s" in write(tmp_path).read_text(encoding="utf-8")
    assert (path.read_bytes(), os.stat(path).st_mtime_ns) == kept
    make(tmp_path, rows=41)
    write(tmp_path)
    assert json.loads(path.read_text())["rows"] == 41
    path.write_text("{")
    write(tmp_path)
    assert json.loads(path.read_text())["rows"] == 41


def test_last_value_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    value = np.where(rng.uniform(size=(50, 3)) < 0.4, np.nan, rng.normal(size=(50, 3)))
    found = last_value(value, np.full(3, np.nan))
    for k in range(3):
        last = np.nan
        for i in range(50):
            np.testing.assert_equal(found[i, k], last)
            last = last if np.isnan(value[i, k]) else value[i, k]


def digits(line: dict[str, float | None]) -> dict[str, str]:
    return {name: "" if value is None else f"{value:.10g}" for name, value in line.items()}


def test_row_by_row_is_all_at_once(tmp_path: Path) -> None:
    """The engine's way and the report's give the same summary; the engine's cuts, the same bits."""
    run = read(make(tmp_path, rows=300))
    run.mean[200:, 1] = np.nan
    alarms = [tuple(s for s, rows in run.alarms.items() if i in rows) for i in range(run.rows)]
    running, found = RunningScores(run.columns), []
    for cuts in (range(1, 300), (7, 8, 150, 201, 290), ()):
        running = RunningScores(run.columns)
        for i in np.split(np.arange(run.rows), cuts):
            rows = {name: getattr(run, name)[i] for name in ("mean", "low", "high", "log_score")}
            told = [alarms[k] for k in i]
            estimates = SimpleNamespace(**rows, alarms=told, recoveries=np.zeros(len(i)))
            running.add(run.value[i], estimates)
        found.append(repr(running.to_json()))
    assert found[0] == found[1] == found[2]
    one, all_rows = running.summary(1.0, {}), score(run).total.summary(1.0, {})
    assert one["columns"]["nox"]["lost_at_end"] > 90 and len(one["alarms"]) == 2
    assert one.pop("remarks") == all_rows.pop("remarks") and len(one["columns"]) == 3
    for name, column in one.pop("columns").items():
        assert digits(column) == digits(all_rows["columns"][name])
    assert digits(one.pop("overall")) == digits(all_rows["overall"])
    assert one == {name: all_rows[name] for name in one}


def test_curves_against_loops() -> None:
    rng = np.random.default_rng(1)
    values = np.where(rng.uniform(size=(90, 2)) < 0.2, np.nan, rng.normal(size=(90, 2)))
    at = grid(90)
    assert len(at) == 90 and at[-1] == 89
    rmse, mean = running_rmse(values**2, at), moving_mean(values, 7, at, 3)
    for i in at[2:]:
        assert rmse[i] == pytest.approx(math.sqrt(np.nanmean(values[: i + 1] ** 2)))
        part = values[max(i - 6, 0) : i + 1]
        few = np.isfinite(part).sum() < 3
        assert np.isnan(mean[i]) if few else mean[i] == pytest.approx(np.nanmean(part))
    assert len(grid(10_000)) == 800 and grid(10_000)[-1] == 9_999 and grid(0).size == 0


def test_calibration_of_a_calibrated_stream() -> None:
    """Standard normal errors under their own bands: shares within five standard errors."""
    run = arrays(20_000, 1)
    rng = np.random.default_rng(2)
    run.value[:] = run.mean + (run.high - run.mean) / 1.6448536 * rng.normal(size=run.mean.shape)
    found = calibrate(run, score(run))
    assert found is not None and found.values == 19_999
    bound = 5 * np.sqrt(found.levels * (1 - found.levels) / found.values)
    assert np.all(np.abs(found.shares - found.levels) < bound)
    assert np.all(np.abs(found.histogram - 0.1) < 5 * math.sqrt(0.09 / found.values))
    assert found.places.sum() == pytest.approx(1.0)
    own = found.shares[found.levels == 0.9][0]
    assert own == pytest.approx(np.nanmean(score(run).inside))
    assert own == pytest.approx(found.places[1:3].sum())


def test_too_little_is_not_calibrated(tmp_path: Path) -> None:
    run = read(make(tmp_path, rows=3))
    assert calibrate(run, score(run)) is None


@pytest.mark.parametrize(
    ("value", "digits", "told"),
    [
        (1593.4, 3, "1\u202f590"),
        (-123456.7, 4, "\u2212123\u202f500"),
        (999999.9, 4, "1e+06"),
        (2.5e6, 3, "2.5e+06"),
        (0.2869, 3, "0.287"),
        (-1.5e-7, 3, "\u22121.5e\u221207"),
        (1008, 4, "1\u202f008"),
        (math.nan, 4, NOTHING),
    ],
)
def test_numbers_below_a_million_have_no_exponent(value: float, digits: int, told: str):
    assert number(value, digits) == told
