"""`live`: from a row sent to `rmcvi serve` to its estimate on a page, and rows a second.

A real process, one column, rows through a real broker (Debian's mosquitto; by HTTP where it is not
installed). They are sent one by one, and events are read as a page reads them; then as many as it
takes, and the processor's time of the service for each, which says more on a busy machine.
"""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rmcvi.lab.bench.measure import Outcome, Target

PACE = 100.0
"""Rows a second while latency is measured."""
WARM = 200
"""Rows before that: the learner's program is compiled, and its warm-up is over."""
BATCH = 1000
CONFIG = "listener {} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
INFLIGHT = 500
CONFIG += f"max_inflight_messages {INFLIGHT}\n"
"""With mosquitto's usual 20 on the way at a time, a slow disk is waited for every 20 rows."""
JSON = {"content-type": "application/json"}


Send = Callable[[Any], None]


def live(quick: bool = False) -> Outcome:
    """From a row sent to its estimate, and rows a second, through `rmcvi serve`."""
    singles, batches = (50, 1) if quick else (1000, 20)
    values = np.random.default_rng(0).standard_normal(WARM + singles + BATCH * batches)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as parts:
        address, through, sender = _source(Path(folder), parts)
        process, port = parts.enter_context(_serving(folder, address))
        _wait_for(port, "connected", 1)
        send = sender(port)
        send(values[:WARM])
        _wait_for(port, "rows", WARM)
        arrived = _Arrivals(port)
        sent = np.zeros(singles)
        for i, value in enumerate(values[WARM : WARM + singles]):
            sent[i] = time.perf_counter()
            send([value])
            time.sleep(max(0.0, sent[i] + 1.0 / PACE - time.perf_counter()))
        _wait_for(port, "rows", WARM + singles)
        delays = 1e3 * (arrived.at(WARM + 1, singles) - sent)
        begun, used = time.perf_counter(), _used(process)
        for k in range(batches):
            start = WARM + singles + BATCH * k
            send(values[start : start + BATCH])
        _wait_for(port, "rows", len(values))
        rate = BATCH * batches / (time.perf_counter() - begun)
        cost = 1e6 * (_used(process) - used) / (BATCH * batches)
    median, late = (float(np.quantile(delays, q)) for q in (0.5, 0.99))
    numbers = {"median_ms": median, "p99_ms": late, "rows_per_second": rate}
    numbers |= {"processor_us_per_row": cost, "load": os.getloadavg()[0]}
    targets = [
        Target(f"median under 10 ms at {PACE:.0f} rows a second: {median:.1f}", median < 10.0),
        Target(f"99th percentile under 50 ms: {late:.1f}", late < 50.0),
        Target(f"5 000 rows a second of one column: {rate:.0f}", rate >= 5000.0),
    ]
    rows = [{"what": name, "value": value} for name, value in numbers.items()]
    return Outcome("live", f"A row through rmcvi serve, {through}", numbers, rows, targets, quick)


def _source(folder: Path, parts: ExitStack) -> tuple[str, str, Callable[[int], Send]]:
    """What the service takes rows from, in words too, and how to send some once it is there."""
    program = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
    if program is None:
        return "http", "by HTTP", lambda port: partial(_post, _connection(port))
    with socket.create_server(("127.0.0.1", 0)) as free:
        broker = free.getsockname()[1]
    config = folder / "mosquitto.conf"
    config.write_text(CONFIG.format(broker))
    words, nothing = [program, "-c", str(config)], subprocess.DEVNULL
    process = parts.enter_context(subprocess.Popen(words, stdout=nothing, stderr=nothing))
    parts.callback(process.kill)
    return f"mqtt://127.0.0.1:{broker}/bench", "by MQTT", lambda port: _Publisher(broker).send


def _connection(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port)


class _Publisher:
    """Sends each row as a message, without waiting until it is acknowledged."""

    def __init__(self, port: int):
        from paho.mqtt import client
        from paho.mqtt.enums import CallbackAPIVersion

        self._client = client.Client(CallbackAPIVersion.VERSION2, "bench")
        self._client.max_queued_messages_set(0)
        self._client.max_inflight_messages_set(INFLIGHT)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def send(self, values: Any) -> None:
        for value in values:
            self._client.publish("bench", json.dumps({"value": float(value)}), qos=1)


@contextmanager
def _serving(folder: str, source: str) -> Iterator[tuple[int, int]]:
    """The service's process and port."""
    command = [sys.executable, "-m", "rmcvi", "serve", source, "--port", "0", "--season", "24"]
    words = [*command, "--out", os.path.join(folder, "run")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, bufsize=1) as process:
        try:
            assert process.stderr is not None
            found = re.search(r":(\d+)/", process.stderr.readline())
            if found is None:
                raise RuntimeError(f"rmcvi serve did not start: {process.stderr.read()}")
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield process.pid, int(found[1])
        finally:
            process.terminate()


def _used(process: int) -> float:
    """Seconds of processor time; NaN where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _post(asked: http.client.HTTPConnection, values: Any) -> None:
    rows = json.dumps([{"value": float(value)} for value in values])
    asked.request("POST", "/rows", rows, JSON)
    answer = asked.getresponse()
    text = answer.read()
    if answer.status != 202:
        raise RuntimeError(text.decode())


def _wait_for(port: int, what: str, least: int, seconds: float = 300.0) -> None:
    asked = _connection(port)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        asked.request("GET", "/healthz")
        if json.loads(asked.getresponse().read())[what] >= least:
            return
        time.sleep(0.01)
    raise RuntimeError(f"rmcvi serve has not {least} {what} after {seconds:.0f} s")


class _Arrivals:
    """When each row came, as a page sees it."""

    def __init__(self, port: int):
        self._when: dict[int, float] = {}
        self._asked = http.client.HTTPConnection("127.0.0.1", port)
        self._asked.request("GET", "/events")
        self._answer = self._asked.getresponse()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while line := self._answer.readline():
            now = time.perf_counter()
            if line.startswith(b'data: {"rows"'):
                for row in json.loads(line[6:])["rows"]:
                    self._when.setdefault(row["row"], now)

    def at(self, first: int, count: int, seconds: float = 30.0) -> np.ndarray:
        """Times of some rows, once all of them are there."""
        end = time.perf_counter() + seconds
        while first + count - 1 not in self._when:
            if time.perf_counter() > end:
                raise RuntimeError(f"row {first + count - 1} was not told in {seconds:.0f} s")
            time.sleep(0.01)
        return np.array([self._when[first + i] for i in range(count)])
