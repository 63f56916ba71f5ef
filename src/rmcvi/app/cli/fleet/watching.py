"""A fleet under way: all shards to their end, with a line about how far they are."""

import sys
import time
from collections.abc import Iterable
from pathlib import Path

from rmcvi.app.fleet import engines
from rmcvi.app.fleet.opened import OpenedFleet
from rmcvi.app.fleet.plan import FleetPlan
from rmcvi.app.fleet.shard import Told
from rmcvi.app.run.speech import printable, say
from rmcvi.app.run.stopper import Interrupted, Stopper


def run_shards(
    out: Path, plan: FleetPlan, address: str | None, model: str | None, quiet: bool
) -> int:
    """All shards to the end, with a line about how far they are."""
    with Stopper() as stopper:
        try:
            told = _watch(engines.run(out, plan.shards, model, address=address), stopper, quiet)
        except Interrupted:
            told = []
    opened = OpenedFleet(out, model)
    if not quiet:
        for sentence in opened.counts.describe():
            say(printable(sentence))
    if stopper.asked():  # what the shards told last is less than what they have saved since
        say(f"Stopped; `rmcvi fleet resume {out}` goes on, `rmcvi fleet inspect {out}` says where.")
    elif not quiet:
        rows, streams = sum(t.rows for t in told), sum(t.streams for t in told)
        say(f"{rows} rows of {streams} streams, {sum(t.failing for t in told)} of them failing.")
    return stopper.status


def _watch(progress: Iterable[list[Told]], stopper: Stopper, quiet: bool) -> list[Told]:
    line, begun, told = not quiet and sys.stderr.isatty(), time.perf_counter(), []
    first: int | None = None
    for told in progress:
        rows = sum(t.rows for t in told)
        first = rows if first is None else first
        if line:
            rate = (rows - first) / max(time.perf_counter() - begun, 1e-9)
            words = f"{rows} rows of {sum(t.streams for t in told)} streams, {rate:.0f}/s"
            lag, failing = max(t.left for t in told), sum(t.failing for t in told)
            words += f", {lag / 1e6:.1f} MB behind, {failing} streams failing"
            say(f"\r\x1b[K{words}", end="")
        if stopper.asked():
            break
    if line:
        say("")
    if stopper.asked():
        say("Stopping: each shard finishes its batch, which may have to be compiled, and saves.")
    return told
