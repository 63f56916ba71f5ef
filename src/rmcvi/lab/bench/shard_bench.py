"""A shard of `rmcvi fleet` from file to file: what a row, a stream and a checkpoint cost.

One process, one column per stream, as many rows of each as it takes to be past the warm-up; the
rate is that of the rows after it.
"""

import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from rmcvi.app.cli.simulate import rhythm
from rmcvi.app.fleet.plan import FleetPlan
from rmcvi.app.fleet.shard import Shard
from rmcvi.app.run.plan import make_plan
from rmcvi.app.sources import first_stream, read

WARM = 32
"""Rows of a stream that are not timed."""
ASKED = 100_000.0
"""Rows a second and core after the warm-up."""


def shard(streams: int, length: int, columns: int = 1) -> dict[str, Any]:
    """Numbers of one shard with so many streams of so many rows."""
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
        FleetPlan(plan, "sensor", 1).write(out)
        found = _run(out, streams)
    return {f"{name}_{streams}": value for name, value in found.items()}


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
    saved, size = one.checkpoint_seconds, one.streams.block.fresh.nbytes
    one.close()
    begun = time.perf_counter()
    Shard(out, 0).close()
    back = time.perf_counter() - begun
    return {
        "shard_per_second": (rows - timed) / costs if costs else np.nan,
        "shard_first_batch_seconds": first,
        "shard_checkpoint_seconds": saved,
        "shard_recovery_seconds": back,
        "shard_bytes_per_stream": size,
    }
