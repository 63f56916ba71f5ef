"""A shard that follows a file as it grows: the same lines, however the rows came."""

from pathlib import Path

import pytest

from rmcvi.app.fleet.shard import Shard
from rmcvi.app.sources import Pace
from tests.fleet._fleets import MODEL, begin, finish, make_source, output


def test_a_file_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is learned before each wait; stopped and begun again: the same lines."""
    monkeypatch.chdir(tmp_path)
    source = make_source(tmp_path, keys=5, rows=60)
    begin(source, tmp_path / "whole", 1)
    finish(tmp_path / "whole", 1)
    begin(source, tmp_path / "run", 1)
    lines = source.read_bytes().splitlines(keepends=True)
    source.write_bytes(b"".join(lines[:30]))
    coming, told, waited, enough = lines[30:], [], [0], [0]

    def sleep(seconds: float) -> None:
        """Some bytes more."""
        del seconds
        waited[0] += 1
        assert sum(told) >= 0.9 * (source.read_bytes().count(b"\n") - 1), "rows wait for others"
        with source.open("ab") as file:
            file.write(b"".join(coming[:20]))
        del coming[:20]

    for end in (5, 30):
        enough[0] = end
        shard = Shard(tmp_path / "run", 0, MODEL, Pace(lambda: waited[0] > enough[0], sleep))
        shard.published = lambda keys, text: told.append(text.count("\n"))
        for _ in shard.run():
            pass
        assert len(shard.kept("pump 1").state)
        shard.close()
    assert output(tmp_path / "run") == output(tmp_path / "whole")
    assert sum(told) == len(output(tmp_path / "run"))


def test_what_was_read_may_be_put_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two starts, the file may begin anew: the streams go on where they were."""
    monkeypatch.chdir(tmp_path)
    source = make_source(tmp_path, keys=5, rows=60)
    begin(source, tmp_path / "whole", 1)
    finish(tmp_path / "whole", 1)
    begin(source, tmp_path / "run", 1)
    lines = source.read_bytes().splitlines(keepends=True)
    waits: list[float] = []
    for part in (lines[:80], [lines[0], *lines[80:]]):
        source.write_bytes(b"".join(part))
        waits.clear()
        shard = Shard(tmp_path / "run", 0, MODEL, Pace(lambda: len(waits) > 0, waits.append))
        for _ in shard.run():
            pass
        shard.close()
    assert output(tmp_path / "run") == output(tmp_path / "whole")
