"""The journal in parts: what is kept, what goes, and that no kill loses or doubles a row."""

import json
import os
import shutil
import signal
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rmcvi.app.run.speech import Refusal
from rmcvi.app.serve import parts
from rmcvi.app.serve.journal import MARK, Journal
from rmcvi.app.serve.parts import Keep, Keeper
from rmcvi.app.sources import Pace, Position, read
from tests.cli._runs import call
from tests.fleet._fleets import CHEAP, MODEL
from tests.serve._brokers import until
from tests.serve._running import JSON, Running, ask


def row(i: int) -> dict[str, Any]:
    """Hours, so that a row that came twice would be left out."""
    when = datetime(2026, 1, 1) + timedelta(hours=i)
    return {"time": when.isoformat(), "flow": (i * 7919) % 101 / 101, "level": i % 24}


@pytest.mark.parametrize(
    ("text", "keep"),
    [("10GB", Keep(1e10)), ("1.5 mb", Keep(1.5e6)), ("30d", Keep(seconds=2592e3)), ("all", Keep())],
)
def test_how_much(text: str, keep: Keep) -> None:
    assert Keep.of(text) == keep


@pytest.mark.parametrize("text", ["", "10", "-1GB", "0d", "1e9", "GB"])
def test_nonsense(text: str) -> None:
    with pytest.raises(Refusal, match="--keep-rows"):
        Keep.of(text)


def test_renewed_under_a_reader_and_joined_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the place of the checkpoint, and however often it was killed: each row once."""
    journal, now = Journal(tmp_path), [False]
    journal.add([row(i) | {MARK: str(i)} for i in range(90)])
    pace = Pace(stop=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, True))
    places: dict[int, Position | None] = {}
    stream = iter(read(journal.path, follow=True, pace=pace))
    for i in range(85):
        places[i] = next(stream).position
    journal.renew()
    assert journal.mark == "89", "of the part: nothing has come since"
    journal.add([row(i) for i in range(90, 200)])
    for i in range(85, 180):
        found = next(stream)
        places[i] = found.position
        assert found.time_text == row(i)["time"], "the end of the part, then the new file"
    journal.renew()
    journal.add([row(i) for i in range(200, 210)])
    journal.close()
    tops = [part.read_text().partition("\n")[0] for part in parts.parts(tmp_path)]
    assert [json.loads(top).get("_part") for top in tops] == [None, "2"]
    for at, left in ((60, 0), (89, 0), (150, 1), (179, 1)):  # of the checkpoint; parts that stay
        folder = tmp_path / f"killed-{at}"
        folder.mkdir()
        for path in tmp_path.glob("rows*.jsonl"):
            shutil.copy(path, folder)
        monkeypatch.setattr(parts, "place_in", lambda folder, place=places[at]: place)
        Journal(folder).close()
        assert len(parts.parts(folder)) == left
        now[0] = False
        again = read(folder / "rows.jsonl", follow=True, pace=pace, after=moved(places[at], folder))
        times = [each.time_text for each in again]
        assert times == [row(i)["time"] for i in range(at + 1, 210)]


def moved(place: Position | None, folder: Path) -> Position:
    assert place is not None
    return replace(place, name=str(folder / "rows.jsonl"))


def test_what_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old parts, once there are too many rows or they are too old; none that is needed."""
    journal = Journal(tmp_path)
    monkeypatch.setattr(parts, "LEAST", 5000)
    keeper = Keeper(journal, Keep(30_000.0))
    place: list[Position | None] = [None]
    keeper.close()
    monkeypatch.setattr(parts, "place_in", lambda folder: place[0])
    for begin in range(0, 1000, 100):
        journal.add([row(i) for i in range(begin, begin + 100)])
        keeper.look()
        if not begin:
            assert not parts.parts(tmp_path), "nothing is learned from yet"
        now = [False]
        pace = Pace(stop=lambda now=now: now[0], sleep=lambda s, now=now: now.__setitem__(0, True))
        place[0] = [each.position for each in read(journal.path, follow=True, pace=pace)][-1]
        keeper.look()
    kept = parts.parts(tmp_path)
    assert 2 <= len(kept) <= 5 and kept[0].name != "rows-000001.jsonl"
    assert sum(p.stat().st_size for p in kept) <= 30_000
    old = Keeper(journal, Keep(seconds=86400.0))
    old.close()
    before = time.time() - 1e5
    for part in kept:
        os.utime(part, (before, before))
    journal.add([row(i) for i in range(1000, 1100)])
    old.look()
    assert len(parts.parts(tmp_path)) == len(kept), "the place is in a part: nothing goes"
    now = [False]
    pace = Pace(stop=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, True))
    place[0] = [each.position for each in read(journal.path, follow=True, pace=pace)][-1]
    old.look()
    assert [p.name for p in parts.parts(tmp_path)] == [
        kept[-1].name,
        f"rows-{parts.number_of(kept[-1]) + 1:06d}.jsonl",
    ]
    journal.close()


SMALL = """
from rmcvi.app.run import engine
from rmcvi.app.serve import parts
parts.LEAST, parts.OFTEN, engine.PATIENCE = 20_000, 0.01, 1.0
"""


@pytest.mark.long
def test_killed_between_two_parts(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """When a file is renewed, and the checkpoint's place is in the old one: each row once."""
    (tmp_path / "cheap_fleet.py").write_text(CHEAP)
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row(i)) + "\n" for i in range(1300)))
    folder, words = tmp_path / "run", ("--model", MODEL, "--keep-rows", "0.06MB")
    for begin, end in ((0, 600), (650, 1300)):
        service = Running(tmp_path, *words, before=SMALL)
        try:
            assert len(parts.parts(folder)) == 0, "put together at the start"
            rows = [row(i) for i in range(begin, end)]
            assert ask(service.port, "/rows", rows, **JSON) == (202, {"rows": end - begin})
            service.wait_for(end)
            until(lambda: bool(parts.parts(folder)))
            if not begin:
                ask(service.port, "/rows", [row(i) for i in range(end, end + 50)], **JSON)
                service.end(signal.SIGKILL)
            else:
                service.end(signal.SIGTERM)
        finally:
            service.kill()
    monkeypatch.chdir(tmp_path)
    words = ("--out", "whole", "--quiet", "--no-report", "--model", MODEL)
    assert call(capsys, "learn", "all.jsonl", *words).status == 0
    whole, found = (tmp_path / name / "estimates.jsonl" for name in ("whole", "run"))
    assert found.read_bytes() == whole.read_bytes()
