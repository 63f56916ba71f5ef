"""A source of many streams, a cheap learner, and how to begin a fleet here."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from rmcvi.app.fleet.plan import FleetPlan
from rmcvi.app.fleet.remote import as_directory
from rmcvi.app.fleet.shard import Shard
from rmcvi.app.run.plan import make_plan
from rmcvi.app.sources import first_stream, read

CHEAP = """
import os, time, rmcvi
from rmcvi.app.fleet import shard

class Raw(rmcvi.baselines.Persistence):
    units = "raw"

def make(columns, inputs):
    if "SLOWLY" in os.environ:  # small batches, so that a signal meets a run that is going on
        shard.ROWS, shard.STREAM_ROWS, shard.SHARE = 40, 1, 0.0
        learn = shard.Streams.learn
        shard.Streams.learn = lambda *given: time.sleep(0.2) or learn(*given)
    return Raw(columns, inputs)

def standard(columns, inputs):
    return rmcvi.baselines.Persistence(columns, inputs)
"""
MODEL, STANDARD = "cheap_fleet:make", "cheap_fleet:standard"
KEYS, ROWS = 9, 120


def make_source(folder: Path, keys: int = KEYS, rows: int = ROWS) -> Path:
    """Streams of two columns side by side, some with gaps and one that joins late.

    Of the first four, one jumps to a new level, one is stuck, one has no value for long, and one
    has only one of the columns.
    """
    (folder / "cheap_fleet.py").write_text(CHEAP)
    rng = np.random.default_rng(3)
    walks = rng.normal(size=(rows, keys, 2)).cumsum(0)
    walks[70:, 0, 0] += 100.0
    walks[60:, 1, 1] = walks[59:60, 1, 1]
    walks[30:, 2, 0], walks[:, 3, 0] = np.nan, np.nan
    lines = ["time,sensor,flow,heat"]
    for t in range(rows):
        for k in range(keys):
            late, absent = k == keys - 1 and t < 40, rng.uniform() < 0.05
            if late or absent:
                continue
            seen = (rng.uniform(size=2) < 0.95) & ~np.isnan(walks[t, k])
            cells = [f"{v:.5f}" if s else "" for v, s in zip(walks[t, k], seen, strict=True)]
            day, hour = 1 + t // 24, t % 24
            lines.append(f"2026-01-{day:02d}T{hour:02d}:00:00,pump {k},{','.join(cells)}")
    path = folder / "plant.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def begin(
    source: Path,
    out: Path,
    shards: int,
    bad: str = "error",
    every: int = 100,
    model: str = MODEL,
    **options: Any,
) -> FleetPlan:
    """A fleet of which nothing was learned yet."""
    plan = make_plan(
        str(source),
        first_stream(read(source, on_bad_row=bad), "sensor"),
        model,
        0.9,
        0,
        "2026-01-01",
        calendar=[],
        season=[],
        follow=False,
        on_bad_row=bad,
        limit=None,
        checkpoint_every=every,
    )
    out.mkdir()
    made = FleetPlan(plan, "sensor", shards, **options)
    made.write(out)
    return made


def finish(out: Path, shards: int, model: str = MODEL) -> None:
    """All shards to their end, one after the other."""
    for number in range(shards):
        shard = Shard(out, number, model)
        for _ in shard.run():
            pass
        shard.close()


def leave_often(out: Path, number: int, seed: int, drop: float = 0.0, model: str = MODEL) -> None:
    """A shard to its end, left again and again as if killed: then nothing is saved.

    After a checkpoint, each stream leaves the memory with probability `drop`.
    """
    rng, done = np.random.default_rng(seed), False
    while not done:
        shard = Shard(out, number, model)
        shard.save, save = (lambda: None), shard.save  # a kill does not save
        for told, _ in zip(shard.run(), range(int(rng.integers(1, 6))), strict=False):
            if rng.uniform() < 0.5:
                save()
                shard.residents.drop([k for k in shard.streams.keys if rng.uniform() < drop])
            done = told.done
        if done:
            save()
        shard.close()


def output(out: Path) -> list[str]:
    """All lines by key and row."""
    lines = [line for p in out.glob("estimates-*.jsonl") for line in p.read_text().splitlines()]

    def place(line: str) -> Any:
        plain = json.loads(line)
        return plain["key"], plain["row"]

    return sorted(lines, key=place)


def published(place: str) -> list[str]:
    """What counts of the output, by key and row."""
    with as_directory(place, outputs=True) as directory:
        parts = sorted(directory.glob("estimates-*/part-*.jsonl"))
        (directory / "estimates-all.jsonl").write_text("".join(p.read_text() for p in parts))
        return output(directory)
