"""`rmcvi demo`: two minutes for newcomers."""

import os
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
"""


@app.command(epilog=EXAMPLES)
def demo(
    out: Annotated[Path, typer.Option(help="Where to put the stream and its run.")] = Path(
        "rmcvi-demo"
    ),
    open_report: OpenReport = False,
    quiet: Quiet = False,
) -> int:
    """Simulate six weeks of hourly sensors, learn them row by row, and write a report.

    The stream has four columns with a daily and a weekly rhythm, gaps, and one sensor that
    repeats its value for forty hours.
    """
    source = out / "stream.csv"
    check_free(out, force=True)
    if (out / RUN).exists() and not source.exists():
        raise Refusal(f"{out}: holds a run that is no demo, expected another directory (--out)")
    rng = np.random.default_rng(7)
    values = rhythm(24 * 7 * WEEKS, len(NAMES), seed=7)
    FROZEN.apply(values, NAMES, rng)
    punch(values, 0.04, rng)
    values[24 * 20 : 24 * 20 + 18] = np.nan
    stream = table(NAMES, values).encode()
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
