"""Estimates and alarms sent on to a broker: MQTT, Redis streams, Kafka.

The file of estimates is the queue. Its lines are sent from a place on, and the place is remembered
once the broker has them, so that each comes at least once, however often either side goes away: the
lines after a checkpoint are written again with the same bytes, and those that were sent are passed
over. A line that comes twice is the same, and has the same stream and row.
"""

import json
import threading
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable
from urllib.parse import SplitResult, unquote, urlsplit

from rmcvi.app.run.speech import Refusal
from rmcvi.app.serve.hub import WORDS
from rmcvi.app.serve.inlets import LATEST, SOONEST, connection, password
from rmcvi.core.files import replace, to_json

SENT = "sent.json"
MOST = 500
"""Lines that are sent before the broker is waited for."""
PATIENCE = 20.0
"""Seconds for which it is waited for."""
REMEMBERED = 1.0
"""Seconds between two notes of the place: what is sent again after a kill."""
POLL = 0.5
"""Seconds between two looks at the file when nobody says that it has grown."""


class Sent(NamedTuple):
    """A message: an estimate, or an alarm that goes to a topic of its own."""

    text: str
    key: str
    alarm: bool = False


@runtime_checkable
class Outlet(Protocol):
    """A connection to a broker."""

    def send(self, messages: Sequence[Sent]) -> None:
        """Returns when the broker has them all; raises if it has not."""
        ...

    def close(self) -> None:
        """Go away."""
        ...


def outlet_of(address: str) -> Outlet:
    """A connection to an address such as mqtt://broker/plant/estimates."""
    return connection(address, {"mqtt": MqttOutlet, "redis": RedisOutlet, "kafka": KafkaOutlet})


def check_outlet(address: str, source: str) -> None:
    """Refuse an address that is none, or from which our own messages would come back to us."""
    connection(address, dict.fromkeys(("mqtt", "redis", "kafka"), lambda parts: parts))
    if any(_takes(source, f"{address}{end}") for end in ("", "/alarms")):
        raise Refusal(f"--to: what is sent to {address} comes back from {source}")


def _takes(source: str, topic: str) -> bool:
    """Whether what is sent to an address would come back from another one."""
    from paho.mqtt.client import topic_matches_sub

    here, there = urlsplit(source), urlsplit(topic)
    if (here.scheme, here.hostname, here.port) != (there.scheme, there.hostname, there.port):
        return False
    wanted, name = (unquote(parts.path.strip("/")) for parts in (here, there))
    return topic_matches_sub(wanted, name) if here.scheme.startswith("mqtt") else wanted == name


class MqttOutlet:
    """Publishes with quality of service 1."""

    def __init__(self, parts: SplitResult):
        from paho.mqtt import client
        from paho.mqtt.enums import CallbackAPIVersion

        tls = parts.scheme == "mqtts"
        self._topic = unquote(parts.path.strip("/"))
        self._client = client.Client(CallbackAPIVersion.VERSION2)
        if tls:
            self._client.tls_set()
        if parts.username:
            self._client.username_pw_set(unquote(parts.username), password())
        self._client.max_inflight_messages_set(MOST)
        self._client.connect(str(parts.hostname), parts.port or (8883 if tls else 1883), 30)
        self._client.loop_start()

    def send(self, messages: Sequence[Sent]) -> None:
        """As `Outlet`."""
        names = {False: self._topic, True: f"{self._topic}/alarms"}
        sent = [self._client.publish(names[m.alarm], m.text, qos=1) for m in messages]
        for each in sent:
            each.wait_for_publish(PATIENCE)
            if not each.is_published():
                raise ConnectionError("mqtt: the broker does not answer")

    def close(self) -> None:
        """As `Outlet`."""
        self._client.disconnect()
        self._client.loop_stop()


class RedisOutlet:
    """Adds to a stream; the field `row` of a message is the line."""

    def __init__(self, parts: SplitResult):
        import redis

        place: dict[str, Any] = {"host": parts.hostname, "port": parts.port or 6379}
        place |= {"username": parts.username, "ssl": parts.scheme == "rediss"}
        self._name = unquote(parts.path.strip("/"))
        self._client = redis.Redis(**place, password=password(), socket_timeout=PATIENCE)

    def send(self, messages: Sequence[Sent]) -> None:
        """As `Outlet`."""
        pipe = self._client.pipeline(transaction=False)
        for message in messages:
            name = f"{self._name}/alarms" if message.alarm else self._name
            pipe.xadd(name, {"row": message.text})
        pipe.execute()

    def close(self) -> None:
        """As `Outlet`."""
        self._client.close()


class KafkaOutlet:
    """Produces to a topic, in the order of each stream: its key is the message's."""

    def __init__(self, parts: SplitResult):
        import confluent_kafka

        servers = f"{parts.hostname}:{parts.port or 9092}"
        settings: dict[str, Any] = {"bootstrap.servers": servers, "acks": "all", "linger.ms": 5}
        settings["message.timeout.ms"] = int(1000 * PATIENCE)
        if parts.username:
            settings |= {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
            settings |= {"sasl.username": parts.username, "sasl.password": password() or ""}
        self._topic = unquote(parts.path.strip("/"))
        self._producer = confluent_kafka.Producer(settings)

    def send(self, messages: Sequence[Sent]) -> None:
        """As `Outlet`."""
        wrong: list[Any] = []

        def told(error: Any, message: Any) -> None:
            del message
            if error is not None:
                wrong.append(error)

        for message in messages:
            name = f"{self._topic}.alarms" if message.alarm else self._topic
            self._producer.produce(name, message.text, message.key or None, callback=told)
        if self._producer.flush(2.0 * PATIENCE) or wrong:
            raise ConnectionError(f"kafka: {wrong[0] if wrong else 'the broker does not answer'}")

    def close(self) -> None:
        """As `Outlet`."""


@dataclass
class Place:
    """How far a file was sent, and which alarms went on there."""

    offset: int = 0
    alarmed: dict[str, list[str]] = field(default_factory=dict)
    """By key."""

    def messages(self, lines: Sequence[str]) -> list[Sent]:
        """The lines, and alarms that the row before of their stream did not have."""
        found = []
        for line in lines:
            telling = self.alarmed or WORDS in line
            row: dict[str, Any] = json.loads(line) if telling else {"alarms": []}
            key = row.get("key", "")
            before = self.alarmed.pop(key, [])
            for sentence in row["alarms"]:
                if sentence not in before:
                    alarm = {name: row[name] for name in ("key", "row", "time") if name in row}
                    found.append(Sent(to_json(alarm | {"sentence": sentence}), key, True))
            if row["alarms"]:
                self.alarmed[key] = row["alarms"]
            found.append(Sent(line, key or _key(line)))
        return found


def _key(line: str) -> str:
    """The key in a line, as the fleet writes it; '' if there is none."""
    _, found, rest = line[:400].partition('"key": ')
    return json.JSONDecoder().raw_decode(rest)[0] if found else ""


class Sender:
    """Sends a file's lines from a thread of its own: a broker that is gone holds up nothing."""

    def __init__(self, address: str, path: Path):
        self._address, self._path = address, path
        self._note = path.with_name(SENT)
        self._stop, self.more = threading.Event(), threading.Event()
        self.trouble, self.sent = "", 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what is there if the broker takes it at once, and end."""
        self._stop.set()
        self.more.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        pause = SOONEST
        while not self._stop.is_set():
            try:
                outlet = outlet_of(self._address)
                try:
                    self._send(outlet, self._remembered())
                finally:
                    outlet.close()
            except Exception as error:  # whatever a broker's library raises: it is tried again
                self.trouble = f"{type(error).__name__}: {error}"
                self._stop.wait(pause)
                pause = min(2.0 * pause, LATEST)

    def _send(self, outlet: Outlet, place: Place) -> None:
        """All lines as they come; the place is written down now and then, and at the end."""
        last, when = place.offset, time.monotonic()
        while True:
            ending = self._stop.is_set()
            self.more.clear()
            lines, end = self._lines(place.offset)
            if lines:
                outlet.send(place.messages(lines))
                place.offset, self.sent = end, self.sent + len(lines)
                self.trouble = ""
            due = ending or time.monotonic() - when > REMEMBERED
            if due and place.offset != last:
                replace(self._note, to_json(vars(place) | {"to": self._name()}).encode())
                last, when = place.offset, time.monotonic()
            if ending:
                return
            if not lines:
                self.more.wait(POLL)

    def _lines(self, offset: int) -> tuple[list[str], int]:
        """Whole lines from a place on, and the place after them."""
        if not self._path.exists():
            return [], offset
        with self._path.open("rb") as file:
            file.seek(offset)
            data = file.readlines(MOST * 400)
        whole = [line for line in data if line.endswith(b"\n")]
        return [line.decode().rstrip("\n") for line in whole], offset + sum(map(len, whole))

    def _name(self) -> int:
        """Of the address: another one is sent everything."""
        return zlib.crc32(self._address.encode())

    def _remembered(self) -> Place:
        try:
            plain = json.loads(self._note.read_text())
            return (
                Place(plain["offset"], plain["alarmed"]) if plain["to"] == self._name() else Place()
            )
        except (OSError, ValueError, KeyError, TypeError):
            return Place()
