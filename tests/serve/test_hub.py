"""What is kept and told, without a learner."""

import asyncio
import json
from pathlib import Path

from rmcvi.app.serve.hub import BEHIND, HISTORY, LEAST, Hub


def line(row: int, key: str = "", *alarms: str) -> str:
    return json.dumps({"row": row, "key": key, "time": None, "alarms": list(alarms)}) + "\n"


def test_a_slow_reader_is_sent_away(tmp_path: Path) -> None:
    """It is told that it was too slow, and holds up nobody."""
    hub = Hub(tmp_path)

    async def read() -> tuple[list[str], int]:
        slow, quick = hub.listen(), hub.listen()
        told = 0
        for row in range(BEHIND + 20):
            hub.publish(None, line(row))
            await asyncio.sleep(0)
            told += not quick.empty() and bool(quick.get_nowait())
        return [slow.get_nowait() for _ in range(slow.qsize())], told

    left, told = asyncio.run(read())
    assert left[0] == "" and len(left) < BEHIND and told == BEHIND + 20
    assert len(hub.lines()) == BEHIND + 20


def test_a_page_is_told_of_its_stream_alone(tmp_path: Path) -> None:
    hub = Hub(tmp_path, keyed=True)

    async def read() -> list[str]:
        queue = hub.listen("b")
        hub.publish(["a", "b", "a"], line(1, "a") + line(1, "b") + line(2, "a"))
        await asyncio.sleep(0)
        return [queue.get_nowait() for _ in range(queue.qsize())]

    (message,) = asyncio.run(read())
    told = json.loads(message.partition("data: ")[2])
    assert [row["key"] for row in told["rows"]] == ["b"]


def test_what_is_kept(tmp_path: Path) -> None:
    """An hour of seconds of one stream, less of each if they are many."""
    one = Hub(tmp_path)
    one.publish(None, "".join(line(i) for i in range(HISTORY + 9)))
    assert len(one.lines()) == HISTORY
    many = Hub(tmp_path, keyed=True)
    keys = [f"{i}" for i in range(20_000)]
    many.publish(keys, "".join(line(1, key) for key in keys))
    for row in range(2, 2 * LEAST):
        many.publish(["7"], line(row, "7"))
    assert len(many.lines("7")) == LEAST
    assert many.latest("7") == json.loads(line(2 * LEAST - 1, "7"))


def test_an_episode_that_comes_again_is_told_again(tmp_path: Path) -> None:
    """And what was said of the first one does not stand for it."""
    hub, told = Hub(tmp_path, keyed=True), []
    hub.alarmed = told.append
    hub.publish(["a"] * 2, line(1, "a", "stuck") + line(2, "a", "stuck"))
    assert hub.acknowledge(("a", "stuck"), "seen") and not hub.acknowledge(("b", "stuck"), "")
    assert hub.listed("a")[0]["note"]["text"] == "seen" and hub.listed("b") == []
    hub.publish(["a"], line(500, "a", "stuck"))
    assert [alarm["row"] for alarm in told] == [1, 500]
    assert hub.listed("a")[0]["note"] is None and hub.listed()[0]["rows"] == 1
