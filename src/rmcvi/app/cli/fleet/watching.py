"""A fleet under way: all shards to their end, with a line about how far they are."""

import sys
import time
from collections.abc import Iterable

from rmcvi.app.fleet import engines
from rmcvi.app.fleet.opened import OpenedFleet
from rmcvi.app.fleet.plan import FleetPlan
from rmcvi.app.fleet.remote import as_directory
from rmcvi.app.fleet.told import Told
from rmcvi.app.run.speech import printable, say
from rmcvi.app.run.stopper import Interrupted, Stopper


def run_shards(
    out: str, plan: FleetPlan, address: str | None, model: str | None, quiet: bool
) -> int:
    """All shards to the end, with a line about how far they are."""
    with Stopper() as stopper:
        try:
            told = _watch(engines.run(out, plan.shards, model, address=address), stopper, quiet)
        except Interrupted:
            told = []
    if not quiet:
        with as_directory(out) as directory:
            for sentence in OpenedFleet(directory, model).counts.describe():
                say(printable(sentence))
    if stopper.asked():  # what the shards told last is less than what they have saved since
        say(f"Stopped; `rmcvi fleet resume {out}` goes on, `rmcvi fleet inspect {out}` says where.")
    elif not quiet:
        rows, streams = sum(t.rows for t in told), sum(t.streams for t in told)
        if rows and all(t.rows == t.begun for t in told):
            say(printable(f"Nothing new: {plan.plan.source} ends with row {rows}."))
        say(f"{rows} rows of {streams} streams, {sum(t.failing for t in told)} of them failing.")
    return stopper.status


def _watch(progress: Iterable[list[Told]], stopper: Stopper, quiet: bool) -> list[Told]:
    line, begun, told = not quiet and sys.stderr.isatty(), time.perf_counter(), []
    first, doing = (begun, 0), ""
    for told in progress:
        now, rows = time.perf_counter(), sum(t.rows for t in told)
        new = next((t.doing for t in told if t.doing), "")
        if new or not rows:
            first = now, rows  # the rate is that of learning
        words = f"{new} ({now - begun:.0f} s)" if new else "starting"
        if rows and not new:
            rate = (rows - first[1]) / max(now - first[0], 1e-9)
            words = f"{rows} rows of {sum(t.streams for t in told)} streams, {rate:.0f}/s"
            lag, failing = max(t.left for t in told), sum(t.failing for t in told)
            words += f", {lag / 1e6:.1f} MB behind, {failing} streams failing"
        if line:
            say(f"\r\x1b[K{words}", end="")
        elif new != doing and new and not quiet:
            say(f"{new[0].upper()}{new[1:]}.")
        doing = new
        if stopper.asked():
            break
    if line:
        say("")
    if stopper.asked():
        say("Stopping." if doing else "Stopping: each shard finishes its batch and saves.")
    return told
