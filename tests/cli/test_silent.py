"""Nothing is silent: lost predictions, lost comparisons, alarms; nobody listening is no harm."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rmcvi
from rmcvi.app.cli import commands
from rmcvi.app.report.scores import score, summarise
from rmcvi.app.run.plan import Plan
from rmcvi.app.run.progress import alarm_lines
from rmcvi.app.run.reading import read
from rmcvi.app.run.scores import RunningScores
from rmcvi.app.run.speech import Refusal, printable
from rmcvi.core.files import to_json
from rmcvi.core.remarks import remarks
from tests.cli._runs import MODEL, call, make_source

ROWS = 160
LEARN = ("learn", "stream.csv", *MODEL)
Change = Callable[[int, Any], dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("silent")
    make_source(folder, ROWS)
    return folder


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[Change], None]:
    """Let a learner tell something else of each row than it would."""
    learn_many, numbers = rmcvi.Live.learn_many, iter(range(1, 10**6))

    def install(change: Change) -> None:
        def changed(live: rmcvi.Live, *rows: Any) -> Any:
            told = learn_many(live, *rows)
            each = [dataclasses.replace(one, **change(next(numbers), one)) for one in told]
            bands = {k: np.array([getattr(v, k) for v in each]) for k in ("mean", "low", "high")}
            return dataclasses.replace(told, **bands, alarms=[v.alarms for v in each])

        monkeypatch.setattr(rmcvi.Live, "learn_many", changed)

    return install


def nothing(told: Any, column: int) -> np.ndarray:
    mean = told.mean.copy()
    mean[column] = np.nan
    return mean


def test_a_run_that_loses_its_predictions(told: Any, capsys: Any) -> None:
    """Status 3; counted in the summary, the table, the page and by `inspect`; JSON stays JSON."""
    told(lambda row, of: {"mean": nothing(of, 1)} if row > 120 else {})
    done = call(capsys, *LEARN, "--out", "lost")
    assert done.status == 3
    summary = json.loads(Path("lost/summary.json").read_text(), parse_constant=pytest.fail)
    values = sum(
        row["nox"] is not None
        for row in map(json.loads, Path("lost/estimates.jsonl").read_text().splitlines()[120:])
    )
    assert 30 < values == summary["lost_predictions"]
    column = summary["columns"]["nox"]
    assert column["lost_predictions"] == column["lost_at_end"] == values
    assert summary["columns"]["co"]["lost_predictions"] == 0
    of = summary["columns"]["nox"]["values"]
    sentence = f"nox: {values} of {of} values had no prediction, the last ones among them."
    assert sentence in summary["remarks"] and sentence in done.err and "not predicted" in done.err
    assert sentence in Path("lost/report.html").read_text()
    shown = call(capsys, "inspect", "lost", *MODEL).out
    assert sentence in shown
    told_of = call(capsys, "inspect", "lost", *MODEL, "--json").out
    assert json.loads(told_of, parse_constant=pytest.fail)["summary"]["lost_predictions"] == values
    run = read(Path("lost"))
    page = summarise(run, score(run))
    assert page["remarks"] == summary["remarks"]
    assert page["columns"]["nox"]["lost_at_end"] == values


def test_a_short_hole_is_counted_but_no_failure(told: Any, capsys: Any) -> None:
    told(lambda row, of: {"low": nothing(of, 0)} if row == 100 else {})
    done = call(capsys, *LEARN, "--out", "hole", "--no-report")
    assert done.status == 0 and "co: 1 of " in done.err


def test_losing_to_the_last_value_is_said(told: Any, capsys: Any) -> None:
    """In words, per column, everywhere."""
    told(lambda row, of: {"mean": of.mean + np.array([0.0, 9.0])})
    done = call(capsys, *LEARN, "--out", "worse")
    assert done.status == 0
    summary = json.loads(Path("worse/summary.json").read_text())
    error, rival = (summary["columns"]["nox"][k] for k in ("rmse", "persistence_rmse"))
    numbers = f"RMSE {error:.4g} against {rival:.4g}"
    sentence = f"nox: the last value would have predicted better ({numbers})."
    assert error > 3 * rival and sentence in summary["remarks"]
    page, shown = Path("worse/report.html").read_text(), call(capsys, "inspect", "worse", *MODEL)
    for text in (done.err, page, shown.out):
        assert sentence in text
    assert remarks({"a": {**summary["columns"]["nox"], "scored": 99}}) == []
    assert remarks({"a": {**summary["columns"]["nox"], "rmse": rival}}) == []


def test_alarms_are_counted_alike(told: Any, capsys: Any) -> None:
    """An alarm is an episode, on the command line and on the page; a short pause is none."""
    raised = {*range(10, 14), *range(30, 33), *range(70, 80), 104, 131}
    told(lambda row, of: {"alarms": ("Ow.",) if row in raised else ()})
    done = call(capsys, *LEARN, "--out", "alarms")
    assert "Alarm, 3 times: Ow." in done.err
    summary = json.loads(Path("alarms/summary.json").read_text())
    run = read(Path("alarms"))
    assert summary["alarms"] == summarise(run, score(run))["alarms"] == {"Ow.": 3}


def test_a_handful_of_lines_for_many_alarms() -> None:
    """The last alarm of a column, with the number of all; of five columns at most."""
    alarms = {f"a: jumped at row {i}.": 1 for i in range(20)} | {"b: stuck.": 2}
    lines = alarm_lines(alarms)
    assert lines == [
        "Alarm, the last of 20: a: jumped at row 19.",
        "Alarm, 2 times: b: stuck.",
        "All 22 alarms are in summary.json.",
    ]
    many = alarm_lines({f"c{i}: stuck.": 1 for i in range(9)})
    assert len(many) == 6 and many[4] == "Alarm, once: c8: stuck."
    assert alarm_lines({}) == [] and alarm_lines({"Ow.": 1}) == ["Alarm, once: Ow."]


def test_the_sensitivity_is_checked_and_kept(capsys: Any) -> None:
    for wrong in ("0", "-1", "nan", "inf"):
        done = call(capsys, *LEARN, "--out", "none", "--sensitivity", wrong)
        assert done.status == 2 and "--sensitivity: got" in done.err and not Path("none").exists()
    assert call(capsys, *LEARN, "--out", "keen", "--sensitivity", 30, "--no-report").status == 0
    about = json.loads(Path("keen/run.json").read_text())
    assert about["options"]["sensitivity"] == 30.0
    plan = Plan.from_json(about, "run.json").trusted(MODEL[1])
    assert plan.live().sensitivity == 30.0
    rows = [json.loads(line) for line in Path("keen/estimates.jsonl").read_text().splitlines()]
    assert all(0.0 <= row["co.anomaly"] <= 1.0 for row in rows)


def test_scores_of_another_kind_are_refused() -> None:
    plain = RunningScores(["a", "b"]).to_json()
    assert RunningScores(["a", "b"], plain).to_json().keys() == plain.keys()
    for name, wrong in (("last", [1.0]), ("sums", 3), ("origin", "x"), ("alarms", 3)):
        with pytest.raises(Refusal, match="its scores are not as"):
            RunningScores(["a", "b"], {**plain, name: wrong})


def test_plain_json() -> None:
    assert to_json({"a": [1.0, float("nan")], "b": (float("inf"), None)}) == (
        '{"a": [1.0, null], "b": [null, null]}'
    )


def test_nothing_steers_the_terminal(capsys: Any) -> None:
    """Escapes in a name are written out, wherever it is told; CSV holds no formula."""
    name = "\x1b]0;owned\x07=1+1"
    Path("names.csv").write_text(f'{name},"=1+1"\n' + "".join(f"{i % 7},{i}\n" for i in range(60)))
    words = ("learn", "names.csv", "--time", "none", *MODEL)
    outputs = [call(capsys, *words, "--out", "names", "--no-report", "--format", "csv")]
    for command in (("inspect", "names"), ("smooth", "names", "--format", "csv")):
        outputs.append(call(capsys, *command, *MODEL))
    outputs.append(call(capsys, "learn", "names.csv", "--columns", name + "x"))
    for done in outputs:
        assert "\x1b" not in done.out + done.err and "\x07" not in done.out + done.err
    header = outputs[0].out.splitlines()[0].split(",")
    assert "'=1+1.mean" in header and "=1+1.mean" not in header
    assert printable("T\u202f[°C] \u202e\ud800\n") == "T\u202f[°C] \\u202e\\ud800\n"


def test_a_model_that_exits(folder: Path, capsys: Any) -> None:
    (folder / "leaver.py").write_text("def make(columns, inputs): raise SystemExit(141)\n")
    done = call(capsys, "learn", "stream.csv", "--model", "leaver:make", "--out", "-")
    assert done.status == 1 and "the model's code asked to exit (141)" in done.err


def test_interrupted_twenty_times(told: Any, capsys: Any) -> None:
    """The second is not waited for; the others find nothing to interrupt."""

    def impatient(row: int, of: Any) -> dict[str, Any]:
        if row == 1:
            signal.raise_signal(signal.SIGINT)
        return {}

    told(impatient)
    first = call(capsys, *LEARN, "--out", "first", "--no-report")
    assert first.status == 130 and "`rmcvi resume first` goes on" in first.err

    def hectic(row: int, of: Any) -> dict[str, Any]:
        try:
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
        finally:
            for _ in range(18):
                signal.raise_signal(signal.SIGINT)
        return {}

    told(hectic)
    done = call(capsys, *LEARN, "--out", "hectic", "--no-report")
    assert done.status == 130 and "Traceback" not in done.err


def test_interrupted_while_it_is_imported(monkeypatch: Any, capsys: Any) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "_load", interrupted)
    assert call(capsys, *LEARN) == (130, "", "")


def test_a_jaxlib_that_computes_wrongly(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.10.2")
    done = call(capsys, *LEARN)
    assert done.status == 2 and done.err.startswith("error: jaxlib: got version 0.10.2")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["none", "rows", pytest.param("full", marks=pytest.mark.long)])
def test_streams_that_are_closed_or_full(folder: Path, name: str) -> None:
    """Learning is what counts; rows that cannot be written are one sentence. HOME may be unset."""
    learn = f"{sys.executable} -m rmcvi {' '.join(LEARN)} --no-report --limit 30"
    calls = {
        "full": (f"{learn} --out full 2>/dev/full", 0, ""),
        "none": (f"unset HOME; {learn} --out none <&- >&- 2>&-", 0, ""),
        "rows": (
            f"{learn} --out rows --format csv --quiet >/dev/full",
            1,
            "error: .*No space left",
        ),
    }
    as_here = os.environ | {"JAX_ENABLE_X64": "1"}  # whose programs are there
    command, status, expected = calls[name]
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=as_here, capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    assert re.match(expected, done.stderr) and done.stderr.count("\n") <= 1, done.stderr
    if status == 0:
        assert (folder / name / "estimates.jsonl").read_text().count("\n") == 30
        assert (folder / name / "summary.json").exists()


@pytest.mark.slow
def test_help_is_wrapped_once() -> None:
    """By the terminal: a paragraph has no line ends of its own."""
    for name in ("learn", "forecast", "doctor"):
        told = commands._load(name).help
        assert "\n\n" in told and "\n" not in told.replace("\n\n", "")


def test_help_needs_no_jax_and_no_polars() -> None:
    code = "import sys, rmcvi.app.cli as c; c.main(['--help'])"
    code += "; print({'jax', 'polars', 'numpy', 'pydantic', 'importlib.metadata'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "set()", done.stderr
    assert all(name in done.stdout for name in commands.COMMANDS)
