"""Killed at any moment and resumed, the output is that of an uninterrupted run, to the byte."""

import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def grown(ended: Callable[[], Any], path: Path, size: int) -> None:
    """Wait until a file has grown, or its writer has ended."""
    while not ended() and (not path.exists() or path.stat().st_size < size):
        time.sleep(0.002)


@contextmanager
def signalled(path: Path, size: int, number: signal.Signals) -> Iterator[None]:
    """Once a file has grown, this very process gets a signal, which only the run may answer."""
    before, ended = signal.signal(number, lambda *_: None), threading.Event()

    def send() -> None:
        grown(ended.is_set, path, size)
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        ended.set()
        sender.join()
        signal.signal(number, before)


def lines_end(whole: tuple[bytes, bytes], count: int) -> int:
    """Bytes of the first rows."""
    return sum(map(len, whole[0].splitlines(keepends=True)[:count]))


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.long)])
def test_killed_at_any_moment(
    folder: Path, whole: tuple[bytes, bytes], resumed: Any, times: int
) -> None:
    """SIGKILL leaves no time for anything; where it strikes differs from run to run."""
    total, name = len(whole[0]), f"killed{times}"
    moments = np.sort(np.random.default_rng().uniform(0.05, 0.7, times)) * total
    words: tuple[Any, ...] = ("learn", "stream.csv", "--out", name, *MODEL, *OFTEN)
    struck = []
    for moment in moments:
        with start(folder, *words) as process:
            grown(process.poll, folder / name / "estimates.jsonl", int(moment))
            process.kill()
        struck.append(process.returncode)
        words = ("resume", name, "--no-report", *MODEL)
    assert struck == [-signal.SIGKILL] * times
    assert len(outputs(folder / name)[0]) < total
    assert resumed(name) == whole


def test_killed_before_the_first_rows_were_saved(
    folder: Path, whole: tuple[bytes, bytes], resumed: Any
) -> None:
    """The directory is there, the checkpoint is not, or is that of no row: the run starts again."""
    (folder / "early").mkdir()
    shutil.copy(folder / "whole" / "run.json", folder / "early")
    assert resumed("early") == whole


def test_terminated_while_waiting_for_rows(
    folder: Path, whole: tuple[bytes, bytes], resumed: Any, capsys: Any
) -> None:
    """SIGTERM: the row is finished, the run saved; the status is 143."""
    lines = (folder / "stream.csv").read_text().splitlines(keepends=True)
    growing = folder / "growing.csv"
    growing.write_text("".join(lines[:151]))
    words = ("learn", "growing.csv", "--follow", "--out", "term", *MODEL, *OFTEN)
    with signalled(folder / "term/estimates.jsonl", lines_end(whole, 150), signal.SIGTERM):
        done = call(capsys, *words)
    assert done.status == 128 + signal.SIGTERM, done.err
    assert "`rmcvi resume term` goes on" in done.err
    growing.write_text("".join(lines))
    assert resumed("term", "--no-follow") == whole


def test_interrupted_pipe(
    folder: Path, whole: tuple[bytes, bytes], resumed: Any, capsys: Any
) -> None:
    """SIGINT while standard input is silent: 130; then the same stream again, or the rest of it."""
    lines = (folder / "stream.csv").read_bytes().splitlines(keepends=True)
    words = ("learn", "-", "--out", "pipe", *MODEL, *OFTEN)
    end, begin = os.pipe()
    os.write(begin, b"".join(lines[:201]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", os.fdopen(end))
        with signalled(folder / "pipe/estimates.jsonl", lines_end(whole, 200), signal.SIGINT):
            assert call(capsys, *words).status == 128 + signal.SIGINT
        os.close(begin)
        sys.stdin.close()
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


def test_full_disk(folder: Path, whole: tuple[bytes, bytes], resumed: Any, capsys: Any) -> None:
    """A file that may not grow is one sentence, status 1, and a run that can be resumed."""
    words = ("learn", "stream.csv", "--out", "full", *MODEL, *OFTEN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole[0]) // 2, hard))
    try:
        status, _, error = call(capsys, *words, "--quiet")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert status == 1
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
