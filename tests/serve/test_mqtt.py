"""MQTT as a broker may send it: in any pieces, far too long, or not at all."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rmcvi.app.serve import mqtt
from rmcvi.app.serve.mqtt import LONGEST, Connection, Published, published

ACCEPTED = b"\x20\x02\x00\x00"


@contextmanager
def connected(answer: bytes = ACCEPTED) -> Iterator[tuple[Connection, socket.socket]]:
    """To somebody who has said this, and who says what the test wants."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        made: list[socket.socket] = []

        def accept() -> None:
            other, _ = server.accept()
            made.append(other)
            other.recv(1000)
            other.sendall(answer)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            client = Connection(server.getsockname(), False, "us", "user", "secret")
            yield client, made[0]
            client.close()
        finally:
            thread.join(10.0)
            made[0].close()


def test_in_any_pieces() -> None:
    """Byte by byte or together; each is acknowledged that asks for it."""
    sent = [("a/b", b"1", 7), ("\N{GREEK SMALL LETTER PI}", b"x" * 300, 0), ("a", b"", 65535)]
    data = b"\x90\x03\x00\x01\x01" + b"".join(published(*each) for each in sent) + b"\xd0\x00"
    expected = [Published(topic, payload, number) for topic, payload, number in sent]
    with connected() as (client, broker):
        found: list[Published] = []
        for i in range(len(data)):
            broker.sendall(data[i : i + 1])
            found += client.read(5.0, 1)
        assert found == expected
        broker.sendall(2 * data)
        while len(found) < 9:
            found += client.read(5.0, 100)
        assert found == 3 * expected
        client.acknowledge(expected)
        broker.settimeout(5.0)
        assert broker.recv(100) == b"\x40\x02\x00\x07\x40\x02\xff\xff"


def test_one_that_is_far_too_long() -> None:
    """Is not kept, and is more than a payload may be; the next one is whole."""
    long = published("a", b"x" * (3 * LONGEST), 1) + published("a", b"2", 2)
    with connected() as (client, broker):
        sender = threading.Thread(target=broker.sendall, args=(long,))
        sender.start()
        found: list[Published] = []
        while len(found) < 2:
            found += client.read(5.0, 1)
            assert len(client._held) <= LONGEST + mqtt.READ
        sender.join()
    assert mqtt.MOST_BYTES < len(found[0].payload) < LONGEST and found[0].number == 1
    assert found[1] == Published("a", b"2", 2)


def test_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not accept us, closes, refuses, talks nonsense, or is heard no more."""
    with pytest.raises(ConnectionError, match="password"), connected(b"\x20\x02\x00\x04"):
        pass
    words = {b"\x90\x03\x00\x01\x80": "refuses", b"\x30\xff\xff\xff\xff": "without a length"}
    for said, sentence in words.items():
        with connected() as (client, broker):
            broker.sendall(said)
            with pytest.raises(ConnectionError, match=sentence):
                client.read(5.0, 1)
    with connected() as (client, broker):
        now = [mqtt.time.monotonic()]
        monkeypatch.setattr("rmcvi.app.serve.mqtt.time.monotonic", lambda: now[0])
        now[0] += 20.0
        assert client.read(0.0, 1) == []
        broker.settimeout(5.0)
        assert broker.recv(10) == mqtt.PING
        now[0] += 25.0  # no answer: the network is cut, which nobody told us
        with pytest.raises(ConnectionError, match="does not answer"):
            client.read(0.0, 1)
