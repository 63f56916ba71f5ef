"""What an inlet says to an MQTT broker (version 3.1.1), many messages at a time.

A client library reads a message with four calls to the system and answers it with one; here, all
that has come is read at once, and all of it is acknowledged by one write.
"""

import contextlib
import select
import socket
import ssl
import struct
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rmcvi.app.serve.payload import MOST_BYTES

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK = 0x10, 0x20, 0x30, 0x40, 0x82, 0x90
PING, DISCONNECT = b"\xc0\x00", b"\xe0\x00"
KEEP_ALIVE = 30
"""Seconds without a word after which the broker gives us up (at one and a half times that)."""
PATIENCE = 10.0
"""Seconds for an answer, and for a write."""
READ = 1 << 18
"""Bytes that are read at once."""
LONGEST = MOST_BYTES + 0xFFFF + 4
"""Bytes of a message that are looked at: its topic, and more than a payload may have."""
REFUSED = {1: "its version", 2: "our name", 4: "user or password", 5: "our rights"}


class Published(NamedTuple):
    """A message, and the number under which it is acknowledged; 0 if that is not asked for."""

    topic: str
    payload: bytes
    number: int


class Connection:
    """To a broker, with a session of our own that outlives us: what comes meanwhile is kept."""

    def __init__(
        self, place: tuple[str, int], tls: bool, name: str, user: str | None, password: str | None
    ):
        self._socket = socket.create_connection(place, PATIENCE)
        if tls:
            context = ssl.create_default_context()
            self._socket = context.wrap_socket(self._socket, server_hostname=place[0])
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._held, self._skip = bytearray(), 0
        self._heard = self._said = time.monotonic()
        try:
            self._connect(name, user, password)
        except BaseException:
            self._socket.close()
            raise

    def _connect(self, name: str, user: str | None, password: str | None) -> None:
        said = [name, *(text for text in (user, password) if text is not None)]
        flags = (0x80 if user is not None else 0) | (0x40 if password is not None else 0)
        body = text_of("MQTT") + struct.pack("!BBH", 4, flags, KEEP_ALIVE)
        self.say(packet(CONNECT, body + b"".join(map(text_of, said))))
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self._receive(PATIENCE)
            for kind, body in self._packets():  # it is the first one
                if kind != CONNACK or len(body) != 2:
                    raise ConnectionError("mqtt: got another answer than CONNACK")
                if body[1]:
                    what = REFUSED.get(body[1], f"reason {body[1]}")
                    raise ConnectionError(f"mqtt: the broker does not accept us ({what})")
                return
        raise ConnectionError("mqtt: the broker does not answer")

    def subscribe(self, topic: str) -> None:
        """Ask for the messages of a topic, each at least once."""
        self.say(packet(SUBSCRIBE, struct.pack("!H", 1) + text_of(topic) + b"\x01"))

    def read(self, seconds: float, most: int) -> list[Published]:
        """Messages that are there, `most` of them or so; some are waited for so long."""
        found = list(self._messages())
        wait = 0.0 if found else seconds
        while len(found) < most and self._receive(wait):
            found += self._messages()
            wait = 0.0
        now = time.monotonic()
        if now - self._said > KEEP_ALIVE / 2.0:
            self.say(PING)
        if now - self._heard > KEEP_ALIVE + PATIENCE:  # a ping was not answered: it was cut off
            raise ConnectionError("mqtt: the broker does not answer")
        return found

    def acknowledge(self, messages: Sequence[Published]) -> None:
        """Messages that need not be sent again."""
        numbers = [message.number for message in messages if message.number]
        if numbers:
            self.say(b"".join(struct.pack("!BBH", PUBACK, 2, number) for number in numbers))

    def close(self) -> None:
        """Say good-bye if that is possible."""
        with contextlib.suppress(OSError):
            self._socket.sendall(DISCONNECT)
        self._socket.close()

    def say(self, data: bytes) -> None:
        """Send packets."""
        self._socket.settimeout(PATIENCE)
        self._socket.sendall(data)
        self._said = time.monotonic()

    def _receive(self, seconds: float) -> bool:
        """Whether anything came within so long."""
        pending = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
        if not pending and not select.select([self._socket], [], [], seconds)[0]:
            return False
        self._socket.settimeout(PATIENCE)  # with TLS, half a record may be there
        data = self._socket.recv(READ)
        if not data:
            raise ConnectionError("mqtt: the broker has closed the connection")
        self._heard = time.monotonic()
        passed = min(self._skip, len(data))
        self._skip -= passed
        self._held += data[passed:]
        return True

    def _messages(self) -> Iterator[Published]:
        for kind, body in self._packets():
            if kind & 0xF0 == PUBLISH:
                yield _message(kind, body)
            elif kind == SUBACK and body[2:3] == b"\x80":
                raise ConnectionError("mqtt: the broker refuses the subscription")

    def _packets(self) -> Iterator[tuple[int, bytes]]:
        """Whole packets; of one that is far too long, the beginning."""
        held, at = self._held, 0
        try:
            while (found := _extent(held, at)) is not None:
                start, length = found
                end = start + min(length, LONGEST)
                if end > len(held):
                    return
                kind, body = held[at], bytes(held[start:end])
                at = start + length
                yield kind, body
        finally:
            self._skip += max(0, at - len(held))
            del held[:at]


def _extent(held: bytearray, at: int) -> tuple[int, int] | None:
    """Where the content of a packet begins, and its length; None if that has not come."""
    length = 0
    for k in range(4):
        if at + 1 + k >= len(held):
            return None
        digit = held[at + 1 + k]
        length |= (digit & 0x7F) << (7 * k)
        if digit < 0x80:
            return at + 2 + k, length
    raise ConnectionError("mqtt: got a packet without a length")


def _message(kind: int, body: bytes) -> Published:
    number, begin = 0, 2 + int.from_bytes(body[:2], "big")
    topic = body[2:begin].decode("utf-8", "replace")
    if kind & 0x06:
        number = int.from_bytes(body[begin : begin + 2], "big")
        begin += 2
    return Published(topic, body[begin:], number)


def published(topic: str, payload: bytes, number: int) -> bytes:
    """A message that asks to be acknowledged; without a number, one that does not."""
    asked = struct.pack("!H", number) if number else b""
    return packet(PUBLISH | (0x02 if number else 0), text_of(topic) + asked + payload)


def packet(kind: int, body: bytes) -> bytes:
    """With its length."""
    digits, rest = bytearray(), len(body)
    while rest > 0x7F:
        digits.append(rest & 0x7F | 0x80)
        rest >>= 7
    digits.append(rest)
    return bytes([kind]) + digits + body


def text_of(text: str) -> bytes:
    """With its length."""
    data = text.encode()
    return struct.pack("!H", len(data)) + data
