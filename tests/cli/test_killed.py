"""Killed at any moment and resumed, the output is that of an uninterrupted run, to the byte."""

import io
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmcvi.app.cli import main
from rmcvi.app.run.directory import Directory
from tests.cli._runs import MODEL, ROWS, Done, call, make_source, outputs, start

pytestmark = pytest.mark.slow
OFTEN = ("--checkpoint-every", 25, "--no-report")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stream, and an uninterrupted run of it."""
    folder = tmp_path_factory.mktemp("killed")
    make_source(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = ("learn", "stream.csv", "--out", "whole", *MODEL, *OFTEN, "--quiet")
        assert main([str(word) for word in words]) == 0
    return folder


@pytest.fixture(scope="module")
def whole(folder: Path) -> tuple[bytes, bytes]:
    """What an uninterrupted run writes."""
    return outputs(folder / "whole")


@pytest.fixture
def resumed(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """Resume a run here, and return its files."""
    monkeypatch.chdir(folder)

    def go(name: str, *words: Any) -> tuple[bytes, bytes]:
        done: Done = call(capsys, "resume", name, "--no-report", *MODEL, *words)
        assert done.status == 0, done.err
        return outputs(folder / name)

    return go


def grown(process: subprocess.Popen[bytes], path: Path, size: int) -> None:
    """Wait until a file has grown, or its writer has ended."""
    while process.poll() is None and (not path.exists() or path.stat().st_size < size):
        time.sleep(0.002)


def lines_end(whole: tuple[bytes, bytes], count: int) -> int:
    """Bytes of the first rows."""
    return sum(map(len, whole[0].splitlines(keepends=True)[:count]))


def test_killed_several_times(folder: Path, whole: tuple[bytes, bytes], resumed: Any) -> None:
    """SIGKILL leaves no time for anything; where it strikes differs from run to run."""
    total = len(whole[0])
    moments = np.sort(np.random.default_rng().uniform(0.05, 0.7, 2)) * total
    words: tuple[Any, ...] = ("learn", "stream.csv", "--out", "killed", *MODEL, *OFTEN)
    struck = []
    for moment in moments:
        with start(folder, *words) as process:
            grown(process, folder / "killed" / "estimates.jsonl", int(moment))
            process.kill()
        struck.append(process.returncode)
        words = ("resume", "killed", "--no-report", *MODEL)
    assert struck == [-signal.SIGKILL] * 2
    assert len(outputs(folder / "killed")[0]) < total
    assert resumed("killed") == whole


def test_killed_before_the_first_rows_were_saved(
    folder: Path, whole: tuple[bytes, bytes], resumed: Any
) -> None:
    """The directory is there, the checkpoint is not, or is that of no row: the run starts again."""
    (folder / "early").mkdir()
    shutil.copy(folder / "whole" / "run.json", folder / "early")
    assert resumed("early") == whole


def test_terminated_while_waiting_for_rows(
    folder: Path, whole: tuple[bytes, bytes], resumed: Any
) -> None:
    """SIGTERM: the row is finished, the run saved; the status is 143."""
    lines = (folder / "stream.csv").read_text().splitlines(keepends=True)
    growing = folder / "growing.csv"
    growing.write_text("".join(lines[:151]))
    words = ("learn", "growing.csv", "--follow", "--out", "term", *MODEL, *OFTEN)
    with start(folder, *words) as process:
        grown(process, folder / "term" / "estimates.jsonl", lines_end(whole, 150))
        process.terminate()
        error = process.communicate()[1].decode()
    assert process.returncode == 128 + signal.SIGTERM, error
    assert "`rmcvi resume term` goes on" in error
    growing.write_text("".join(lines))
    assert resumed("term", "--no-follow") == whole


def test_interrupted_pipe(folder: Path, whole: tuple[bytes, bytes], resumed: Any) -> None:
    """SIGINT while standard input is silent: 130; then the same stream again, or the rest of it."""
    lines = (folder / "stream.csv").read_bytes().splitlines(keepends=True)
    words = ("learn", "-", "--out", "pipe", *MODEL, *OFTEN)
    with start(folder, *words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(lines[:201]))
        process.stdin.flush()
        grown(process, folder / "pipe" / "estimates.jsonl", lines_end(whole, 200))
        process.send_signal(signal.SIGINT)
        process.wait()
    assert process.returncode == 128 + signal.SIGINT
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"".join(lines[:251]))))
        resumed("pipe")
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"".join(lines[251:]))))
        assert resumed("pipe", "--continue") == whole


def test_closed_pipe(folder: Path, whole: tuple[bytes, bytes], resumed: Any) -> None:
    """As `| head` does: quiet, the status of a closed pipe, and nothing is lost."""
    words = ("learn", "stream.csv", "--out", "head", "--format", "jsonl", *MODEL, *OFTEN)
    with start(folder, *words, "--quiet", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        first = [process.stdout.readline() for _ in range(3)]
        process.stdout.close()
        error = process.stderr.read()
    assert process.returncode == 128 + signal.SIGPIPE
    assert error == b""
    assert b"".join(first) == whole[0][: sum(map(len, first))]
    assert resumed("head") == whole


def test_full_disk(folder: Path, whole: tuple[bytes, bytes], resumed: Any) -> None:
    """A file that may not grow is one sentence, status 1, and a run that can be resumed."""
    small = f"ulimit -f {len(whole[0]) // 2048}"
    words = ("learn", "stream.csv", "--out", "full", *MODEL, *OFTEN)
    with start(folder, *words, "--quiet", before=small) as process:
        error = process.communicate()[1].decode()
    assert process.returncode == 1
    assert (
        error.startswith("error: full/estimates.jsonl: File too large") and "resume full" in error
    )
    assert error.count("\n") == 1
    assert resumed("full") == whole


def test_one_process_at_a_time(folder: Path, whole: tuple[bytes, bytes], capsys: Any) -> None:
    """A run that somebody else writes is left alone."""
    room, _ = Directory.open(folder / "whole")
    room.lock()
    done = call(capsys, "resume", folder / "whole", *MODEL)
    room.unlock()
    assert done.status == 2 and "another process is learning here" in done.err
    assert outputs(folder / "whole") == whole


def test_rows_in_order(whole: tuple[bytes, bytes]) -> None:
    """No row is lost or doubled, here or in any run above that equals this one."""
    rows = [json.loads(line)["row"] for line in whole[0].splitlines()]
    assert rows == list(range(1, ROWS + 1))
    assert whole[0].endswith(b"\n")
