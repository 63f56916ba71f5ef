"""`rmcvi serve` before it serves anything: what it refuses."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from rmcvi.app.cli.serve import ServedOptions
from rmcvi.app.cli.serving import PATIENCE, Room
from rmcvi.app.sources import Pace
from tests.cli._runs import call

BEFORE = {"estimates.jsonl": "{}\n", "rows.jsonl": "not ours\n"}


@pytest.mark.parametrize("name", BEFORE)
def test_files_of_others(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_text(BEFORE[name])
    done = call(capsys, "serve", "http", "--out", tmp_path, "--port", "0")
    assert done.status == 2 and name in done.err and "expected" in done.err
    assert (tmp_path / name).read_text() == BEFORE[name]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["htpp"], "did you mean 'http'?"),
        (["ftp://host/rows"], "ftp: got an unknown kind of address"),
        (["http", "--port", "99999"], "--port"),
        (["http", "--level", "0"], "between 0 and 1"),
    ],
)
def test_slips(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = call(capsys, "serve", *words, "--out", tmp_path / "new")
    assert done.status == 2 and sentence in done.err
    assert not (tmp_path / "new").exists()


def test_first_rows(tmp_path: Path) -> None:
    """Junk is waited past, and told; times of arrival within one message give no step."""
    place = tmp_path / "rows.jsonl"
    place.write_text('{"a": "x"}\n' * 3)
    told: list[str] = []

    def sleep(seconds: float) -> None:
        with place.open("a") as file:
            file.writelines(
                f'{{"time": "2026-01-01T00:00:00.{i:06d}", "a": {i}}}\n' for i in range(9)
            )

    room = Room(tmp_path, str(place), Pace(sleep=sleep), ServedOptions(), trouble=told.append)
    assert room.read().schema.time == ("time",)
    assert "waiting" in told[0] and told[-1] == ""
    arrived = replace(room, arrival=True)
    assert arrived.read().schema.time == ()
    early, late = time.monotonic(), time.monotonic() - 2.0 * PATIENCE
    assert not arrived.enough(29, early) and arrived.enough(30, early) and arrived.enough(3, late)
