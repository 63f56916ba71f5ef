"""Safe to open, safe to resume: no code of strangers, no file that is not ours, no lost rows."""

import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from rmcvi.app.cli import main
from rmcvi.app.run.directory import OURS, Directory
from rmcvi.app.run.engine import Engine
from tests.cli._runs import MODEL, Done, call, make_source, outputs

ROWS = 120
LEARN = ("learn", "stream.csv", *MODEL, "--no-report", "--quiet", "--checkpoint-every", 50)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream, a run of it, and a second run of the same."""
    folder = tmp_path_factory.mktemp("safe")
    make_source(folder, ROWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("run", "other"):
            assert main([str(word) for word in (*LEARN, "--out", name)]) == 0
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, for each test."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(directory: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in directory.iterdir() if p.is_file()}


def refused(capsys: Any, *words: Any) -> str:
    """The one sentence of a refusal, which changes nothing here or in the run."""
    before = contents(Path()), contents(Path("run"))
    done = call(capsys, *words)
    assert done.status == 2, done.err
    assert done.err.startswith("error: ") and done.err.count("\n") == 1, done.err
    assert (contents(Path()), contents(Path("run"))) == before
    return done.err


def resume(capsys: Any, *words: Any) -> Done:
    return call(capsys, "resume", "run", *MODEL, "--no-report", *words)


@pytest.mark.parametrize("command", ["inspect", "forecast", "smooth", "resume"])
def test_a_run_imports_nothing_unasked(command: str, folder: Path, capsys: Any) -> None:
    """The module that run.json names is imported only if the person names it, too."""
    (folder / "evil.py").write_text("open('owned', 'w')\ndef make(columns, inputs): ...\n")
    plan = json.loads((folder / "run/run.json").read_text())
    plan["options"]["model"] = {"model": "evil:make", "path": str(folder)}
    (folder / "run/run.json").write_text(json.dumps(plan))
    assert "--model evil:make" in refused(capsys, command, "run")
    said = refused(capsys, command, "run", *MODEL)
    assert "got 'cheap:make', but this run was learned by 'evil:make'" in said
    assert not (folder / "owned").exists() and "evil" not in sys.modules


def test_the_current_directory_is_searched_last_and_only_for_the_model(
    folder: Path, capsys: Any
) -> None:
    (folder / "colorsys.py").write_text("open('owned', 'w')\n")
    (folder / "mine.py").write_text("import colorsys\nfrom cheap import make\n")
    before = list(sys.path)
    words = ("learn", "stream.csv", "--model", "mine:make", "--limit", 3, "--quiet")
    assert call(capsys, *words).status == 0
    assert sys.path == before and not (folder / "owned").exists()


def test_files_of_others_are_left_alone(folder: Path, capsys: Any) -> None:
    """`--out .` beside a report of the user's own; a run.json that is not ours, even by force."""
    for name in OURS:
        there = folder / name
        there.write_text('{"mine": 1}')
        assert f"holds {name}" in refused(capsys, *LEARN, "--out", ".", "--force")
        there.unlink()
    assert "is not the demo's" in refused(capsys, "demo", "--out", ".")
    (folder / "notes.txt").write_text("mine")
    assert call(capsys, *LEARN, "--out", ".").status == 0
    assert (folder / "notes.txt").read_text() == "mine"


def test_two_checkpoints_are_kept(folder: Path, capsys: Any) -> None:
    """The newest lost or damaged, the one before takes its place; the output is the same."""
    whole, newest = outputs(folder / "run"), folder / "run/checkpoint.rmcvi"
    for damaged in (None, newest.read_bytes()[:-7], b"\x00" * 100):
        newest.unlink()
        if damaged is not None:
            newest.write_bytes(damaged)
        done = resume(capsys)
        assert done.status == 0 and "going back to row" in done.err, done.err
        assert outputs(folder / "run") == whole
        assert "going back" not in resume(capsys).err


def test_a_checkpoint_of_another_run_is_refused(folder: Path, capsys: Any) -> None:
    for name in ("checkpoint.rmcvi", "checkpoint-previous.rmcvi"):
        shutil.copy(folder / "other" / name, folder / "run" / name)
    said = refused(capsys, "resume", "run", *MODEL, "--quiet")
    assert "checkpoint.rmcvi: belongs to another run than run.json" in said
    assert "belongs to another run" in refused(capsys, "inspect", "run", *MODEL)


def test_lost_checkpoints_empty_nothing(folder: Path, capsys: Any) -> None:
    for name in ("checkpoint.rmcvi", "checkpoint-previous.rmcvi"):
        (folder / "run" / name).unlink()
    assert "--force` starts anew" in refused(capsys, "resume", "run", *MODEL)


BAD = (3, 40, 41, 100)


@pytest.fixture
def bad(folder: Path, capsys: Any) -> Path:
    """A stream with bad rows, one of them the last and one after a gap; a run that kept them."""
    lines = (folder / "stream.csv").read_text().splitlines()
    for number in (*BAD, ROWS):
        lines[number] = f"{lines[number].split(',')[0]},many,3"
    del lines[90:100]
    (folder / "bad.csv").write_text("\n".join(lines) + "\n")
    words = ("learn", "bad.csv", *LEARN[2:], "--on-bad-row", "missing", "--out", "bad")
    assert call(capsys, *words).status == 0
    return folder


def test_bad_records_are_kept(bad: Path, capsys: Any) -> None:
    """In rejected.jsonl, with place, reason and text; resumed anywhere, to the byte."""
    whole = (bad / "bad/rejected.jsonl").read_bytes()
    told = [json.loads(line) for line in whole.splitlines()]
    assert [row["place"] for row in told] == [f"bad.csv, line {n}" for n in (4, 41, 42, 91, 111)]
    assert "expected a number" in told[0]["reason"] and "many" in told[0]["text"]
    assert json.loads((bad / "bad/summary.json").read_text())["rejected"] == 5
    words = ("learn", "bad.csv", *LEARN[2:], "--on-bad-row", "missing", "--out", "cut")
    assert call(capsys, *words, "--limit", 3).status == 0
    for limit in (39, 40, 92, 97, 100, 101, 200):
        resumed = call(capsys, "resume", "cut", *MODEL, "--no-report", "--limit", limit)
        assert resumed.status == 0, resumed.err
    assert (bad / "cut/rejected.jsonl").read_bytes() == whole
    assert outputs(bad / "cut") == outputs(bad / "bad")


def test_one_short_file_leaves_the_others_uncut(bad: Path, capsys: Any) -> None:
    shutil.rmtree("run")
    shutil.copytree("bad", "run")
    (bad / "run/rejected.jsonl").write_bytes(b"")
    with (bad / "run/estimates.jsonl").open("ab") as file:
        file.write(b'{"row": 121')
    said = refused(capsys, "resume", "run", *MODEL, "--quiet")
    assert "rejected.jsonl: got 0 bytes" in said


def test_a_pipe_that_is_another_one_is_refused(folder: Path, monkeypatch: Any, capsys: Any) -> None:
    """Shorter than what was read, or new rows without --continue: no row is thrown away."""
    lines = (folder / "stream.csv").read_bytes().splitlines(keepends=True)

    def feed(rows: list[bytes], *words: Any) -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"".join(rows))))
        return call(capsys, *words, *MODEL, "--no-report", "--quiet")

    assert feed(lines[:61], "learn", "-", "--out", "pipe").status == 0
    before = contents(folder / "pipe")["estimates.jsonl"]
    for rows in (lines[:31], [lines[0], *lines[61:]], [lines[0], *lines[40:]]):
        done = feed(rows, "resume", "pipe")
        assert done.status == 2 and done.err.count("\n") == 1
        assert "or new rows with --continue" in done.err
        assert contents(folder / "pipe")["estimates.jsonl"] == before
    assert feed(lines, "resume", "pipe").status == 0
    assert outputs(folder / "pipe") == outputs(folder / "run")


def test_runs_of_the_first_release_go_on(folder: Path, capsys: Any) -> None:
    """They have no identity and one checkpoint."""
    words = (*LEARN, "--out", "old", "--limit", 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rmcvi.app.run.plan.uuid.UUID.hex", property(lambda _: ""))
        assert call(capsys, *words).status == 0
    plan = json.loads((folder / "old/run.json").read_text())
    assert plan.pop("id") == ""
    (folder / "old/run.json").write_text(json.dumps(plan))
    (folder / "old/checkpoint-previous.rmcvi").unlink()
    (folder / "old/rejected.jsonl").unlink()
    assert call(capsys, "resume", "old", *MODEL, "--no-report").status == 0
    assert outputs(folder / "old") == outputs(folder / "run")


@pytest.mark.parametrize("name", ["estimates.jsonl", "checkpoint.rmcvi"])
def test_links_are_not_followed(name: str, folder: Path, capsys: Any) -> None:
    """A link in a run directory would let its owner write where its user may."""
    (folder / "precious").write_bytes((folder / "run" / name).read_bytes())
    (folder / "run" / name).unlink()
    (folder / "run" / name).symlink_to(folder / "precious")
    assert "is a link" in refused(capsys, "resume", "run", *MODEL, "--quiet")


def test_the_summary_replaces_a_link(folder: Path, capsys: Any) -> None:
    (folder / "precious").write_text("mine")
    (folder / "run/summary.json").unlink()
    (folder / "run/summary.json").symlink_to(folder / "precious")
    assert resume(capsys).status == 0
    assert (folder / "precious").read_text() == "mine"
    assert json.loads((folder / "run/summary.json").read_text())["rows"] == ROWS


def test_nothing_that_is_deleted_opens_the_lock(folder: Path, capsys: Any) -> None:
    room, _ = Directory.open(folder / "run")
    room.lock()
    (folder / "run/.lock").unlink(missing_ok=True)
    assert "another process is learning here" in refused(capsys, "resume", "run", *MODEL, "--quiet")
    room.unlock()
    assert resume(capsys).status == 0


def test_litter_is_swept(folder: Path, capsys: Any) -> None:
    """What a killed process left behind, by the next one; the user's own files stay."""
    litter = [".report.html.4711.part", ".run.json.0123abcd.tmp", ".run.json.tmp"]
    mine = [".summary.json.mine", "report.html.tmp"]
    for name in (*litter, *mine):
        (folder / "run" / name).touch()
        os.utime(folder / "run" / name, (0, 0))
    assert resume(capsys).status == 0
    there = {path.name for path in (folder / "run").iterdir()}
    assert there >= set(mine) and not there & set(litter)


@pytest.mark.slow
def test_a_module_in_the_data_directory_is_not_imported(folder: Path) -> None:
    """`python -m rmcvi` looks for no module beside the data."""
    for name in ("numpy", "typer", "jax", "colorsys"):
        (folder / f"{name}.py").write_text("open('owned', 'w')\n")
    command = [sys.executable, "-m", "rmcvi", "report", "run"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (folder / "owned").exists()


def test_verify(bad: Path, capsys: Any) -> None:
    """A whole run is OK, also while its last rows are not accounted for; each trouble is told."""
    for name in ("run", "bad"):
        assert call(capsys, "verify", name) == (0, "OK\n", "")
    run, kept = bad / "run", contents(bad / "run")
    estimates = kept["estimates.jsonl"]
    troubles: list[tuple[str, bytes | None, str]] = [
        ("estimates.jsonl", estimates + b'{"row": 121', "OK"),
        ("estimates.jsonl", estimates[:-9], "bytes, expected the"),
        ("estimates.jsonl", estimates.replace(b"null", b" NaN", 1), "line 1: got NaN"),
        ("estimates.jsonl", estimates.replace(b'"row": 7,', b'"row": 8,'), "expected 7"),
        ("estimates.jsonl", re.sub(rb": \d(\d*\.)", rb": 9\1", estimates, count=1), "was changed"),
        ("estimates.jsonl", None, "got 0 bytes"),
        ("run.json", kept["run.json"].replace(b'"level": 0.9', b'"level": NaN'), "got NaN"),
        ("summary.json", b"{", "summary.json: "),
        ("checkpoint.rmcvi", kept["checkpoint.rmcvi"][:-1], "truncated"),
        ("checkpoint-previous.rmcvi", b"", "not an rmcvi checkpoint"),
        ("checkpoint.rmcvi", (bad / "other/checkpoint.rmcvi").read_bytes(), "another run"),
        ("checkpoint.rmcvi", None, "checkpoint.rmcvi: is missing"),
    ]
    for name, content, sentence in troubles:
        (run / name).unlink() if content is None else (run / name).write_bytes(content)
        before = contents(run)
        done = call(capsys, "verify", "run")
        assert sentence in done.out and done.status == (sentence != "OK"), (name, done)
        assert contents(run) == before and "Traceback" not in done.err
        (run / name).write_bytes(kept[name])


@pytest.mark.parametrize(("pending", "saves"), [(3, 1), (0, 0)])
def test_a_checkpoint_that_was_too_dear_is_saved_while_waiting(pending: int, saves: int) -> None:
    """No more rows may come: whoever waits for the checkpoint would wait for ever."""
    engine, saved = object.__new__(Engine), Mock()
    engine.plan = Mock(options={"checkpoint_every": 500})
    engine.directory, engine.save = Mock(), saved
    engine._taken, engine._pending, engine._saved, engine._cost = [], pending, -math.inf, 1e9
    engine._learn()
    assert saved.call_count == saves
