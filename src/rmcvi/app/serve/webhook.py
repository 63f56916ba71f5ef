"""New alarms sent to an address: a POST each, signed, tried again until it is taken.

The body is JSON; its signature, hex of HMAC-SHA256 under the secret, is in `X-Rmcvi-Signature`.
"""

import hashlib
import hmac
import json
import os
import queue
import threading
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from rmcvi.app.run.speech import Refusal

SECRET = "RMCVI_WEBHOOK_SECRET"
MOST = 1000
"""Alarms that may wait to be sent; beyond, the newest are dropped and counted."""
SOONEST, LATEST, PATIENCE = 1.0, 60.0, 20
"""Seconds before the second attempt, doubling up to the latter; attempts for an alarm."""
SIGNATURE = "X-Rmcvi-Signature"


def signature(body: bytes, secret: str) -> str:
    """By which the receiver knows that it was us."""
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class Webhook:
    """Sends from a thread of its own: an address that does not answer holds up nothing."""

    def __init__(self, address: str, soonest: float = SOONEST):
        if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
            raise Refusal(f"--webhook: got {address!r}, expected an address with http or https")
        self._address, self._soonest = address, soonest
        self._waiting: queue.Queue[dict[str, Any]] = queue.Queue(MOST)
        self._stop = threading.Event()
        self.sent = self.dropped = 0
        threading.Thread(target=self._run, daemon=True).start()

    def tell(self, alarm: dict[str, Any]) -> None:
        """Send an alarm, sooner or later."""
        try:
            self._waiting.put_nowait(alarm)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Send nothing more."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                alarm = self._waiting.get(timeout=0.5)
            except queue.Empty:
                continue
            if self._deliver(json.dumps(alarm).encode()):
                self.sent += 1
            else:
                self.dropped += 1

    def _deliver(self, body: bytes) -> bool:
        pause = self._soonest
        for _ in range(PATIENCE):
            if self._post(body):
                return True
            if self._stop.wait(pause):
                return False
            pause = min(2.0 * pause, LATEST)
        return False

    def _post(self, body: bytes) -> bool:
        headers = {"content-type": "application/json"}
        if secret := os.environ.get(SECRET):
            headers[SIGNATURE] = signature(body, secret)
        request = urllib.request.Request(self._address, body, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=10.0) as answer:
                return 200 <= answer.status < 300
        except (OSError, ValueError):
            return False
