"""Rows that are pushed: what is taken, what is refused, and that nothing is lost or comes twice."""

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rmcvi.app.run.speech import Refusal
from rmcvi.app.serve.inlets import inlet_of, run
from rmcvi.app.serve.intake import Intake
from rmcvi.app.serve.journal import MARK, Journal
from rmcvi.app.serve.payload import MOST_BYTES, Unreadable, rows_of


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


JUNK = [b"", b"\xff", b"junk", b"[]", b"{}", b'{"a": [1]}', b'{"a": 1e999}', b"[" * 10**5, b"null"]
WIDE = json.dumps({str(i): i for i in range(5000)}).encode()


@pytest.mark.parametrize("payload", [*JUNK, WIDE, b" " * (MOST_BYTES + 1)], ids=range(11))
def test_what_is_refused(payload: bytes) -> None:
    with pytest.raises(Unreadable):
        rows_of(payload)


def test_arrival() -> None:
    (row,) = rows_of(b"1", arrival=True)
    assert list(row) == ["value", "time"] and row["time"].startswith("20")


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


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@contextmanager
def broker(name: str, *words: str) -> Iterator[None]:
    """A real one on loopback, up when this is entered; skipped if it is not installed."""
    program = shutil.which(name) or shutil.which(f"/usr/sbin/{name}")
    if program is None:
        pytest.skip(f"Debian's {name} is not installed")
    with subprocess.Popen(
        [program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as p:
        try:
            yield
        finally:
            p.kill()


@contextmanager
def taking(address: str, folder: Path) -> Iterator[Intake]:
    intake = Intake(Journal(folder))
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
    redis = pytest.importorskip("redis")
    port = free_port()
    place = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    with broker("redis-server", *place):
        client = redis.Redis(port=port)
        until(lambda: _answers(client.ping))
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
        until(lambda: _answers(lambda: socket.create_connection(("127.0.0.1", port)).close()))
        with taking(address, tmp_path) as intake:
            until(lambda: intake.connected)
            time.sleep(0.2)  # until it is subscribed
            publish(range(20))
            until(lambda: intake.journal.rows == 20)
        publish(range(20, 30))
        with taking(address, tmp_path) as intake:
            until(lambda: intake.journal.rows >= 10)
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


def _answers(call: Callable[[], Any]) -> bool:
    try:
        call()
    except Exception:
        return False
    return True
