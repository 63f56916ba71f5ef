"""A run directory is read as it was written, or refused in a sentence."""

import json
from pathlib import Path

import numpy as np
import pytest

from rmcvi.app.run.reading import read
from tests.report._runs import DRIFT, SENSOR, make


def test_everything_is_read(tmp_path: Path) -> None:
    run = read(make(tmp_path, rows=200))
    assert run.rows == 200 and run.columns == ["co", "nox", "temperature"]
    assert run.state_names == ["0", "1"] and list(run.parameters) == ["rho", "gamma"]
    assert run.time is not None and np.all(np.diff(run.time) == 3600.0) and not run.zoned
    assert run.alarms[DRIFT] == [80, 81, 82, 83, 84] and len(run.alarms[SENSOR]) == 14
    line = json.loads((tmp_path / "estimates.jsonl").read_text().splitlines()[120])
    for part in ("mean", "low", "high", "failure"):
        assert getattr(run, part)[120, 1] == line[f"nox.{part}"]
    assert np.isnan(run.value[61, 0]) and run.filled[61, 0] > 0
    assert np.array_equal(np.isnan(run.value), ~np.isnan(run.filled))
    assert run.parameters["rho"][0].tolist() == [50, 100, 150, 200]


def test_a_line_without_its_end_is_left_out(tmp_path: Path) -> None:
    path = make(tmp_path, rows=20) / "estimates.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    assert read(tmp_path).rows == 19


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = make(tmp_path, rows=20) / "estimates.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:6], "{oops", *lines[7:]]) + "\n")
    with pytest.raises(ValueError, match=r"estimates\.jsonl, line 7: got '{oops', expected a JSON"):
        read(tmp_path)
    path.write_text("\n".join([*lines[:6], '{"row": 7}', *lines[7:]]) + "\n")
    with pytest.raises(ValueError, match=r"line 7: got 1 fields, expected \d+"):
        read(tmp_path)
    path.write_text(lines[0] + "\n" + lines[1].replace('"row": 2', '"row": "two"') + "\n")
    with pytest.raises(ValueError, match="expected numbers or null"):
        read(tmp_path)


def test_no_run_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no run, expected run\.json"):
        read(tmp_path)
    (tmp_path / "run.json").write_text('{"format": 3}')
    with pytest.raises(ValueError, match="got format 3, expected 1 or 2; another version"):
        read(tmp_path)
    (tmp_path / "run.json").write_text('{"format": 2}')
    with pytest.raises(ValueError, match="got no columns"):
        read(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(ValueError, match="got no JSON"):
        read(tmp_path)


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    """Neither of the two files is there yet."""
    make(tmp_path, rows=5)
    for name in ("estimates.jsonl", "parameters.jsonl"):
        (tmp_path / name).unlink()
    assert read(tmp_path).rows == 0


@pytest.mark.parametrize("time", ["2020-01-01", None, 3])
def test_times_that_do_not_advance_are_not_an_axis(tmp_path: Path, time: str | int | None) -> None:
    path = make(tmp_path, rows=5) / "estimates.jsonl"
    lines = [json.loads(line) | {"time": time} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read(tmp_path).time is None


def test_zones_are_kept_as_utc(tmp_path: Path) -> None:
    path = make(tmp_path, rows=2) / "estimates.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for i, line in enumerate(lines):
        line["time"] = f"1970-01-01T0{i + 2}:00:00+02:00"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = read(tmp_path)
    assert run.zoned and run.time is not None and run.time.tolist() == [0.0, 3600.0]


def test_columns_that_look_like_states(tmp_path: Path) -> None:
    run = read(make(tmp_path, rows=9, columns=["state.7", "x"], inside=False))
    assert run.state_names == [] and np.isfinite(run.mean[1:]).all()
