"""Many streams in one service: real processes, a kill, and what a fleet makes of the same rows."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet import _fleets
from tests.fleet._fleets import CHEAP, MODEL, output
from tests.serve._running import JSON, Running, ask, row, shown

KEYS = ("pump 1", "pump 2", "=<b>pump</b>")


def rows(begin: int, end: int) -> list[dict[str, Any]]:
    """Streams of two columns side by side, the third late; one of them sticks."""
    return [
        {"sensor": key, **row(i + 7 * k)}
        for i in range(begin, end)
        for k, key in enumerate(KEYS)
        if not (k == 2 and i < 20)
    ]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[[], Running]]:
    """Starts the service; none outlives the test."""
    (tmp_path / "cheap_fleet.py").write_text(CHEAP)
    made: list[Running] = []

    def start() -> Running:
        made.append(Running(tmp_path, "--key", "sensor", "--max-keys", "3", "--model", MODEL))
        return made[-1]

    yield start
    for each in made:
        each.kill()


@pytest.mark.slow
def test_killed_it_is_the_fleet_of_its_rows(
    running: Callable[[], Running], tmp_path: Path, subtests: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows by POST, a kill, the rest; the estimates are those of a fleet of all rows."""
    first = running()
    assert ask(first.port, "/rows", rows(0, 60), **JSON) == (202, {"rows": 160})
    first.wait_for(160)
    assert ask(first.port, "/rows", rows(60, 80), **JSON)[0] == 202
    first.end(signal.SIGKILL)
    second = running()
    for begin in range(80, 200, 20):
        ask(second.port, "/rows", rows(begin, begin + 20), **JSON)
    second.wait_for(580)
    other = {"sensor": "pump 4", **row(0)}
    status, told = ask(second.port, "/rows", [other, rows(200, 201)[0]], **JSON)
    assert status == 202, told
    assert told["rows"] == told["left_out"] == 1 and "--max-keys" in told["error"]
    second.wait_for(581)
    assert ask(second.port, "/rows", other, **JSON)[0] == 422
    _ask_of_a_stream(second.port)
    with subtests.test("page"):
        page = shown(second.port, tmp_path)
        assert 'data-rows="' in page and page.count("<canvas") == 2
        assert "=&lt;b&gt;pump&lt;/b&gt;" in page and "<b>pump" not in page
    assert second.end(signal.SIGTERM) == 128 + signal.SIGTERM
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    _fleets.begin(tmp_path / "run/rows.jsonl", tmp_path / "whole", 1)
    _fleets.finish(tmp_path / "whole", 1)
    assert output(tmp_path / "run") == output(tmp_path / "whole")
    assert len(output(tmp_path / "run")) == 581


def _ask_of_a_stream(port: int) -> None:
    """What is told of one stream, and of all."""
    key = "?key=pump%201"
    latest = ask(port, f"/api/latest{key}")[1]
    assert (latest["key"], latest["row"]) == ("pump 1", 201)
    ahead = ask(port, f"/api/forecast{key}&horizon=3")[1]
    assert ahead["row"] == 201 and len(ahead["mean"]) == 3
    past = ask(port, f"/api/smooth{key}&lag=4")[1]
    assert past["row"] == [197, 198, 199, 200, 201] and past["mean"][-1][1] == latest["level"]
    told = ask(port, "/api/streams")[1]
    assert told["total"] == 3 and told["rows"] == 581
    assert told["streams"][0]["alarms"], "a stream with an alarm comes first"
    assert [s["key"] for s in ask(port, "/api/streams?find=%3Cb")[1]["streams"]] == [KEYS[2]]
    alarm = ask(port, f"/api/alarms{key}")[1][0]
    assert alarm["key"] == "pump 1" and "level" in alarm["sentence"]
    note = {"sentence": alarm["sentence"], "note": "seen", "key": "pump 1"}
    assert ask(port, "/api/notes", note, **JSON)[0] == 200
    assert ask(port, "/api/notes", note | {"key": "pump 9"}, **JSON)[0] == 404
    assert [a["note"]["text"] for a in ask(port, f"/api/alarms{key}")[1] if a["note"]] == ["seen"]
    assert ask(port, "/api/forecast?key=nobody")[0] == 409
    text = ask(port, "/metrics")[1]
    age = float(text.partition("\nrmcvi_checkpoint_age ")[2].partition("\n")[0])
    assert 0.0 <= age < 600.0
    assert "rmcvi_streams 3.0" in text and "rmcvi_rows_left_out 2.0" in text
