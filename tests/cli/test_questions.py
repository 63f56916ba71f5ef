"""Questions to a run of the default model, which is the demo; and to a model with a state."""

import csv
import io
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmcvi.app.cli import main
from rmcvi.app.cli.demo import FROZEN, NAMES
from tests.cli._runs import Done, call
from tests.report._page import column

LEARN = """
model = "linear-gaussian"
[settings]
noise = 0.3
[learning]
particles = 5
window = 3
bptt = 1
draws = 20
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo, as a newcomer runs it."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["demo"]) == 0
    return folder


@pytest.fixture
def ask(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    monkeypatch.chdir(folder)

    def go(*words: Any, status: int = 0) -> Done:
        done = call(capsys, *words)
        assert done.status == status, done.err
        return done

    return go


def estimates(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "estimates.jsonl").read_text().splitlines()]


def test_the_demo_finds_the_frozen_sensor(folder: Path) -> None:
    """It fails where it froze, the others never; the learner beats persistence."""
    rows = estimates(folder / "rmcvi-demo")
    assert len(rows) == 1008
    failed = np.array([[row[f"{name}.failure"] > 0.5 for name in NAMES] for row in rows])
    place = NAMES.index(FROZEN.column)
    inside = failed[FROZEN.start : FROZEN.start + FROZEN.length, place]
    assert inside[8:].mean() > 0.9
    failed[FROZEN.start - 1 : FROZEN.start + FROZEN.length + 10, place] = False
    assert not failed.any()
    summary = json.loads((folder / "rmcvi-demo" / "summary.json").read_text())
    assert summary["overall"]["rmse"] < 0.8 * summary["overall"]["persistence_rmse"]
    assert 0.86 < summary["overall"]["coverage"] < 0.96
    assert any(FROZEN.column in sentence for sentence in summary["alarms"])
    assert (folder / "rmcvi-demo" / "report.html").stat().st_size > 10_000
    run = json.loads((folder / "rmcvi-demo" / "run.json").read_text())
    assert run["units"][FROZEN.column] == "kW"
    assert run["learner"]["settings"]["long_period"] == 168


def test_parameters_are_told_every_fifty_rows(folder: Path) -> None:
    text = (folder / "rmcvi-demo" / "parameters.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["row"] for line in lines] == list(range(50, 1001, 50))
    assert np.isfinite(list(lines[-1].values())).all()


def test_resumed_it_is_the_demo(folder: Path, ask: Any) -> None:
    """The default model, stopped after 150 rows; parameters too are equal to the byte."""
    words = ("learn", "rmcvi-demo/stream.csv", "--out", "again", "--no-report", "--quiet")
    ask(*words, "--limit", 150)
    ask("resume", "again", "--no-report", "--quiet", "--limit", 250)
    for name, rows in (("estimates.jsonl", 250), ("parameters.jsonl", 5)):
        whole = (folder / "rmcvi-demo" / name).read_bytes().splitlines(keepends=True)
        assert (folder / "again" / name).read_bytes() == b"".join(whole[:rows])


def test_forecast_goes_on_in_time(folder: Path, ask: Any) -> None:
    """Hour after hour, at the level that is asked for; the same in each format.

    As far as the report looks ahead: that program is there.
    """
    words = ("forecast", "rmcvi-demo", "--horizon", 24, "--level", 0.99)
    rows = list(csv.DictReader(io.StringIO(ask(*words, "--format", "csv").out)))
    first = datetime(2024, 1, 1) + timedelta(hours=1008)
    times = [datetime.fromisoformat(row["time"]) for row in rows]
    assert times == [first + timedelta(hours=k) for k in range(24)]
    assert [int(row["row"]) for row in rows] == list(range(1009, 1033))
    objects = [json.loads(line) for line in ask(*words, "--format", "jsonl").out.splitlines()]
    assert [{k: str(v) for k, v in o.items()} for o in objects] == rows
    usual = estimates(folder / "rmcvi-demo")[-1]
    for name in NAMES:
        low, mean, high = (objects[0][f"{name}.{part}"] for part in ("low", "mean", "high"))
        assert low < mean < high
        assert high - low > 1.2 * (usual[f"{name}.high"] - usual[f"{name}.low"])
    assert all(name in ask(*words).out for name in NAMES)


def test_smooth_keeps_what_was_seen(folder: Path, ask: Any) -> None:
    done = ask("smooth", "rmcvi-demo", "--lag", 90, "--format", "jsonl")
    told = [json.loads(line) for line in done.out.splitlines()]
    seen = estimates(folder / "rmcvi-demo")[-91:]
    gaps = 0
    for row, line in zip(seen, told, strict=True):
        assert (row["row"], row["time"]) == (line["row"], line["time"])
        for name in NAMES:
            if row[name] is None:
                gaps += 1
                assert line[f"{name}.low"] < line[f"{name}.mean"] < line[f"{name}.high"]
            else:
                assert line[f"{name}.mean"] == pytest.approx(row[name], rel=1e-6)
    assert gaps > 5
    assert "expected at most 95" in ask("smooth", "rmcvi-demo", "--lag", 96, status=2).err
    assert "no hidden state" in ask("smooth", "rmcvi-demo", "--all", status=2).err


def test_inspect_and_report(folder: Path, ask: Any) -> None:
    shown = ask("inspect", "rmcvi-demo").out
    assert "flow [l/s].noise" in shown and "Seasons: 24 rows a day" in shown
    assert " (start and compiling apart)\n" in shown  # on one line with what is before it
    told = json.loads(ask("inspect", "rmcvi-demo", "--json").out)
    summary = json.loads((folder / "rmcvi-demo" / "summary.json").read_text())
    assert told["summary"]["overall"] == summary["overall"]
    assert told["summary"]["horizons"] == summary["horizons"]
    assert told["summary"]["horizons"][""][0]["values"] > 1000
    run = json.loads((folder / "rmcvi-demo" / "run.json").read_text())
    assert told["method"] == run["method"] and "online EM with exact expect" in told["method"]
    (folder / "rmcvi-demo" / "report.html").unlink()
    assert ask("report", "rmcvi-demo").out.strip() == "rmcvi-demo/report.html"
    page = (folder / "rmcvi-demo" / "report.html").read_text(encoding="utf-8")
    said = ask("forecast", "rmcvi-demo", "--horizon", 24, "--format", "jsonl").out.splitlines()
    ahead = [json.loads(line) for line in said]
    assert column(page, "row")[-24:].tolist() == [line["row"] for line in ahead]
    for k, name in enumerate(NAMES):
        for part in ("mean", "low", "high"):
            shown, expected = column(page, f"next_{part}.{k}"), [x[f"{name}.{part}"] for x in ahead]
            assert np.isnan(shown[:-24]).all()
            np.testing.assert_allclose(shown[-24:], expected, atol=1e-4 * np.ptp(expected))


def test_doctor_finds_the_frozen_sensor(ask: Any) -> None:
    """Status 1; a clean file is 0."""
    done = ask("doctor", "rmcvi-demo/stream.csv", status=1)
    assert "was the sensor stuck?" in " ".join(done.out.replace("│", " ").split())
    ask("simulate", "seasonal", "--rows", 100, "--out", "clean.csv")
    assert "Nothing is wrong" in ask("doctor", "clean.csv").out
    assert json.loads(ask("doctor", "clean.csv", "--json").out)["rows"] == 100


@pytest.mark.slow
def test_a_model_with_a_hidden_state(folder: Path, ask: Any) -> None:
    """From TOML: states, ELBO and parameters are told; inputs of a forecast are asked for."""
    (folder / "my.toml").write_text(LEARN)
    ask("simulate", "seasonal", "--rows", 140, "--columns", 2, "--missing", 0.1, "--out", "s.csv")
    words = ("--columns", "y1", "--input", "y2", "--calendar", "hour", "--quiet", "--no-report")
    ask("learn", "s.csv", "--model", "my.toml", "--out", "state", *words)
    rows = estimates(folder / "state")
    assert rows[-1]["state.0.std"] > 0 and rows[-1]["elbo"] is not None and rows[-1]["ess"] > 1
    line = (folder / "state" / "parameters.jsonl").read_text().splitlines()[-1]
    assert json.loads(line)["row"] == 100 and json.loads(line)["transition[0,0]"] > 0
    refused = ask("forecast", "state", "--horizon", 3, status=2).err
    assert "--inputs-file: got none, expected a file with the next 3 rows of y2" in refused
    (folder / "next.csv").write_text("y2\n30\n31\n32\n")
    told = ask("forecast", "state", "--horizon", 3, "--inputs-file", "next.csv", "--format", "csv")
    assert told.out.count("\n") == 4
    short = ask("forecast", "state", "--horizon", 4, "--inputs-file", "next.csv", status=2).err
    assert "next.csv: got 3 rows, expected 4" in short
    recent = ask("smooth", "state", "--format", "csv").out
    assert "state.0.mean" in recent.splitlines()[0]
    every = ask("smooth", "state", "--all", "--format", "jsonl").out.splitlines()
    assert len(every) == 140
    last = json.loads(every[-1])
    assert last["state.0.mean"] == pytest.approx(rows[-1]["state.0.mean"], abs=0.5)
