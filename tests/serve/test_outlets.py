"""Estimates sent on: each line at least once, the same each time; alarms when they begin."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rmcvi.app.run.speech import Refusal
from rmcvi.app.serve import outlets
from rmcvi.app.serve.outlets import SENT, Place, Sender, check_outlet
from tests.serve._brokers import mosquitto, redis_server, until


def line(row: int, key: str | None = None, *alarms: str) -> str:
    """Of a file of estimates."""
    own = {} if key is None else {"key": key}
    return json.dumps({"row": row, **own, "time": None, "alarms": list(alarms)})


LINES = [line(1), line(2, None, "a: stuck"), line(3, None, "a: stuck"), line(4), line(5)]


def write(path: Path, lines: Sequence[str]) -> None:
    with path.open("a") as file:
        file.write("".join(f"{each}\n" for each in lines))


def test_alarms_begin_once() -> None:
    """An alarm is told by the row that the row before of its stream did not have it."""
    place = Place()
    lines = [line(1, "x", "stuck"), line(1, "y"), line(2, "x", "stuck", "drifts"), line(2, "y")]
    told = [(m.key, json.loads(m.text)["sentence"]) for m in place.messages(lines) if m.alarm]
    assert told == [("x", "stuck"), ("x", "drifts")]
    again = Place(0, json.loads(json.dumps(place.alarmed)))
    last = again.messages([line(3, "x", "drifts"), line(4, "x"), line(5, "x", "drifts")])
    assert [json.loads(m.text)["row"] for m in last if m.alarm] == [5]
    assert [m.key for m in last] == ["x"] * 4


def test_redis_is_sent_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gone on with after a stop where it was; after a kill, some come again, the same."""
    monkeypatch.setattr(outlets, "REMEMBERED", 1e9)  # only an orderly end is remembered
    path = tmp_path / "estimates.jsonl"
    with redis_server(tmp_path) as client:
        port = client.get_connection_kwargs()["port"]
        address = f"redis://127.0.0.1:{port}/out"

        def sent(name: str = "out") -> list[str]:
            return [row[b"row"].decode() for _, row in client.xrange(name)]

        write(path, LINES[:2])
        with path.open("a") as file:
            file.write(LINES[2][:9])  # half a line waits for its rest
        first = Sender(address, path)
        until(lambda: len(sent()) == 2)
        first.close()
        before = (tmp_path / SENT).read_bytes()
        with path.open("a") as file:
            file.write(LINES[2][9:] + "\n")
        second = Sender(address, path)
        until(lambda: len(sent()) == 3)
        second.close()
        (tmp_path / SENT).write_bytes(before)  # as if it had been killed
        write(path, LINES[3:])
        third = Sender(address, path)
        until(lambda: len(sent()) == 6)
        third.close()
        assert sent() == [*LINES[:3], *LINES[2:]]
        alarm = {"row": 2, "time": None, "sentence": "a: stuck"}
        assert [json.loads(text) for text in sent("out/alarms")] == [alarm]


def test_mqtt_is_sent_all(tmp_path: Path) -> None:
    """From before the broker is there; alarms to a topic of their own."""
    mqtt = pytest.importorskip("paho.mqtt.client")
    come: list[tuple[str, str]] = []
    path = tmp_path / "estimates.jsonl"
    write(path, LINES)
    with mosquitto(tmp_path) as port:
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        client.on_message = lambda _c, _d, m: come.append((m.topic, m.payload.decode()))
        client.connect("127.0.0.1", port)
        client.subscribe("plant/#", qos=1)
        client.loop_start()
        sender = Sender(f"mqtt://127.0.0.1:{port}/plant/out", path)
        until(lambda: len(come) >= 6)
        sender.close()
        client.loop_stop()
    assert [text for topic, text in come if topic == "plant/out"] == LINES
    assert [topic for topic, _ in come].count("plant/out/alarms") == 1


def test_kafka_is_sent_all(tmp_path: Path) -> None:
    """With the stream for its key; on the library's own mock cluster."""
    kafka = pytest.importorskip("confluent_kafka")
    cluster = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": ""})
    (place,) = cluster.list_topics("out", timeout=10.0).brokers.values()
    path = tmp_path / "estimates-0-0.jsonl"
    lines = [line(1, "x"), line(1, "y"), line(2, "x", "stuck")]
    write(path, lines)
    sender = Sender(f"kafka://{place.host}:{place.port}/out", path)
    until(lambda: sender.sent == 3)
    sender.close()
    topics = {"out": 3, "out.alarms": 1}
    found = {name: list(islice(_consumed(kafka, place, name), n)) for name, n in topics.items()}
    assert sorted(found["out"]) == sorted([("x", lines[0]), ("y", lines[1]), ("x", lines[2])])
    assert [key for key, _ in found["out.alarms"]] == ["x"]


def _consumed(kafka: Any, place: Any, topic: str) -> Iterator[tuple[str, str]]:
    settings = {"bootstrap.servers": f"{place.host}:{place.port}", "group.id": "test"}
    consumer = kafka.Consumer(settings | {"auto.offset.reset": "earliest"})
    partitions = consumer.list_topics(topic, timeout=10.0).topics[topic].partitions
    consumer.assign([kafka.TopicPartition(topic, p, kafka.OFFSET_BEGINNING) for p in partitions])
    try:
        while message := consumer.poll(10.0):
            yield message.key().decode(), message.value().decode()
    finally:
        consumer.close()


def test_addresses() -> None:
    """Our own messages must not come back to us."""
    check_outlet("mqtt://host/estimates", "mqtt://host/plant/+")
    check_outlet("mqtt://other/plant/out", "mqtt://host/plant/+")
    for address, source in (
        ("mqtt://host/plant/out", "mqtt://host/plant/+"),
        ("mqtt://host/plant", "mqtt://host/plant/%23"),
        ("redis://host/rows", "redis://host/rows"),
    ):
        with pytest.raises(Refusal, match="comes back"):
            check_outlet(address, source)
    with pytest.raises(Refusal, match="expected an address"):
        check_outlet("amqp://host/out", "http")
