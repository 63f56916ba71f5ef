"""`learn` from files, pipes and parts; rows as JSON lines and CSV; what it says."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmcvi.app.run.estimates import field_names
from tests.cli._runs import MODEL, call, make_source

ROWS = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stream."""
    folder = tmp_path_factory.mktemp("learn")
    make_source(folder, ROWS)
    return folder


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def rows_of(capsys: Any, *words: Any) -> list[dict[str, Any]]:
    """Rows on standard output as objects."""
    done = call(capsys, "learn", *words, *MODEL)
    assert done.status == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_rows_say_what_was_seen_and_told(capsys: Any) -> None:
    """Keys in a fixed order; predictions precede what they predict; gaps are filled."""
    rows = rows_of(capsys, "stream.csv")
    assert [row["row"] for row in rows] == list(range(1, ROWS + 1))
    assert all(list(row) == field_names(["co", "nox"], ()) for row in rows)
    assert rows[30]["time"] == "2024-01-02T06:00:00"
    assert rows[0]["co.mean"] is None and rows[0]["log_score"] is None
    last = None
    for row in rows[60:]:
        assert row["co.low"] < row["co.mean"] < row["co.high"]
        assert (row["co.filled"] is None) == (row["co"] is not None)
        if last is not None:
            assert abs(row["co.mean"] - last) < 0.25 * (row["co.high"] - row["co.low"])
        last = row["co"] if row["co"] is not None else last
    assert any(row["co"] is None for row in rows[60:])


def test_csv_has_the_same_cells(capsys: Any) -> None:
    rows = rows_of(capsys, "stream.csv")
    done = call(capsys, "learn", "stream.csv", "--format", "csv", *MODEL)
    table = list(csv.DictReader(io.StringIO(done.out)))
    assert len(table) == ROWS
    for row, line in zip(rows, table, strict=True):
        for name, cell in line.items():
            value = row[name]
            if name == "alarms":
                assert cell == "; ".join(value)
            elif name == "time":
                assert cell == value
            else:
                assert (cell == "") == (value is None) and (value is None or float(cell) == value)


def test_a_pipe_gives_what_a_file_gives(capsys: Any, monkeypatch: Any, tmp_path: Path) -> None:
    """Standard input, JSON lines, and a directory of parts: the same rows."""
    expected = rows_of(capsys, "stream.csv")
    text = Path("stream.csv").read_text()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert rows_of(capsys, "-") == expected
    lines = text.splitlines(keepends=True)
    for i, part in enumerate((lines[1:50], lines[50:90], lines[90:])):
        (tmp_path / f"part-{i}.csv").write_text("".join([lines[0], *part]))
    assert rows_of(capsys, tmp_path) == expected
    table = csv.DictReader(io.StringIO(text))
    objects = [{k: v or None for k, v in row.items()} for row in table]
    plain = [
        {k: v if k == "time" or v is None else float(v) for k, v in o.items()} for o in objects
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(o) + "\n" for o in plain))
    assert rows_of(capsys, tmp_path / "rows.jsonl") == expected


def test_what_was_assumed_is_said_and_kept(capsys: Any) -> None:
    """On standard error, in run.json; the summary has a table; --quiet says nothing."""
    words = ("stream.csv", "--out", "said", *MODEL, "--no-report")
    done = call(capsys, "learn", *words)
    assert done.status == 0 and done.out == ""
    assert "the usual step is 1 hour" in done.err and "all, in standard deviations" in done.err
    run = json.loads(Path("said/run.json").read_text())
    assert run["columns"] == ["co", "nox"] and run["step_seconds"] == 3600.0
    assert run["time_column"] == "time" and run["format"] == 2 and run["seed"] == 0
    assert all(sentence in done.err for sentence in run["assumed"])
    summary = json.loads(Path("said/summary.json").read_text())
    assert summary["rows"] == ROWS
    assert summary["overall"]["rmse"] == pytest.approx(
        summary["overall"]["persistence_rmse"], rel=0.1
    )
    assert not Path("said/report.html").exists()
    assert call(capsys, "learn", *words, "--force", "--quiet").err == ""


def test_scores_are_those_of_the_rows(capsys: Any) -> None:
    """Errors, coverage and log score, from the output itself."""
    words = ("stream.csv", "--out", "scored", *MODEL, "--no-report", "--quiet")
    assert call(capsys, "learn", *words).status == 0
    summary = json.loads(Path("scored/summary.json").read_text())
    rows = [json.loads(line) for line in Path("scored/estimates.jsonl").read_text().splitlines()]

    def column(name: str) -> np.ndarray:
        return np.array([np.nan if row[name] is None else row[name] for row in rows], float)

    total = number = 0.0
    for name in ("co", "nox"):
        y, mean = column(name), column(f"{name}.mean")
        error = (y - mean)[~np.isnan(y - mean)]
        told = summary["columns"][name]
        assert told["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-5)
        inside = (y >= column(f"{name}.low")) & (y <= column(f"{name}.high"))
        assert told["coverage"] == pytest.approx(inside.sum() / len(error))
        total, number = total + np.sum(error**2) / np.nanvar(y), number + len(error)
    assert summary["overall"]["rmse"] == pytest.approx(np.sqrt(total / number), rel=1e-5)
    score, seen = column("log_score"), np.isfinite([column("co"), column("nox")]).sum(0)
    per_value = np.nansum(score) / seen[~np.isnan(score)].sum()
    assert summary["overall"]["log_score"] == pytest.approx(per_value, rel=1e-5)


def test_limit_then_resume_is_the_whole(capsys: Any) -> None:
    """Also with calendar inputs, an input column, a seed and CSV on the side."""
    options = ("--columns", "co", "--input", "nox", "--calendar", "hour,week", "--seed", 3)
    words = ("learn", "stream.csv", *options, *MODEL, "--no-report", "--quiet")
    assert call(capsys, *words, "--out", "all").status == 0
    assert call(capsys, *words, "--out", "some", "--limit", 50).status == 0
    assert Path("some/estimates.jsonl").read_text().count("\n") == 50
    rest = call(capsys, "resume", "some", *MODEL, "--no-report", "--format", "csv")
    assert rest.status == 0 and "Going on after row 50." in rest.err
    assert rest.out.count("\n") == 1 + ROWS - 50
    assert Path("some/estimates.jsonl").read_bytes() == Path("all/estimates.jsonl").read_bytes()
    run = json.loads(Path("all/run.json").read_text())
    assert run["inputs"][0] == "nox" and "hour sin 1" in run["inputs"]


def test_names_that_the_output_needs(capsys: Any) -> None:
    """A column called `row` is renamed; one that would be there twice is refused."""
    lines = ["row,time_,elbo", *(f"{i % 7},{i % 5},{i % 3}" for i in range(20))]
    Path("names.csv").write_text("\n".join(lines))
    rows = rows_of(capsys, "names.csv", "--time", "none")
    assert {"row_", "time_", "elbo_"} <= set(rows[0]) and rows[0]["row"] == 1
    Path("names.csv").write_text("\n".join(["a,a.mean", "1,2", "2,3", "3,5"]))
    done = call(capsys, "learn", "names.csv", "--time", "none", *MODEL)
    assert done.status == 2 and "got 'a.mean' twice" in done.err


def test_help_has_examples(capsys: Any) -> None:
    first, second = ("learn", "resume", "forecast", "smooth"), ("report", "simulate", "inspect")
    commands = (*first, *second, "verify", "doctor", "demo")
    for command in commands:
        done = call(capsys, command, "--help")
        assert done.status == 0 and f"rmcvi {command}" in done.out and "Examples" in done.out
    assert call(capsys, "--version").out.startswith("rmcvi ")


def test_in_a_terminal_a_run_gets_a_directory(capsys: Any, monkeypatch: Any) -> None:
    """Named after the source; a line tells how it goes."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    done = call(capsys, "learn", "stream.csv", *MODEL, "--no-report")
    assert done.status == 0 and done.out == ""
    assert Path("stream.run/estimates.jsonl").read_text().count("\n") == ROWS
    last = done.err.split("\r")[-1].splitlines()[0]
    assert f"{ROWS} rows" in last and "% of persistence" in last


def test_new_rows_may_bring_their_header(capsys: Any, monkeypatch: Any) -> None:
    """`resume --continue` after a pipe; for a file it is refused."""
    lines = Path("stream.csv").read_bytes().splitlines(keepends=True)
    pieces = (lines[:61], [lines[0], *lines[61:]])
    words: tuple[Any, ...] = ("learn", "-", "--out", "fed", *MODEL)
    for piece in pieces:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"".join(piece))))
        assert call(capsys, *words, "--no-report", "--quiet").status == 0
        words = ("resume", "fed", "--continue", *MODEL)
    call(capsys, "learn", "stream.csv", "--out", "read", *MODEL, "--no-report", "--quiet")
    assert Path("fed/estimates.jsonl").read_bytes() == Path("read/estimates.jsonl").read_bytes()
    refused = call(capsys, "resume", "read", "--continue", *MODEL)
    assert refused.status == 2 and "reads stream.csv, expected standard input" in refused.err
