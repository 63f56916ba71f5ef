"""What is kept and told, without a learner."""

import asyncio
import json
from pathlib import Path

from rmcvi.app.serve.hub import BEHIND, HISTORY, LEAST, Hub
from rmcvi.app.serve.past import EACH, Past


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


def value(row: int, **more: float | None) -> str:
    plain = {"row": row, "time": None, "alarms": [], "a": float(row % 7), "a.mean": 3.0}
    return json.dumps(plain | {"a.low": -1.0, "a.high": 9.0} | more) + "\n"


def test_what_is_kept(tmp_path: Path) -> None:
    """The last rows, spans of a day before them; less of each stream if they are many."""
    one = Hub(tmp_path)
    rows = HISTORY + 3 * EACH + 9
    one.publish(None, "".join(value(i, **({"a": 99.0} if i == EACH else {})) for i in range(rows)))
    told = json.loads(one.snapshot())
    assert [row["row"] for row in told["rows"]] == list(range(3 * EACH, rows))
    assert [(span["row"], span["last"]) for span in told["past"]] == [
        (k * EACH, (k + 1) * EACH - 1) for k in range(3)
    ]
    assert told["past"][1]["columns"]["a"] == [0.0, 99.0, -1.0, 9.0, 3.0]
    empty = Past().add([value(i, **{"a": None, "a.mean": None}) for i in range(2)])
    assert empty["columns"]["a"] == [None, None, -1.0, 9.0, None]
    many = Hub(tmp_path, keyed=True)
    keys = [f"{i}" for i in range(20_000)]
    many.publish(keys, "".join(line(1, key) for key in keys))
    for row in range(2, 4 * LEAST):
        many.publish(["7"], line(row, "7"))
    assert LEAST <= len(many.lines("7")) < LEAST + EACH
    assert many.latest("7") == json.loads(line(4 * LEAST - 1, "7"))


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
