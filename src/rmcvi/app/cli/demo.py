"""`rmcvi demo`: two minutes for newcomers."""

import contextlib
import json
import os
import threading
import time
import urllib.request
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.learn import learn
from rmcvi.app.cli.options import OpenReport, Quiet
from rmcvi.app.cli.simulate import Failure, punch, rhythm, table
from rmcvi.app.run.directory import REPORT, RUN, check_free
from rmcvi.app.run.speech import Refusal
from rmcvi.core.files import replace

NAMES = ["traffic", "ozone", "power [kW]", "flow [l/s]"]
WEEKS = 6
FROZEN = Failure("power [kW]", 24 * 33 + 5, 40, "freeze")
EXAMPLES = """
[bold]Examples[/bold]

rmcvi demo

rmcvi demo --out try.run --open

rmcvi demo --live
"""
PACE = 20.0
"""Rows a second of the live demo: an hour in the twentieth of a second."""


@app.command(epilog=EXAMPLES)
def demo(
    out: Annotated[Path, typer.Option(help="Where to put the stream and its run.")] = Path(
        "rmcvi-demo"
    ),
    live: Annotated[
        bool, typer.Option("--live", help="Feed the sensors to a service with a page to watch.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of that page.", min=1)] = 8080,
    open_report: OpenReport = False,
    quiet: Quiet = False,
) -> int:
    """Simulate six weeks of hourly sensors, learn them row by row, and write a report.

    The stream has four columns with a daily and a weekly rhythm, gaps, and one sensor that
    repeats its value for forty hours. With --live, twenty hours pass in a second.
    """
    if live:
        return _live(out.with_name(f"{out.name}-live"), port, quiet)
    source = out / "stream.csv"
    check_free(out, force=True)
    if (out / RUN).exists() and not source.exists():
        raise Refusal(f"{out}: holds a run that is no demo, expected another directory (--out)")
    stream = table(NAMES, _values()).encode()
    if source.exists() and source.read_bytes() != stream:
        raise Refusal(f"{source}: is not the demo's, expected another directory (--out)")
    out.mkdir(parents=True, exist_ok=True)
    replace(source, stream)
    status = learn(
        os.fspath(source), out=os.fspath(out), force=True, quiet=quiet, open_report=open_report
    )
    report = out / REPORT
    if report.exists():
        print(report)
    return status


def _values() -> np.ndarray:
    rng = np.random.default_rng(7)
    values = rhythm(24 * 7 * WEEKS, len(NAMES), seed=7)
    FROZEN.apply(values, NAMES, rng)
    punch(values, 0.04, rng)
    values[24 * 20 : 24 * 20 + 18] = np.nan
    return values


def _live(out: Path, port: int, quiet: bool) -> int:
    """The same rows, one by one, to `rmcvi serve http`; a run that is there is fed the rest."""
    from rmcvi.app.cli.serve import serve

    journal = out / "rows.jsonl"
    done = journal.read_bytes().count(b"\n") if journal.exists() else 0
    threading.Thread(target=_feed, args=(port, done), daemon=True).start()
    return serve("http", out, port=port, quiet=quiet)


def _feed(port: int, done: int) -> None:
    """Rows by POST until they are all sent; the first ones wait for the service."""
    begin = datetime(2026, 1, 5)
    for i, row in enumerate(_values()[done:], done):
        moment = (begin + timedelta(hours=i)).isoformat()
        named = {k: float(v) if np.isfinite(v) else None for k, v in zip(NAMES, row, strict=True)}
        body = json.dumps({"time": moment, **named}).encode()
        where = f"http://127.0.0.1:{port}/rows"
        request = urllib.request.Request(where, body, {"content-type": "application/json"})
        for _ in range(100):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(request).close()
                break
            time.sleep(0.1)
        time.sleep(1.0 / PACE)
