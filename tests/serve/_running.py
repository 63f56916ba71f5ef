"""`rmcvi serve` as a process, what to send it, and how to ask it."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.report._browser import PROGRAM, Browser
from tests.serve._brokers import until

JSON = {"content_type": "application/json"}


def ask(port: int, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Status and answer; JSON if it is."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    given = {k.replace("_", "-"): v for k, v in headers.items()}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, given)
    try:
        with urllib.request.urlopen(request, timeout=60.0) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read()
        error.close()
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text.decode()


def row(i: int) -> dict[str, Any]:
    """Two columns with a day; every seventh value of one is missing, and at last it sticks."""
    wave = math.sin(2 * math.pi * i / 24)
    flow = None if i % 7 == 3 else 20 + 3 * wave + ((i * 7919) % 101) / 101
    day, hour = divmod(i, 24)
    level = 5.0 if i > 150 else 5 + ((i * 104729) % 97) / 97
    return {"time": f"2026-01-{day + 1:02d}T{hour:02d}:00:00", "flow": flow, "level": level}


class Running:
    """`rmcvi serve http` as a process."""

    def __init__(self, folder: Path, *words: str, before: str = "pass"):
        """`before`: what is done in the process before it begins."""
        program = f"import sys\n{before}\nfrom rmcvi.app.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "serve", "http", "--out", "run", "--port", "0"]
        command += words
        environment = os.environ | {"JAX_ENABLE_X64": "1"}
        self._said = folder / f"said-{time.monotonic_ns()}"  # a pipe that nobody reads stops it
        with self._said.open("w") as said:
            self.process = subprocess.Popen(command, cwd=folder, stderr=said, env=environment)
        until(lambda: "\n" in self._said.read_text() or self.process.poll() is not None)
        found = re.search(r":(\d+)/", self._said.read_text())
        assert found is not None, self._said.read_text()
        self.port = int(found[1])

    def wait_for(self, rows: int) -> None:
        """Until it has learned from so many."""
        until(lambda: self._learned() >= rows)

    def _learned(self) -> int:
        assert self.process.poll() is None, self._said.read_text()
        return ask(self.port, "/healthz")[1]["rows"]

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        status, errors = self.process.wait(240.0), self._said.read_text()
        assert "Traceback" not in errors, errors
        return status

    def kill(self) -> None:
        """If it still runs."""
        self.process.kill()
        self.process.wait()


def shown(port: int, folder: Path) -> str:
    """The page as a browser has made it, once it has rows and charts."""
    with seen(port, folder) as browser:
        return browser.run("document.documentElement.outerHTML")


@contextmanager
def seen(port: int, folder: Path, key: str = "") -> Iterator[Browser]:
    """A browser that shows the page, of a stream if it is named, in a window that is as high."""
    if PROGRAM is None:
        pytest.skip("Debian's chromium is not installed")
    browser = Browser(folder / "browser")
    try:
        browser.resize(1200, 4000)  # charts are drawn where they can be seen
        browser.send("Page.navigate", url=f"http://127.0.0.1:{port}/#key={key}")
        browser.until(
            "document.documentElement?.dataset.rows > 0 && !!document.querySelector('canvas')"
        )
        browser.frame()
        yield browser
    finally:
        browser.close()
