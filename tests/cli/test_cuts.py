"""However the rows of a run are cut into chunks, its files are the same, to the byte."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from rmcvi.app.run.directory import CHECKPOINT, Directory
from rmcvi.app.run.engine import Engine
from tests.cli._runs import MODEL, Done, call, make_source

ROWS = 330


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream with gaps in its times, bad records, and one before and after a gap."""
    folder = tmp_path_factory.mktemp("cuts")
    make_source(folder, ROWS)
    lines = (folder / "stream.csv").read_text().splitlines()
    for i in (20, 21, 90, 149, 161, 250, ROWS):
        lines[i] += ",too,many"
    lines[200] = lines[200].replace(",", ",word", 1)
    del lines[150:160], lines[40:42]
    lines[5:5] = ["", ""]
    (folder / "stream.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def learned(capsys: Any, rule: str, out: Any, *words: Any) -> Done:
    """By the source's whole name, as a resumed run reads it."""
    given = ("learn", Path("stream.csv").resolve(), *MODEL, "--no-report", "--on-bad-row", rule)
    return call(capsys, *given, "--out", out, *words)


def everything(run: Path) -> dict[str, Any]:
    """All that a run leaves, but for times and names of its own."""
    files = {p.name: p.read_bytes() for p in run.glob("*.jsonl")}
    first, _, rest = (run / CHECKPOINT).read_bytes().partition(b"\n")
    size = int(first.split(b" ")[3])
    header = json.loads(rest[:size])
    extra = header["extra"]["live"]["extra"]
    del extra["seconds"], extra["id"]
    summary = json.loads((run / "summary.json").read_text())
    del summary["seconds"], summary["rows_per_second"]
    return files | {"header": header, "leaves": rest[size:-32], "summary": summary}


def cut(monkeypatch: pytest.MonkeyPatch, seed: int | None) -> list[int]:
    """Chunks of many sizes, or (None) of one row; returns those that come."""
    learn, room, sizes = Engine._learn, Engine._room, []

    def chosen(engine: Engine) -> int:
        return 1 if seed is None else min(room(engine), 1 + (engine.rows * 7919 + seed) % 31)

    def seen_to(engine: Engine) -> None:
        sizes.append(len(engine._taken))
        learn(engine)

    monkeypatch.setattr(Engine, "_room", chosen)
    monkeypatch.setattr(Engine, "_learn", seen_to)
    return sizes


@pytest.mark.parametrize("rule", ["skip", "missing"])
def test_cuts_of_a_run(rule: str, capsys: Any) -> None:
    """One by one, by chance, and as it is; bad records, filled gaps and counts included."""
    found = []
    for seed in (None, 1, 2, "usual"):
        with pytest.MonkeyPatch.context() as patch:
            sizes = [] if seed == "usual" else cut(patch, seed)
            done = learned(capsys, rule, f"{rule}-{seed}", "--force")
        assert done.status == 0, done.err
        assert seed is None or not sizes or max(sizes) > 20 > 5 > min(sizes)
        found.append(everything(Path(f"{rule}-{seed}")))
    assert found[0]["estimates.jsonl"].count(b"\n") > 300 < len(found[0]["rejected.jsonl"])
    for other in found[1:]:
        assert other == found[0]


@pytest.mark.parametrize("limit", [1, 49, 160, 163])
def test_a_limit_and_a_resume_leave_no_trace(limit: int, capsys: Any) -> None:
    """Also in the middle of a gap that is filled by missing rows."""
    whole, parts = Path("skip-usual"), Path(f"limit-{limit}")
    if not whole.exists():
        assert learned(capsys, "skip", whole).status == 0
    assert learned(capsys, "skip", parts, "--limit", limit).status == 0
    assert (parts / "estimates.jsonl").read_bytes().count(b"\n") == limit
    assert call(capsys, "resume", parts, *MODEL, "--no-report").status == 0
    assert everything(parts) == everything(whole)


def test_an_error_in_the_data_is_met_after_the_rows_before_it(capsys: Any) -> None:
    """All of them are learned, written and saved; what was bad is skipped by a resume."""
    done = learned(capsys, "error", "error")
    assert done.status != 0 and "line 23" in done.err
    _, plan = Directory.open(Path("error"))
    assert plan.id and Path("error/estimates.jsonl").read_text().count("\n") == 19
    again = call(capsys, "resume", "error", *MODEL, "--no-report", "--on-bad-row", "skip")
    assert again.status == 0
    names = ("estimates.jsonl", "parameters.jsonl", "rejected.jsonl")
    whole = everything(Path("skip-usual"))
    assert {n: everything(Path("error"))[n] for n in names} == {n: whole[n] for n in names}


def test_a_slow_pipe_waits_for_no_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """A row is learned and written before the next one has come; what is there goes together."""
    lines = make_source(tmp_path, 250).read_bytes().splitlines(keepends=True)
    source, sink = os.pipe()
    written, seen, sizes, learn = Path("pipe/estimates.jsonl"), [], [], Engine._learn

    def seen_to(engine: Engine) -> None:
        sizes.append(len(engine._taken))
        learn(engine)
        if sizes[-1] and 230 <= engine.rows <= 233:
            seen.append(written.read_bytes().count(b"\n"))
            rest = slice(engine.rows + 1, engine.rows + 2 if engine.rows < 233 else None)
            os.write(sink, b"".join(lines[rest]))
        if engine.rows == 233:
            os.close(sink)

    monkeypatch.setattr(Engine, "_learn", seen_to)
    os.write(sink, b"".join(lines[:231]))
    with open(source, "rb") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert call(capsys, "learn", "-", *MODEL, "--no-report", "--out", "pipe").status == 0
    assert seen == [230, 231, 232, 233]
    assert [n for n in sizes if n] == [50, 50, 50, 50, 30, 1, 1, 1, 17]
