"""Debian's chromium, headless, driven through the pipe of its developer tools.

Commands go in and answers come out as JSON, each ended by a zero byte, on descriptors 3 and 4.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium")
_LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--hide-scrollbars",
    "about:blank",
]
_PATIENCE = 60.0


class Browser:
    """One process; `open` shows a page in it and forgets the one before."""

    def __init__(self, home: Path):
        assert PROGRAM is not None
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        launch = [sys.executable, "-c", _LAUNCH, str(read), str(write), PROGRAM]
        self._process = subprocess.Popen(
            [*launch, f"--user-data-dir={home}", *_OPTIONS],
            pass_fds=(read, write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        try:
            self._attach()
        except AssertionError:
            self.close()
            raise

    def _attach(self) -> None:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        told = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = told["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        """End the process."""
        os.close(self._write)
        os.close(self._read)
        self._process.kill()
        self._process.wait()

    def open(
        self, page: Path, fragment: str = "", *, width: int = 1200, height: int = 900, dark=False
    ) -> None:
        """Show a page and wait until it has drawn."""
        self.send("Page.navigate", url="about:blank")
        self.events.clear()
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=page.as_uri() + fragment)
        self.until("document.documentElement?.dataset.ready !== undefined")
        self.frame()

    def resize(self, width: int, height: int = 900) -> None:
        """A window of this size in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        told = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def frame(self) -> None:
        """Wait for two animation frames, and until all charts are drawn."""
        self.run("new Promise(f => requestAnimationFrame(() => requestAnimationFrame(() => f(1))))")
        self.until("document.documentElement.dataset.settled !== 'no'")

    def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + _PATIENCE
        while not self.run(condition):
            assert time.monotonic() < end, f"never true: {condition}"
            time.sleep(0.02)

    def view(self) -> tuple[int, int]:
        """First and last row in view."""
        self.frame()
        first, last = self.run("document.documentElement.dataset.view").split("-")
        return int(first), int(last)

    def key(self, key: str, shift: bool = False) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {}
        code = {"ArrowLeft": 37, "ArrowRight": 39, "Escape": 27, "Tab": 9}.get(key, 0)
        press = {"key": key, "modifiers": 8 * shift, "windowsVirtualKeyCode": code, **text}
        self.send("Input.dispatchKeyEvent", type="keyDown", **press)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Move, press or release the left button at a place of the window."""
        held = {} if kind == "Moved" and not more else {"button": "left", "clickCount": 1}
        self.send("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, **(held | more))

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """A screenshot as PNG."""
        told = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(told["data"]))

    def pdf(self) -> bytes:
        """The page as it prints."""
        told = self.send("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.7)
        return base64.b64decode(told["data"])

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, violations of the page's own policy."""
        found = []
        for event in self.events:
            method, about = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(json.dumps(about["exceptionDetails"])[:300])
            if method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
                found.append(json.dumps(about["args"])[:300])
            if method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
                found.append(about["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Addresses that the page asked for, without those inside it."""
        events = (e for e in self.events if e["method"] == "Network.requestWillBeSent")
        asked = [e["params"]["request"]["url"] for e in events]
        return [url for url in asked if not url.startswith(("data:", "about:", "blob:"))]

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """A command of the developer tools, and its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._number:
                assert "error" not in told, (method, told["error"])
                return told["result"]
            if "method" in told:
                self.events.append(told)

    def _next(self) -> dict[str, Any]:
        parts = [self._rest]
        while b"\0" not in parts[-1]:
            ready, _, _ = select.select([self._read], [], [], _PATIENCE)
            part = os.read(self._read, 1 << 16) if ready else b""
            assert part, "the browser did not answer"
            parts.append(part)
        text, _, self._rest = b"".join(parts).partition(b"\0")
        return json.loads(text)
