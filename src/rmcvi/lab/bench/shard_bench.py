"""`rmcvi fleet` from file to file: what a row, a stream, a checkpoint and the driver cost.

Real processes, one for each shard, and this one, which drives them. Each stream has as many rows as
it takes to be past the warm-up; the rate is that of the rows after it, per second of the shards'
processor time. What the driver costs is its share of all processor time.
"""

import os
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from rmcvi.app.cli.simulate import rhythm
from rmcvi.app.fleet import engines
from rmcvi.app.fleet.plan import FleetPlan
from rmcvi.app.fleet.store import Store
from rmcvi.app.fleet.told import Told
from rmcvi.app.run.plan import make_plan
from rmcvi.app.sources import first_stream, read
from rmcvi.lab.bench.measure import Outcome, Target

WARM = 32
"""Rows of a stream that are not timed."""
ROWS, LEAST, MOST = 1 << 20, 40, 96
"""Rows of all streams, at least and at most so many of each."""
ASKED, DRIVER = 100_000.0, 0.1
"""Rows a second and core after the warm-up; the driver's share at most."""


def fleet_of(
    streams: int, columns: int, shards: int, form: str = "jsonl", *, whole: bool = False
) -> Outcome:
    """A fleet of so many streams with so many columns, in so many shards; `whole`: in one piece."""
    length = min(max(ROWS // streams, LEAST), MOST)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "rows.csv", Path(folder) / "run"
        _write(source, streams, length, columns)
        plan = make_plan(
            str(source),
            first_stream(read(source), "sensor"),
            "seasonal",
            0.9,
            0,
            "",
            calendar=[],
            season=["24", "168"],
            follow=False,
            on_bad_row="error",
            limit=None,
            checkpoint_every=10**9,
            whole=whole,
        )
        out.mkdir()
        FleetPlan(plan, "sensor", shards, form=form).write(out)
        found = {"streams": streams, "columns": columns, "shards": shards, "one_piece": whole}
        found |= _run(out, streams, shards)
    speed, share = found["per_second_and_core"], found["driver_share"]
    targets = [
        Target(f"{ASKED:.0f} rows a second and core: {speed:.0f}", speed >= ASKED),
        Target(f"driver at most {DRIVER:.0%} of processor time: {share:.1%}", share <= DRIVER),
    ]
    title = f"rmcvi fleet, {length} rows of each stream; load {os.getloadavg()[0]:.0f}"
    return Outcome("fleet", title, found, [found], targets, quick=False)


def _write(path: Path, streams: int, length: int, columns: int) -> None:
    """Streams side by side, a few shapes of them over and over."""
    shapes = [rhythm(length, columns, seed) for seed in range(min(streams, 16))]
    with path.open("w") as file:
        file.write(",".join(["time", "sensor", *(f"c{i}" for i in range(columns))]) + "\n")
        for t in range(length):
            texts = [",".join(f"{v:.6g}" for v in shape[t]) for shape in shapes]
            hour = (datetime(2026, 1, 1) + timedelta(hours=t)).isoformat()
            file.writelines(f"{hour},s{i},{texts[i % len(texts)]}\n" for i in range(streams))


class _Shard:
    """What a process of a shard has used, as far as it told."""

    def __init__(self) -> None:
        self.first, self.cost, self.rows, self.whole, self.memory = 0.0, 0.0, 0, 0.0, 0.0
        self._begun: tuple[float, int] | None = None

    def hear(self, told: Told, seconds: float) -> None:
        """Something was told, `seconds` after the start."""
        if not told.rows or (told.done and not told.process):
            return
        self.first = self.first or seconds
        try:
            words = Path(f"/proc/{told.process}/stat").read_text().rpartition(")")[2].split()
            status = Path(f"/proc/{told.process}/status").read_text().split("VmHWM:")[1].split()
        except (OSError, IndexError):  # it has ended
            return
        self.whole = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        self.memory = float(status[0]) / 1024.0
        if told.rows <= WARM * told.streams:
            self._begun = self.whole, told.rows
        elif self._begun is not None:
            self.cost, self.rows = self.whole - self._begun[0], told.rows - self._begun[1]


def _run(out: Path, streams: int, shards: int) -> dict[str, Any]:
    begun, busy, told = time.perf_counter(), time.process_time(), []
    seen, last = [_Shard() for _ in range(shards)], [-1] * shards
    for told in engines.run(str(out), shards):
        for number, one in enumerate(told):
            if one.rows != last[number]:
                last[number] = one.rows
                seen[number].hear(one, time.perf_counter() - begun)
    driver = time.process_time() - busy
    back, size = _read_again(out, shards, streams)
    cost = sum(one.cost for one in seen)
    return {
        "per_second_and_core": sum(one.rows for one in seen) / cost if cost else np.nan,
        "first_row_seconds": max(one.first for one in seen),
        "checkpoint_seconds": max(one.checkpoint for one in told),
        "recovery_seconds": back,
        "bytes_per_stream": size,
        "peak_megabytes_of_a_shard": max(one.memory for one in seen),
        "driver_share": driver / (driver + sum(one.whole for one in seen)),
    }


def _read_again(out: Path, shards: int, streams: int) -> tuple[float, float]:
    """Seconds until the streams of a shard are in memory again; bytes of a stream."""
    fleet, found, begun = FleetPlan.read(out), 0, time.perf_counter()
    size = 0
    for number in range(shards):
        store = Store(out / fleet.folder(number))
        store.load()
        states = [np.array(store.get(key).state) for key in store]
        found, size = found + len(states), states[0].nbytes if states else size
    assert found == streams
    return (time.perf_counter() - begun) / shards, float(size)
