"""Bad input is one sentence on standard error and status 2, never a traceback."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli._runs import CHEAP, MODEL, call

GOOD = ["time,co,nox", *(f"2024-01-01 {h:02d}:00,{h + 0.5},{10 * h}" for h in range(24))]
BAD_ROWS = {
    "ragged": (",".join(["2024-01-02 00:00", "1"]), "line 26: got 2 cells, expected 3"),
    "text": ("2024-01-02 00:00,many,3", "line 26, column 'co': got 'many', expected a number"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a good file and the cheap learner."""
    (tmp_path / "cheap.py").write_text(CHEAP)
    (tmp_path / "good.csv").write_text("\n".join(GOOD) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wrong(capsys: Any, *words: Any, status: int = 2) -> str:
    """The sentence of a call that fails."""
    done = call(capsys, *words)
    lines = done.err.strip().splitlines()
    assert done.status == status, done.err
    assert lines[-1].startswith("error: ") and "Traceback" not in done.err
    assert sum(line.startswith("error: ") for line in lines) == 1
    return lines[-1]


SOURCES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda p: None, "source.csv: no such file or directory"),
    "empty": (lambda p: p.write_text(""), "got an empty file"),
    "blank": (lambda p: p.write_text("\n\n"), "got no rows"),
    "junk": (lambda p: p.write_bytes(bytes(range(256)) * 8), "got binary data"),
    "header": (lambda p: p.write_text("a,b\n"), "got no rows below the header"),
    "words": (lambda p: p.write_text("a,b\nx,y\nz,w\n"), "got no column of numbers"),
}


@pytest.mark.parametrize("kind", list(SOURCES))
def test_sources_that_cannot_be_read(kind: str, capsys: Any) -> None:
    make, message = SOURCES[kind]
    make(Path("source.csv"))
    assert message in wrong(capsys, "learn", "source.csv", "--out", "run")
    assert not Path("run").exists()
    assert message in wrong(capsys, "doctor", "source.csv")


def test_the_nearest_name_is_told(capsys: Any) -> None:
    """Of files, columns, inputs, options, models, cycles and commands."""
    assert "did you mean 'good.csv'?" in wrong(capsys, "learn", "god.csv")
    assert "did you mean 'nox'" in wrong(capsys, "learn", "good.csv", "--columns", "co,nux")
    assert "did you mean 'nox'" in wrong(capsys, "learn", "good.csv", "--input", "noxx")
    assert "--checkpoint-every" in wrong(capsys, "learn", "good.csv", "--checkpoint-evry", "5")
    assert "did you mean 'seasonal'?" in wrong(capsys, "learn", "good.csv", "--model", "saesonal")
    assert "error: MODEL: got 'saesonal'" in wrong(capsys, "simulate", "saesonal")
    assert "did you mean 'hour'?" in wrong(capsys, "learn", "good.csv", "--calendar", "huor")
    assert "did you mean 'skip'?" in wrong(capsys, "learn", "good.csv", "--on-bad-row", "skp")
    assert "did you mean 'jsonl'?" in wrong(capsys, "learn", "good.csv", "--format", "json")
    assert "'learn'" in wrong(capsys, "lern", "good.csv")


def test_wrong_values(capsys: Any) -> None:
    """Argument, got, expected."""
    assert "between 0 and 1" in wrong(capsys, "learn", "good.csv", "--level", "1")
    assert "--limit" in wrong(capsys, "learn", "good.csv", "--limit", "0")
    assert "expected one character" in wrong(capsys, "learn", "good.csv", "--delimiter", "ab")
    assert "no module" in wrong(capsys, "learn", "good.csv", "--model", "absent:make").lower()
    assert "'absent'" in wrong(capsys, "learn", "good.csv", "--model", "cheap:absent")
    assert "got str, expected" in wrong(capsys, "learn", "good.csv", "--model", "cheap:wrong")
    assert "good.csv: is a file" in wrong(capsys, "learn", "good.csv", "--out", "good.csv")
    no_time = wrong(capsys, "learn", "good.csv", "--time", "none", "--calendar", "hour")
    assert "has no calendar time" in no_time
    volatility = ("--model", "stochastic-volatility", "--input", "nox")
    assert "takes no inputs" in wrong(capsys, "learn", "good.csv", *volatility)


@pytest.mark.parametrize("command", ["resume", "forecast", "smooth", "report", "inspect"])
def test_directories_without_a_run(command: str, capsys: Any) -> None:
    assert "absent: no such directory" in wrong(capsys, command, "absent")
    Path("empty").mkdir()
    assert "empty: holds no run" in wrong(capsys, command, "empty")
    Path("empty/run.json").write_text("{")
    assert "empty/run.json: got no JSON" in wrong(capsys, command, "empty")
    Path("empty/run.json").write_text("{}")
    assert "got format None, expected 1" in wrong(capsys, command, "empty")


@pytest.mark.parametrize("kind", list(BAD_ROWS))
def test_bad_rows_in_mid_stream(kind: str, capsys: Any) -> None:
    """The run stops before the row, can go on past it, and counts what it met."""
    row, message = BAD_ROWS[kind]
    Path("bad.csv").write_text("\n".join([*GOOD, row, "2024-01-02 01:00,5,6", ""]))
    sentence = wrong(capsys, "learn", "bad.csv", "--out", "run", *MODEL, "--no-report")
    assert message.split(".*")[0] in sentence and message.split(".*")[-1] in sentence
    rows = Path("run/estimates.jsonl").read_text().count("\n")
    assert rows == len(GOOD) - 1
    done = call(capsys, "resume", "run", *MODEL, "--on-bad-row", "skip", "--no-report")
    assert done.status == 0 and "1 of 26 rows were left out" in done.err
    direct = ("--on-bad-row", "skip", "--no-report", *MODEL)
    assert call(capsys, "learn", "bad.csv", "--out", "direct", *direct).status == 0
    assert Path("run/estimates.jsonl").read_bytes() == Path("direct/estimates.jsonl").read_bytes()
    kept = ("--on-bad-row", "missing", *MODEL)
    told = call(capsys, "learn", "bad.csv", "--out", "-", *kept)
    assert told.status == 0 and told.out.count("\n") >= len(GOOD) + 1


def test_a_column_that_vanishes_or_appears(capsys: Any) -> None:
    """In a later part of a directory."""
    Path("parts").mkdir()
    Path("parts/1.csv").write_text("\n".join(GOOD) + "\n")
    Path("parts/2.csv").write_text("time,co\n2024-01-02 00:00,1\n")
    sentence = wrong(capsys, "learn", "parts", "--out", "run", *MODEL)
    assert "parts/2.csv" in sentence and "'nox'" in sentence
    Path("parts/2.csv").write_text("time,co,nox,new\n2024-01-02 00:00,1,2,3\n")
    assert "'new'" in wrong(capsys, "resume", "run", *MODEL)


def test_a_run_is_not_overwritten(capsys: Any) -> None:
    words = ("learn", "good.csv", "--out", "run", *MODEL, "--no-report", "--quiet")
    assert call(capsys, *words).status == 0
    sentence = wrong(capsys, *words)
    assert "already holds a run" in sentence and "`rmcvi resume run`" in sentence
    assert call(capsys, *words, "--force").status == 0


def test_damaged_runs(capsys: Any) -> None:
    """A cut output file, a damaged checkpoint and a source that is gone are told apart."""
    words = ("learn", "good.csv", "--out", "run", *MODEL, "--no-report", "--quiet")
    assert call(capsys, *words).status == 0
    Path("good.csv").rename("gone.csv")
    assert "good.csv: no such file" in wrong(capsys, "resume", "run", *MODEL)
    Path("gone.csv").rename("good.csv")
    estimates = Path("run/estimates.jsonl")
    estimates.write_bytes(estimates.read_bytes()[:100])
    assert "got 100 bytes, expected the" in wrong(capsys, "resume", "run", *MODEL)
    for name in ("checkpoint.rmcvi", "checkpoint-previous.rmcvi"):
        path = Path("run") / name
        path.write_bytes(path.read_bytes()[:-1])
    assert "truncated" in wrong(capsys, "inspect", "run", *MODEL)


def test_the_unexpected_is_one_sentence_too(capsys: Any, monkeypatch: Any) -> None:
    """Status 1; --debug shows where."""

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("rmcvi.app.cli.doctor.diagnose", broken)
    sentence = wrong(capsys, "doctor", "good.csv", status=1)
    assert "ZeroDivisionError: of all things" in sentence
    shown = call(capsys, "doctor", "good.csv", "--debug")
    assert shown.status == 1 and "Traceback" in shown.err
