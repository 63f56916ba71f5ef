"""Brokers whose messages become rows of the journal: MQTT, Redis streams, Kafka.

A message is acknowledged when its rows are on disk. Redis and Kafka number their messages: the
number is in the journal, and whoever starts again asks for those after it, so that each comes once.
MQTT does not: after a crash a message may come twice, and a row that has the time of the row before
is left out by the usual rule.
"""

import json
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable
from urllib.parse import SplitResult, unquote, urlsplit

from rmcvi.app.run.speech import Refusal, printable
from rmcvi.app.serve.intake import Intake, Message
from rmcvi.app.serve.payload import value_of

SOONEST, LATEST = 0.5, 30.0
"""Seconds before a broker that is gone is asked again, doubling up to the latter."""
WAIT = 0.5
"""Seconds between two looks whether to stop."""
TOGETHER = 500
"""Messages that are written to disk together, at most."""
SCHEMES = ("mqtt", "mqtts", "redis", "rediss", "kafka")
TLS = {"mqtts": "mqtt", "rediss": "redis"}
PASSWORD = "RMCVI_BROKER_PASSWORD"
"""Where the password is; with _FILE, a file that holds it. It is never part of an address."""


@runtime_checkable
class Inlet(Protocol):
    """A connection to a broker."""

    def messages(self, intake: Intake) -> Iterator[None]:
        """Give messages to the intake until it stops; a step for each look at the broker."""
        ...


def inlet_of(address: str) -> Inlet:
    """The inlet of an address such as mqtt://broker/plant/pump-7."""
    return connection(address, {"mqtt": Mqtt, "redis": Redis, "kafka": Kafka})


def connection(address: str, kinds: dict[str, Callable[[SplitResult], Any]]) -> Any:
    """What the scheme of an address stands for, made from its parts."""
    parts = urlsplit(address)
    if parts.scheme not in SCHEMES:
        raise Refusal(f"{printable(address)}: expected an address of {', '.join(SCHEMES)}")
    if parts.password:
        raise Refusal(f"{parts.scheme}: got a password in the address, expected it in {PASSWORD}")
    if "#" in address:  # as a topic filter may
        raise Refusal(f"{parts.scheme}: got a # in the address, expected it written as %23")
    if not parts.hostname or not parts.path.strip("/"):
        wanted = f"{parts.scheme}://host:port/name"
        raise Refusal(f"{printable(address)}: expected an address like {wanted}")
    try:
        return kinds[TLS.get(parts.scheme, parts.scheme)](parts)
    except ImportError as error:
        raise Refusal(
            f"{error.name}: is not installed, expected pip install 'rmcvi[serve]'"
        ) from None


def run(inlet: Inlet, intake: Intake) -> None:
    """Keep a broker's messages coming, however often it goes and comes back."""
    pause = SOONEST
    while not intake.stop.is_set():
        try:
            for _ in inlet.messages(intake):
                pause = SOONEST
        except Exception as error:  # whatever a broker's library raises: it is tried again
            intake.trouble = f"{type(error).__name__}: {error}"
        intake.connected = False
        intake.stop.wait(pause)
        pause = min(2.0 * pause, LATEST)


def password() -> str | None:
    """From the environment, or from a file that it names."""
    if path := os.environ.get(f"{PASSWORD}_FILE"):
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    return os.environ.get(PASSWORD)


class Mqtt:
    """Subscribed to a topic, with wildcards; acknowledged by hand."""

    def __init__(self, parts: SplitResult):
        from paho.mqtt import client

        self._client, self._tls = client, parts.scheme == "mqtts"
        self._place = parts.hostname, parts.port or (8883 if self._tls else 1883)
        self._user, self._topic = parts.username, unquote(parts.path.strip("/"))

    def messages(self, intake: Intake) -> Iterator[None]:
        """As `Inlet`."""
        # A session of our own that outlives us: what comes while we are away is kept for us.
        name = f"rmcvi-{zlib.crc32(str(intake.journal.path.resolve()).encode()):08x}"
        version = self._client.CallbackAPIVersion.VERSION2
        client = self._client.Client(version, name, clean_session=False, manual_ack=True)
        if self._tls:
            client.tls_set()
        if self._user:
            client.username_pw_set(unquote(self._user), password())

        def connected(client: Any, _data: Any, _flags: Any, reason: Any, _more: Any) -> None:
            if reason.is_failure:
                intake.trouble = f"mqtt: {reason}"
                return
            intake.connected = True
            client.subscribe(self._topic, qos=1)

        come: list[Any] = []
        client.on_connect = connected
        client.on_message = lambda client, data, message: come.append(message)
        client.connect(*self._place, keepalive=30)
        try:
            while not intake.stop.is_set():
                code, before = client.loop(WAIT), -1
                while not code and before < len(come) < TOGETHER:  # a disk is slower than a broker
                    before, code = len(come), client.loop(0.0)
                intake.take([Message(each.payload, each.topic) for each in come])
                for message in come:
                    client.ack(message.mid, message.qos)
                come.clear()
                if code:
                    raise ConnectionError(self._client.error_string(code))
                yield
        finally:
            client.disconnect()


class Redis:
    """A stream of Redis; each message's field `row` is JSON, or its fields are the row's."""

    def __init__(self, parts: SplitResult):
        import redis

        self._place = {"host": parts.hostname, "port": parts.port or 6379}
        self._place |= {"username": parts.username, "ssl": parts.scheme == "rediss"}
        self._redis, self._name = redis.Redis, unquote(parts.path.strip("/"))

    def messages(self, intake: Intake) -> Iterator[None]:
        """As `Inlet`."""
        last = intake.journal.mark or "0"
        with self._redis(**self._place, password=password()) as client:
            client.ping()
            intake.connected = True
            while not intake.stop.is_set():
                found: Any = client.xread(
                    {self._name: last}, count=TOGETHER, block=int(1000 * WAIT)
                )
                for _, messages in found or ():
                    intake.take(
                        [
                            Message(_as_json(row), self._name, mark.decode())
                            for mark, row in messages
                        ]
                    )
                    last = messages[-1][0].decode()
                yield


def _as_json(fields: dict[bytes, bytes]) -> bytes:
    """A message as an object, unless it is one under the name `row`."""
    if b"row" in fields:
        return fields[b"row"]
    row = {
        k.decode(errors="replace"): value_of(v.decode(errors="replace")) for k, v in fields.items()
    }
    return json.dumps(row).encode()


class Kafka:
    """All partitions of a topic."""

    def __init__(self, parts: SplitResult):
        import confluent_kafka

        self._kafka, self._user = confluent_kafka, parts.username
        self._servers = f"{parts.hostname}:{parts.port or 9092}"
        self._topic = unquote(parts.path.strip("/"))

    def messages(self, intake: Intake) -> Iterator[None]:
        """As `Inlet`."""
        marks = dict(pair.split(":") for pair in (intake.journal.mark or "").split(",") if pair)
        settings: dict[str, Any] = {"bootstrap.servers": self._servers, "group.id": "rmcvi"}
        settings["enable.auto.commit"] = False  # the journal knows the place
        if self._user:
            settings |= {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
            settings |= {"sasl.username": self._user, "sasl.password": password() or ""}
        consumer = self._kafka.Consumer(settings)
        try:
            known = consumer.list_topics(self._topic, timeout=10.0).topics[self._topic].partitions
            if not known:
                raise ConnectionError(f"kafka: no topic {self._topic}")
            begin = self._kafka.OFFSET_BEGINNING
            places = {p: int(marks[str(p)]) + 1 if str(p) in marks else begin for p in known}
            to = self._kafka.TopicPartition
            consumer.assign([to(self._topic, p, offset) for p, offset in places.items()])
            intake.connected = True
            while not intake.stop.is_set():
                come = consumer.consume(TOGETHER, WAIT)
                for error in filter(None, (message.error() for message in come)):
                    raise ConnectionError(str(error))
                intake.take([Message(m.value() or b"", self._topic, _mark(marks, m)) for m in come])
                yield
        finally:
            consumer.close()


def _mark(marks: dict[str, str], message: Any) -> str:
    """The last offset of every partition, this message's among them."""
    marks[str(message.partition())] = str(message.offset())
    return ",".join(f"{partition}:{offset}" for partition, offset in marks.items())
