"""The service beside the run: a web server and a broker's inlet, each in a thread of its own."""

import os
import socket
import threading
from pathlib import Path

import uvicorn

from rmcvi.app.run.speech import Refusal
from rmcvi.app.serve.hub import Hub
from rmcvi.app.serve.inlets import Inlet, run
from rmcvi.app.serve.intake import Intake
from rmcvi.app.serve.web import Tokens, Web

LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOKEN, READ_TOKEN = "RMCVI_TOKEN", "RMCVI_READ_TOKEN"
"""Where tokens are, for all and for reading alone; with _FILE, files that hold them."""
READERS = 500
"""Most requests at a time, open pages among them."""
SHORTEST = 16
"""Characters of a token."""


def tokens(host: str) -> Tokens:
    """From the environment; without any, only this machine is listened to."""
    found = Tokens(_secret(READ_TOKEN), _secret(TOKEN))
    for token in (found.read, found.write):
        if token is not None and len(token) < SHORTEST:
            raise Refusal(f"{TOKEN}: got {len(token)} characters, expected at least {SHORTEST}")
    if host not in LOOPBACK and found.write is None:
        raise Refusal(f"--host: got {host}, which others can reach, but no {TOKEN} is set")
    return found


def _secret(name: str) -> str | None:
    if path := os.environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise Refusal(f"{name}_FILE: {error.strerror or error}") from None
    return os.environ.get(name) or None


class Service:
    """Runs until it is closed."""

    def __init__(
        self,
        hub: Hub,
        intake: Intake | None,
        inlet: Inlet | None,
        at: tuple[str, int],
        readers: int = READERS,
    ):
        self._intake = intake
        host, port = at
        known = tokens(host)
        try:
            self._socket = socket.create_server(
                at, family=socket.AF_INET6 if ":" in host else socket.AF_INET
            )
        except OSError as error:
            raise Refusal(
                f"--port: {host}:{port} cannot be listened at ({error.strerror})"
            ) from None
        self.port: int = self._socket.getsockname()[1]
        hosts = ["*"] if host in ("0.0.0.0", "::") else [*LOOPBACK, "[::1]", host]
        web = Web(hub, intake, known).application(hosts)
        settings = uvicorn.Config(
            web,
            log_level="error",
            access_log=False,
            limit_concurrency=readers,
            lifespan="off",
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(settings)
        self._threads = [
            threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        ]
        if inlet is not None and intake is not None:
            self._threads.append(threading.Thread(target=run, args=(inlet, intake), daemon=True))
        elif intake is not None:
            intake.connected = True
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop both."""
        self._server.should_exit = True
        if self._intake is not None:
            self._intake.stop.set()
        for thread in self._threads:
            thread.join(5.0)
        self._socket.close()
