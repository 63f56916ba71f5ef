"""Real processes and real kills: a worker, then who started it; then another number of shards."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fleet._fleets import MODEL, begin, finish, make_source, output, published

pytestmark = pytest.mark.long  # a minute, many on a busy machine: processes that each import JAX
PATIENCE = 600.0
"""Seconds: only what never comes lets a test fail, and no busy machine."""


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """The command in a process that computes as the tests do, in small steps; `said` has its words,
    since a pipe that nobody reads would stop it.
    """
    environment = os.environ | {"JAX_ENABLE_X64": "1", "SLOWLY": "1"}
    command = [sys.executable, "-m", "rmcvi", "fleet", *words]
    with (folder / "said").open("w") as said:
        return subprocess.Popen(command, cwd=folder, env=environment, stderr=said)


def workers(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes of its shards."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            status = (path / "stat").read_text().rpartition(")")[2].split()
            words = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if int(status[1]) == process.pid and b"spawn_main" in words:
            found.append(int(path.name))
    return found


def wait_for(what: str, is_true: object) -> None:
    """Until it is true."""
    assert callable(is_true)
    end = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def size(out: Path) -> int:
    """Bytes that were written so far."""
    files = [*out.glob("estimates-*.jsonl"), *out.glob("estimates-*/part-*.jsonl")]
    return sum(path.stat().st_size for path in files)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find the workers")
@pytest.mark.parametrize("storage", ["", "file://"])
def test_kills_cost_nothing(storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output is that of an uninterrupted run, to the byte."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    source = make_source(tmp_path)
    begin(source, tmp_path / "whole", 1, sets=(("heat",),))  # as the command finds them
    finish(tmp_path / "whole", 1)
    out = tmp_path / "run"
    place = f"{storage}{out}"
    words = ("--key", "sensor", "--out", place, "--shards", "2", "--model", MODEL)
    going = start(tmp_path, "plant.csv", *words, "--checkpoint-every", "40")
    wait_for("no rows came", lambda: size(out) > 20_000 or going.poll() is not None)
    before = workers(going)
    assert len(before) == 2, (tmp_path / "said").read_text()
    os.kill(before[0], signal.SIGKILL)
    wait_for("no new worker", lambda: len(set(workers(going)) - set(before)) == 1)
    grown = size(out)
    wait_for("it did not go on", lambda: size(out) > grown + 4_000 or going.poll() is not None)
    assert going.poll() is None
    left = workers(going)
    going.kill()
    going.wait()
    wait_for("workers stayed", lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))
    assert 0 < size(out) < size(tmp_path / "whole")
    last = start(tmp_path, "resume", place, "--shards", "3", "--model", MODEL)
    status, told = last.wait(PATIENCE), (tmp_path / "said").read_text()
    assert status == 0, told
    found = published(place) if storage else output(out)
    assert f"{len(found)} rows of 9 streams" in told
    assert found == output(tmp_path / "whole")
