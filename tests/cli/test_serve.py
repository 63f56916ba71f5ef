"""`rmcvi serve` before it serves anything: what it refuses."""

from pathlib import Path

import pytest

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
