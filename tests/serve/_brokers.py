"""Real brokers on loopback, and how to wait for what they do."""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def until(condition: Callable[[], bool], seconds: float = 240.0) -> None:
    """Wait for it; so long only what never comes lets a test fail, and no busy machine."""
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


def answers(call: Callable[[], Any]) -> bool:
    try:
        call()
    except Exception:
        return False
    return True


@contextmanager
def mosquitto(folder: Path) -> Iterator[int]:
    """The port of one."""
    port, config = free_port(), folder / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    with broker("mosquitto", "-c", str(config)):
        until(lambda: answers(lambda: socket.create_connection(("127.0.0.1", port)).close()))
        yield port


@contextmanager
def redis_server(folder: Path) -> Iterator[Any]:
    """A client of one."""
    redis = pytest.importorskip("redis")
    port = free_port()
    place = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with broker("redis-server", *place):
        client = redis.Redis(port=port)
        until(lambda: answers(client.ping))
        yield client
