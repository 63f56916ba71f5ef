"""Rows that are pushed: what is taken, what is refused, and that nothing is lost or comes twice."""

import errno
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rmcvi.app.run.speech import Refusal
from rmcvi.app.serve.inlets import inlet_of, run
from rmcvi.app.serve.intake import Intake, Keys, Message, Rate, keys_in
from rmcvi.app.serve.journal import MARK, Journal
from rmcvi.app.serve.payload import MOST_BYTES, Arrival, Unreadable, rows_of
from tests.serve._brokers import answers, broker, free_port, redis_server, until


@pytest.mark.parametrize(
    ("payload", "is_csv", "rows"),
    [
        (b'{"a": 1, "b": null}', False, [{"a": 1, "b": None}]),
        (b'[{"a": 1}, {"a": 2.5}]', False, [{"a": 1}, {"a": 2.5}]),
        (b'{"a": 1}\n{"a": 2}\n', False, [{"a": 1}, {"a": 2}]),
        (b"3.5", False, [{"value": 3.5}]),
        (b'{"a": NaN, "_mark": "7"}', False, [{"a": None}]),
        (b"time,a\n2026-01-01,4\n2026-01-02,\n", True, None),
    ],
)
def test_what_is_taken(payload: bytes, is_csv: bool, rows: list[Any] | None) -> None:
    csv = [{"time": "2026-01-01", "a": 4.0}, {"time": "2026-01-02", "a": None}]
    assert rows_of(payload, is_csv) == (csv if rows is None else rows)


JUNK = [
    b"",
    b"\xff",
    b"junk",
    b"[]",
    b"{}",
    b'{"a": [1]}',
    b'{"a": 1e999}',
    b"[" * 10**5,
    b"null",
    b"1e999",
    b"NaN",
]
WIDE = json.dumps({str(i): i for i in range(5000)}).encode()


@pytest.mark.parametrize("payload", [*JUNK, WIDE, b" " * (MOST_BYTES + 1)], ids=range(13))
def test_what_is_refused(payload: bytes) -> None:
    with pytest.raises(Unreadable):
        rows_of(payload)


def test_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    """No two rows at once, and none before another, whatever becomes of the clock."""
    (row,) = rows_of(b"1", arrival=True)
    assert list(row) == ["value", "time"] and row["time"].startswith("20")
    now, clock = time.time(), Arrival()
    times = []
    for set_to in (now, now - 3600.0, now + 7200.0, now):
        monkeypatch.setattr("rmcvi.app.serve.payload.time.time", lambda set_to=set_to: set_to)
        times += [datetime.fromisoformat(clock.next()) for _ in range(100)]
    assert times == sorted(set(times))
    hours = [(times[100 * i] - times[0]).total_seconds() / 3600.0 for i in range(4)]
    assert hours == pytest.approx([0.0, 0.0, 2.0, 2.0], abs=0.01)


def test_the_journal(tmp_path: Path) -> None:
    """Half a line was never acknowledged; the last mark is found; nobody else may write."""
    journal = Journal(tmp_path)
    assert journal.mark is None
    journal.add([{"a": 1, MARK: "5-0"}, {"a": 2}])
    with pytest.raises(Refusal, match="another service"):
        Journal(tmp_path)
    journal.close()
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + b'{"a": 3, "_mark": "6')
    again = Journal(tmp_path)
    assert again.mark == "5-0"
    again.add([{"a": 3}])
    again.close()
    assert journal.path.read_bytes() == whole + b'{"a": 3}\n'


def test_a_full_disk_leaves_no_half_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written is not acknowledged, and what follows is whole."""
    journal, write = Journal(tmp_path), os.write
    journal.add([{"a": 1}])

    def half(number: int, data: Any) -> int:
        if len(data) > 5:
            return write(number, data[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("rmcvi.app.run.output.os.write", half)
        with pytest.raises(OSError, match="No space"):
            journal.add([{"a": 2}])
    journal.add([{"a": 3}])
    room = os.statvfs_result((4096, 4096, 10, 10, 10, 10, 10, 10, 0, 255))
    monkeypatch.setattr("rmcvi.app.serve.journal.os.statvfs", lambda path: room)
    with pytest.raises(OSError, match="No space"):
        journal.add([{"a": 4}])
    journal.close()
    assert journal.path.read_text() == '{"a": 1}\n{"a": 3}\n'


def test_too_many_keys(tmp_path: Path) -> None:
    """Those that there are go on; the others are counted, and a sentence says why."""
    intake = Intake(Journal(tmp_path), keys=Keys("id", 2))
    messages = [Message(json.dumps({"id": k, "v": 1}).encode(), "t") for k in (1, 1.0, " b ", 7)]
    intake.take([*messages, Message(b'{"v": 2}', "t"), Message(b'{"id": "b", "v": 3}', "t")])
    intake.journal.close()
    assert intake.keys is not None and intake.keys.refused == 2
    assert "id" in intake.trouble
    found = [json.loads(line)["id"] for line in intake.journal.path.read_text().splitlines()]
    assert found == ["1", "1", "b", "b"] and keys_in(intake.journal.path, "id") == {"1", "b"}
    kept, sentence = intake.keys.sort([{"id": "new\x1b[2J"}, {"id": "b"}], None)
    assert kept == [{"id": "b"}] and "--max-keys" in sentence and "\x1b" not in sentence


def test_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds' worth at once, then as many as come in a second."""
    now = [100.0]
    monkeypatch.setattr("rmcvi.app.serve.intake.time.monotonic", lambda: now[0])
    rate = Rate(10.0)
    assert rate.wait(100) == 0.0 and rate.wait(5) == pytest.approx(0.5)
    now[0] += 0.5
    assert rate.wait(5) == 0.0 and rate.wait(1) > 0.0
    now[0] += 1000.0
    assert rate.wait(1000) == 0.0, "more than the burst allows comes when there is room for it"


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("mqtt://user:secret@host/topic", "password"),
        ("mqtt://host", "expected an address like"),
        ("mqtt://host/plant/#", "%23"),
        ("redis:///name", "expected an address like"),
    ],
)
def test_addresses(address: str, sentence: str) -> None:
    with pytest.raises(Refusal, match=sentence) as found:
        inlet_of(address)
    assert "secret" not in str(found.value)


@contextmanager
def taking(address: str, folder: Path, keys: Keys | None = None) -> Iterator[Intake]:
    intake = Intake(Journal(folder), keys=keys)
    thread = threading.Thread(target=run, args=(inlet_of(address), intake))
    thread.start()
    try:
        yield intake
    finally:
        intake.stop.set()
        thread.join(20.0)
        intake.journal.close()


def taken(folder: Path) -> list[int]:
    return [json.loads(line)["n"] for line in (folder / "rows.jsonl").read_text().splitlines()]


def test_redis_comes_once(tmp_path: Path) -> None:
    """Stopped and started again, by another process's journal: each message, in order, once."""
    with redis_server(tmp_path) as client:
        port = client.get_connection_kwargs()["port"]
        for n in range(50):
            client.xadd("readings", {"n": n})
        with taking(f"redis://127.0.0.1:{port}/readings", tmp_path) as intake:
            until(lambda: intake.journal.rows == 50)
        for n in range(50, 80):
            client.xadd("readings", {"row": json.dumps({"n": n})})
        client.xadd("readings", {"row": "junk"})
        with taking(f"redis://127.0.0.1:{port}/readings", tmp_path) as intake:
            until(lambda: intake.refused == 1 and intake.journal.rows == 30)
            assert "no JSON" in intake.trouble
    assert taken(tmp_path) == list(range(80))


def test_mqtt_keeps_what_comes_while_we_are_away(tmp_path: Path) -> None:
    """And goes on after the broker was gone; at least once, in order."""
    mqtt = pytest.importorskip("paho.mqtt.client")
    port = free_port()
    config = tmp_path / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    address, words = f"mqtt://127.0.0.1:{port}/plant/+", ["-c", str(config)]
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)

    def publish(numbers: range) -> None:
        client.connect("127.0.0.1", port)
        for n in numbers:
            sent = client.publish("plant/pump", json.dumps({"n": n}), qos=1)
            until(lambda sent=sent: not client.loop(0.1) and sent.is_published())
        client.disconnect()

    with broker("mosquitto", *words):
        until(lambda: answers(lambda: socket.create_connection(("127.0.0.1", port)).close()))
        with taking(address, tmp_path) as intake:
            until(lambda: intake.connected)
            time.sleep(0.2)  # until it is subscribed
            publish(range(20))
            until(lambda: intake.journal.rows == 20)
        publish(range(20, 30))
        with taking(address, tmp_path, Keys("topic", 1)) as intake:
            until(lambda: intake.journal.rows >= 10)
    assert (
        json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[-1])["topic"] == "plant/pump"
    )
    with taking(address, tmp_path) as intake, broker("mosquitto", *words):
        until(lambda: intake.connected)
    found = taken(tmp_path)
    assert sorted(set(found)) == list(range(30)) and found == sorted(found)


def test_kafka_comes_once(tmp_path: Path) -> None:
    """On the library's own mock cluster, which lives in the producer."""
    kafka = pytest.importorskip("confluent_kafka")
    producer = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": ""})
    servers = next(iter(producer.list_topics("readings", timeout=10.0).brokers.values()))
    address = f"kafka://{servers.host}:{servers.port}/readings"
    for begin, end in ((0, 30), (30, 50)):
        for n in range(begin, end):
            producer.produce("readings", json.dumps({"n": n}), partition=0)
        producer.flush(10.0)
        with taking(address, tmp_path) as intake:
            until(lambda size=end - begin, intake=intake: intake.journal.rows == size)
    assert taken(tmp_path) == list(range(50))
