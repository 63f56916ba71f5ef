"""What `rmcvi fleet` says when it cannot begin; nothing is left behind."""

from pathlib import Path

import pytest

from tests.cli._runs import call
from tests.fleet._fleets import make_source


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--key", "senso"], "key: got 'senso', expected one of 'time', 'sensor', 'flow', 'heat'"),
        (["--key", "sensor", "--format", "csv"], "expected one of 'jsonl', 'parquet'"),
        (["--key", "sensor", "--sensitivity", "0"], "expected a positive number"),
        (["--key", "sensor", "--on-bad-row", "skp"], "did you mean 'skip'?"),
        ([], "Missing option '--key'"),
    ],
)
def test_wrong_words_are_told(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a sentence, before anything is compiled."""
    monkeypatch.chdir(tmp_path)
    make_source(tmp_path)
    done = call(capsys, "fleet", "plant.csv", "--out", "run", *words)
    assert done.status == 2 and told in done.err
    assert not (tmp_path / "run").exists()


def test_standard_input_has_one_shard(capsys: pytest.CaptureFixture[str]) -> None:
    """It can be read only once."""
    done = call(capsys, "fleet", "-", "--key", "a", "--out", "run", "--shards", 2)
    assert done.status == 2 and "standard input can be read by one shard alone" in done.err


def test_questions_need_a_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of the verbs says so."""
    for verb in ("inspect", "report", "resume"):
        done = call(capsys, "fleet", verb, tmp_path)
        assert done.status == 2 and "holds no fleet, expected fleet.json" in done.err
    done = call(capsys, "fleet", "--help")
    assert done.status == 0 and "forecast" in done.out
