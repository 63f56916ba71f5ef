"""A shard of `rmcvi fleet` from file to file: what a row, a stream and a checkpoint cost.

One process, as many rows of each stream as it takes to be past the warm-up; the rate is that of the
rows after it, by processor time, with a checkpoint every half minute.
"""

import resource
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from rmcvi.app.cli.simulate import rhythm
from rmcvi.app.fleet.plan import FleetPlan
from rmcvi.app.fleet.shard import Shard
from rmcvi.app.fleet.store import Store
from rmcvi.app.run.plan import make_plan
from rmcvi.app.sources import first_stream, read

WARM = 32
"""Rows of a stream that are not timed."""
ASKED = 100_000.0
"""Rows a second and core after the warm-up."""


def shard(streams: int, length: int, columns: int = 1, form: str = "jsonl") -> dict[str, Any]:
    """Numbers of one shard with so many streams of so many rows and columns."""
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
        )
        out.mkdir()
        FleetPlan(plan, "sensor", 1, form=form).write(out)
        found = _run(out, streams)
    case = f"{streams}_{columns}_{form}"
    return {f"{name}_{case}": value for name, value in found.items()}


def _write(path: Path, streams: int, length: int, columns: int) -> None:
    """Streams side by side, a few shapes of them over and over."""
    shapes = [rhythm(length, columns, seed) for seed in range(min(streams, 16))]
    with path.open("w") as file:
        file.write(",".join(["time", "sensor", *(f"c{i}" for i in range(columns))]) + "\n")
        for t in range(length):
            texts = [",".join(f"{v:.6g}" for v in shape[t]) for shape in shapes]
            hour = (datetime(2026, 1, 1) + timedelta(hours=t)).isoformat()
            file.writelines(f"{hour},s{i},{texts[i % len(texts)]}\n" for i in range(streams))


def _run(out: Path, streams: int) -> dict[str, Any]:
    begun = time.perf_counter()
    one, first = Shard(out, 0), 0.0
    busy, timed, costs, rows = time.process_time(), 0, 0.0, 0
    for told in one.run():
        first = first or time.perf_counter() - begun
        now = time.process_time()
        if told.rows > WARM * streams and not told.done and timed:
            costs += now - busy
        elif not told.done:
            costs, timed = 0.0, max(told.rows, 1)
        rows, busy = told.rows, time.process_time()
    saved, size = one.checkpoint_seconds, one.streams.group(0).streams.block.fresh.nbytes
    one.close()
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    store = Store(out / FleetPlan.read(out).folder(0))
    store.load()
    states = [np.array(store.get(key).state) for key in store]
    back = time.perf_counter() - begun
    assert len(states) == streams
    return {
        "shard_per_second": (rows - timed) / costs if costs else np.nan,
        "shard_first_batch_seconds": first,
        "shard_checkpoint_seconds": saved,
        "shard_recovery_seconds": back,
        "shard_bytes_per_stream": size,
        "shard_peak_megabytes": held / 1024.0,
    }
