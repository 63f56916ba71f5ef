"""`live`: from a row sent to `rmcvi serve` to its estimate on a page, and rows a second.

A real process, one column; rows are sent one by one by HTTP, and events are read as a page reads
them. Then as many rows as it takes, in requests of a thousand.
"""

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from rmcvi.lab.bench.measure import Outcome, Target

PACE = 100.0
"""Rows a second while latency is measured."""
WARM = 200
"""Rows before that: the learner's program is compiled, and its warm-up is over."""
BATCH = 1000
JSON = {"content-type": "application/json"}


def live(quick: bool = False) -> Outcome:
    """From a row sent to its estimate, and rows a second, through `rmcvi serve http`."""
    singles, batches = (50, 1) if quick else (1000, 20)
    values = np.random.default_rng(0).standard_normal(WARM + singles + BATCH * batches)
    with tempfile.TemporaryDirectory() as folder, _serving(folder) as port:
        asked = http.client.HTTPConnection("127.0.0.1", port)
        _post(asked, values[:WARM])
        _wait_for(asked, WARM)
        arrived = _Arrivals(port)
        sent = np.zeros(singles)
        for i, value in enumerate(values[WARM : WARM + singles]):
            sent[i] = time.perf_counter()
            _post(asked, [value])
            time.sleep(max(0.0, sent[i] + 1.0 / PACE - time.perf_counter()))
        _wait_for(asked, WARM + singles)
        delays = 1e3 * (arrived.at(WARM + 1, singles) - sent)
        begun = time.perf_counter()
        for k in range(batches):
            start = WARM + singles + BATCH * k
            _post(asked, values[start : start + BATCH])
        _wait_for(asked, len(values))
        rate = BATCH * batches / (time.perf_counter() - begun)
    median, late = (float(np.quantile(delays, q)) for q in (0.5, 0.99))
    numbers = {"median_ms": median, "p99_ms": late, "rows_per_second": rate}
    targets = [
        Target(f"median under 10 ms at {PACE:.0f} rows a second: {median:.1f}", median < 10.0),
        Target(f"99th percentile under 50 ms: {late:.1f}", late < 50.0),
        Target(f"5 000 rows a second of one column: {rate:.0f}", rate >= 5000.0),
    ]
    rows = [{"what": name, "value": value} for name, value in numbers.items()]
    return Outcome("live", "A row through rmcvi serve", numbers, rows, targets, quick)


@contextmanager
def _serving(folder: str) -> Iterator[int]:
    """The service's port."""
    command = [sys.executable, "-m", "rmcvi", "serve", "http", "--port", "0", "--season", "24"]
    words = [*command, "--out", os.path.join(folder, "run")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, bufsize=1) as process:
        try:
            assert process.stderr is not None
            found = re.search(r":(\d+)/", process.stderr.readline())
            if found is None:
                raise RuntimeError(f"rmcvi serve did not start: {process.stderr.read()}")
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield int(found[1])
        finally:
            process.terminate()


def _post(asked: http.client.HTTPConnection, values: Any) -> None:
    rows = json.dumps([{"value": float(value)} for value in values])
    asked.request("POST", "/rows", rows, JSON)
    answer = asked.getresponse()
    text = answer.read()
    if answer.status != 202:
        raise RuntimeError(text.decode())


def _wait_for(asked: http.client.HTTPConnection, rows: int, seconds: float = 300.0) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        asked.request("GET", "/healthz")
        if json.loads(asked.getresponse().read())["rows"] >= rows:
            return
        time.sleep(0.01)
    raise RuntimeError(f"rmcvi serve did not learn {rows} rows in {seconds:.0f} s")


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
