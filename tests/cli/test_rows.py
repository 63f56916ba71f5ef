"""The row of a run is declared once: what derives from the declaration; the same rows as Arrow."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rmcvi
from rmcvi.app.run import plan
from rmcvi.app.run.directory import Directory
from rmcvi.app.run.estimates import FIELDS, FIRST_FIELDS, Field, field_names
from rmcvi.app.run.output import Lines
from rmcvi.app.run.reading import read
from tests.cli._runs import MODEL, call, make_source, outputs

ROWS = 90


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    make_source(folder, ROWS)
    return folder


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.fixture
def whole(tmp_path: Path, capsys: Any) -> Path:
    """A run that a test may spoil."""
    done = call(capsys, "learn", "stream.csv", *MODEL, "--out", tmp_path / "run", "--no-report")
    assert done.status == 0
    return tmp_path / "run"


@pytest.fixture(scope="module")
def estimate() -> Any:
    """What a learner returns for a row of two columns, and one hidden state."""
    live = rmcvi.Live(["a", "b"], learner=rmcvi.baselines.Persistence(2, 0))
    returned = live.learn_many(np.array([[1.5, np.nan]]))
    state = np.ones((1, 1))
    return replace(returned, mean=np.array([[0.25, 4.0]]), state_mean=state, state_std=state)


def test_a_new_field_is_one_entry(estimate: Any) -> None:
    """Written under its name, in its place, in both formats."""
    more = (*FIELDS, Field("recoveries", attribute="recoveries"))
    more = (*more, Field("{column}.again", attribute="mean"))
    written = Lines(["a", "b"], "jsonl", more).block(7, [None], np.array([[1.5, np.nan]]), estimate)
    line = json.loads(written)
    assert (line["recoveries"], line["a.again"], line["b.again"], line["b"]) == (0, 0.25, 4, None)
    names = list(line)
    assert names.index("recoveries") == names.index("alarms") + 1
    assert names.index("a.again") == names.index("a.anomaly") + 1
    assert names[-2:] == ["state.0.mean", "state.0.std"]
    assert [name for name in names if name in field_names(["a", "b"], range(1))] == field_names(
        ["a", "b"], range(1)
    )
    table = Lines(["a", "b"], "csv", more)
    cells = table.block(7, [None], np.array([[1.5, np.nan]]), estimate).strip().split(",")
    assert dict(zip(table.header(1).strip().split(","), cells, strict=True))["b.again"] == "4"


def test_run_json_names_the_fields(whole: Path) -> None:
    about = json.loads((whole / "run.json").read_text())
    assert about["format"] == 2 and len(about["fields"]) == len(FIELDS)
    assert about["fields"][0] == {
        "name": "row",
        "kind": "integer",
        "per": "row",
        "nullable": False,
    }
    line = json.loads((whole / "estimates.jsonl").read_text().splitlines()[0])
    names = [field["name"] for field in about["fields"] if field["per"] == "column"]
    expected = [name.replace("{column}", c) for c in about["columns"] for name in names]
    assert list(line)[6:] == expected


def test_a_run_of_format_1_is_read_and_resumed(
    whole: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As 0.1 wrote it: no fields in `run.json`, and in a line those of then; so it goes on."""
    with monkeypatch.context() as then:
        then.setattr(plan, "FIELDS", FIRST_FIELDS)
        done = call(capsys, "learn", "stream.csv", *MODEL, "--out", "old", "--limit", 40, "--force")
    assert done.status == 0
    path = Path("old/run.json")
    about = json.loads(path.read_text())
    del about["fields"]
    path.write_text(json.dumps(about | {"format": 1}))
    assert read(Path("old")).rows == 40
    for words in (("report", "old"), ("inspect", "old", *MODEL), ("verify", "old")):
        assert call(capsys, *words).status == 0
    assert call(capsys, "resume", "old", *MODEL, "--limit", ROWS).status == 0
    old, new = (
        [json.loads(line) for line in (run / "estimates.jsonl").read_text().splitlines()]
        for run in (Path("old"), whole)
    )
    later = {f.name.replace("{column}", c) for f in FIELDS if f.since > 1 for c in about["columns"]}
    assert len(later) == len(about["columns"])
    assert old == [{k: v for k, v in line.items() if k not in later} for line in new]


def test_a_field_of_the_future_is_refused(whole: Path, capsys: Any) -> None:
    path = whole / "run.json"
    about = json.loads(path.read_text())
    about["fields"].append({"name": "{column}.mood"})
    path.write_text(json.dumps(about))
    done = call(capsys, "resume", whole, *MODEL)
    assert done.status == 2 and "'{column}.mood', which this version of rmcvi does not" in done.err
    path.write_text(json.dumps(about | {"fields": [3]}))
    assert "wrong fields" in call(capsys, "resume", whole, *MODEL).err


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"alarms": []', '"alarms": 12', "got 12 for 'alarms', expected a list of sentences"),
        ('"co.mean": ', '"co.bean": ', "got other fields than run.json names (look at 'co.bean')"),
        ('"row": 3', '"row": 4', "got row 4, expected 3"),
    ],
)
def test_verify_knows_the_fields(
    whole: Path, capsys: Any, old: str, new: str, sentence: str
) -> None:
    """A line of the same length, so that no count of bytes gives it away."""
    path = whole / "estimates.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    assert old in lines[2]
    lines[2] = lines[2].replace(old, new)
    path.write_text("".join(lines))
    done = call(capsys, "verify", whole)
    assert done.status == 1 and f"line 3: {sentence}." in done.out


def test_the_plan_keeps_what_it_was_begun_with(whole: Path) -> None:
    _, kept = Directory.open(whole)
    fewer = replace(kept, fields=kept.fields[:-2])
    assert [f.name for f in fewer.row_fields] == [f.name for f in FIELDS[:-2]]


@pytest.mark.parametrize("name", ["stream.arrow", "stream.feather", "stream.arrows"])
def test_the_same_rows_as_arrow(whole: Path, capsys: Any, name: str) -> None:
    """Identical estimates, to the byte, also by a run that was stopped and resumed."""
    frame = pl.read_csv("stream.csv", try_parse_dates=True)
    if name.endswith("arrows"):
        frame.write_ipc_stream(name)
    else:
        frame.write_ipc(name, compression="lz4" if name.endswith("feather") else "uncompressed")
    out = Path(name.replace(".", "-"))
    assert call(capsys, "learn", name, *MODEL, "--out", out, "--limit", 33).status == 0
    assert outputs(out) != outputs(whole)
    assert call(capsys, "resume", out, *MODEL, "--limit", ROWS).status == 0
    assert outputs(out) == outputs(whole)
    done = call(capsys, "verify", out)
    assert (done.status, done.out) == (0, "OK\n")
    assert "An Arrow table." in (out / "run.json").read_text()
