"""The verbs of `rmcvi fleet` as they are typed, on a fleet that was learned here; a full disk."""

import errno
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmcvi.app.cli.fleet import watching
from rmcvi.app.fleet import shard as shard_module
from rmcvi.app.fleet.shard import Shard
from rmcvi.app.fleet.told import Told
from tests.cli._runs import call
from tests.fleet._fleets import MODEL, begin, finish, make_source, output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Five streams and their fleet."""
    folder = tmp_path_factory.mktemp("fleet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        begin(make_source(folder, keys=5), folder / "whole", 1)
        finish(folder / "whole", 1)
        yield folder


@pytest.mark.usefixtures("folder")
def test_a_forecast_says_what_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """And only where something does."""
    words = ("fleet", "forecast", "whole", "--horizon", 2, "--format", "csv", "--model", MODEL)
    stuck = call(capsys, *words, "--key", "pump 1")
    assert stuck.status == 0 and stuck.err.startswith("pump 1: heat fails now"), stuck.err
    assert stuck.out.count("\n") == 3
    assert call(capsys, *words, "--key", "pump 4").err == ""


@pytest.mark.usefixtures("folder")
def test_a_report_of_a_stream_that_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has a page, the most troubled ones have none if they are not asked for."""
    words = ("fleet", "report", "whole", "--pages", 0, "--model", MODEL)
    done = call(capsys, *words, "--key", "pump 4")
    assert done.status == 0, done.err
    (page,) = (folder / "whole").glob("streams/*/report.html")
    assert "<h1>pump 4 · plant.csv</h1>" in page.read_text()
    assert f"streams/{page.parent.name}/report.html" in (folder / "whole/report.html").read_text()
    assert "did you mean 'pump 4'" in call(capsys, *words, "--key", "pump4").err


def test_nothing_is_new(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`resume` says so if there is no new row, and only then."""

    def run(place: str, shards: int, model: str, **_: Any) -> Iterator[list[Told]]:
        shard = Shard(Path(place), shards - 1, model)
        for told in shard.run():
            yield [told]
        shard.close()

    monkeypatch.setattr(watching.engines, "run", run)
    begin(folder / "plant.csv", folder / "again", 1)
    for new in (True, False):
        done = call(capsys, "fleet", "resume", "again", "--model", MODEL)
        assert done.status == 0 and "rows of 5 streams" in done.err
        assert ("plant.csv ends with row 558." in done.err) is not new, done.err


def test_a_disk_that_is_full_for_a_while(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it takes no more bytes, in the midst of a line or a checkpoint: not one is lost."""
    for name, value in (("ROWS", 70), ("STREAM_ROWS", 1), ("SHARE", 0.0)):
        monkeypatch.setattr(shard_module, name, value)
    begin(folder / "plant.csv", tmp_path / "run", 1, every=60)
    before, refused, done = resource.getrlimit(resource.RLIMIT_FSIZE), 0, False
    for size in range(12_000, 400_000, 17_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            shard = Shard(tmp_path / "run", 0, MODEL)
            try:
                done = [told.done for told in shard.run()][-1]
            finally:
                shard.close()
        except OSError as error:
            assert error.errno == errno.EFBIG, error
            refused += 1
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        if done:
            break
    assert done and refused > 5
    assert output(tmp_path / "run") == output(folder / "whole")
