"""Run directories that `learn` did not write: one sentence each, whatever is asked of them."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmcvi.app.cli import main
from tests.cli._runs import MODEL, call, make_source
from tests.learners._files import sealed

ASKED = ("inspect", "forecast", "smooth", "resume")
"""Commands that load the learner; `verify` and `report` do not."""
QUICK = {"resume": ("--no-report",), "forecast": ("--horizon", 1)}
NAMES = ("summary.json", "estimates.jsonl", "parameters.jsonl", "rejected.jsonl", "run.json")
PLANS: list[tuple[tuple[str | int, ...], Any]] = [
    (("schema", "time", 0), {"a": 1}),
    (("schema", "missing"), 3),
    (("schema", "missing", 0), []),
    (("schema", "names", 1), 10**30),
    (("schema", "columns", 0), 1e308),
    (("schema", "encoding"), "\x1b[31m"),
    (("schema", "delimiter"), ""),
    (("learner", "settings"), [None]),
    (("options", "model"), "x"),
    (("options", "model", "model"), 5),
    (("options", "on_bad_row"), "maybe"),
    (("options", "checkpoint_every"), None),
]
CHECKPOINTS: list[tuple[tuple[str | int, ...], Any]] = [
    (("extra", "bytes", "rejected.jsonl"), None),
    (("extra", "bytes", "estimates.jsonl"), -1),
    (("extra", "checksums", "estimates.jsonl"), "a"),
    (("extra", "rows"), -5),
    (("extra", "scores", "rows"), [None]),
    (("extra", "scores", "alarms"), {"a": "b"}),
    (("monitors", 28), 10**30),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a short stream."""
    folder = tmp_path_factory.mktemp("crafted")
    make_source(folder, 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["learn", "stream.csv", *MODEL, "--quiet", "--out", "run"]) == 0
    return folder


@pytest.fixture
def ask(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> Callable[[Callable[[Path], Any]], None]:
    """Edit a copy of the run, then ask everything: an answer or one plain sentence."""
    monkeypatch.chdir(tmp_path)

    def all_of_it(edit: Callable[[Path], Any]) -> None:
        for command in (*ASKED, "verify", "report"):
            shutil.copytree(made, tmp_path, dirs_exist_ok=True)
            edit(tmp_path / "run")
            words = (*(MODEL if command in ASKED else ()), *QUICK.get(command, ()))
            done = call(capsys, command, "run", *words)
            assert "unexpected" not in done.err and "\x1b" not in done.err + done.out, done.err
            assert done.status in (0, 1, 2), (command, done)
            shutil.rmtree(tmp_path / "run")

    return all_of_it


def put(plain: Any, path: tuple[str | int, ...], value: Any) -> None:
    for key in path[:-1]:
        plain = plain[key]
    plain[path[-1]] = value


@pytest.mark.parametrize(("path", "value"), PLANS)
def test_plans(path: tuple[str | int, ...], value: Any, ask: Any) -> None:
    def edit(run: Path) -> None:
        plan = json.loads((run / "run.json").read_text())
        put(plan, path, value)
        (run / "run.json").write_text(json.dumps(plan))

    ask(edit)


@pytest.mark.parametrize(("path", "value"), CHECKPOINTS)
def test_what_checkpoints_remember(path: tuple[str | int, ...], value: Any, ask: Any) -> None:
    """With a checksum that fits."""

    def edit(run: Path) -> None:
        for file in run.glob("checkpoint*.rmcvi"):
            _, header, rest = file.read_bytes()[:-32].split(b"\n", 2)
            plain = json.loads(header)
            put(plain["extra"]["live"], path, value)
            text = json.dumps(plain).encode() + b"\n"
            first = b"rmcvi checkpoint 1 %012d %015d\n" % (len(text), 0)
            file.write_bytes(sealed(first + text + rest))

    ask(edit)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", [b"[" * 10**5, b"null\n", b'{"row": %s}\n' % (b"9" * 5000)])
def test_files(name: str, content: bytes, ask: Any) -> None:
    """Nested without end, no object, endless numbers."""
    ask(lambda run: (run / name).write_bytes(content))


@pytest.mark.parametrize("name", [*NAMES, "checkpoint.rmcvi", "report.html"])
def test_pipes_are_not_waited_for(name: str, ask: Any) -> None:
    """They used to hang `resume`, deaf to every signal but SIGKILL."""

    def pipe(run: Path) -> None:
        (run / name).unlink()
        os.mkfifo(run / name)

    ask(pipe)


def test_devices_are_not_read(ask: Any) -> None:
    def device(run: Path) -> None:
        (run / "summary.json").unlink()
        (run / "summary.json").symlink_to("/dev/zero")

    ask(device)
