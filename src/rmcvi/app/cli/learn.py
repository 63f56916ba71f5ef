"""`rmcvi learn`: from a source to estimates, a checkpoint and a report."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from rmcvi.app.cli.commands import LOST, app
from rmcvi.app.cli.grouping import grouped
from rmcvi.app.cli.groups import DisplayOptions, LearnOptions
from rmcvi.app.cli.options import Emissions, listed
from rmcvi.app.cli.report import make as write_report
from rmcvi.app.run.directory import Directory, Kept
from rmcvi.app.run.engine import Engine
from rmcvi.app.run.plan import Plan
from rmcvi.app.run.progress import Progress
from rmcvi.app.run.stopper import Stopper, unless_asked
from rmcvi.app.sources import Disordered, Stream

EXAMPLES = """
[bold]Examples[/bold]

rmcvi learn air.csv --out air.run

rmcvi learn air.csv --format csv | cut -d, -f1-5

tail -f log.csv | rmcvi learn - --format jsonl

rmcvi learn log.csv --follow --out log.run --on-bad-row skip

rmcvi learn air.csv --columns co,nox --input wind --calendar hour,week --out air.run

rmcvi learn sales.csv --season 12 --out sales.run

rmcvi learn shop.csv --emission visits=poisson --out shop.run

rmcvi learn air.csv --model my.toml --out other.run
"""


@dataclass(frozen=True)
class TextOptions:
    """How the cells of a text are text."""

    delimiter: Annotated[
        str | None, typer.Option(help="What stands between cells; 'tab' for a tab.")
    ] = None
    missing: Annotated[
        list[str] | None,
        typer.Option(metavar="VALUES", help="What means a missing value, such as -999,broken."),
    ] = None

    def asked(self) -> dict[str, Any]:
        """For `read`."""
        return {
            "delimiter": {"tab": "\t"}.get(self.delimiter or "", self.delimiter),
            "sentinels": [_code(v) for v in listed(self.missing)] or None,
        }


@dataclass(frozen=True)
class RunOptions:
    """How far a run goes, and how often it is saved."""

    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="At the end, wait for more rows.")
    ] = False
    checkpoint_every: Annotated[int, typer.Option(help="Rows between checkpoints.", min=1)] = 500
    limit: Annotated[int | None, typer.Option(help="Stop after this many rows.", min=1)] = None
    force: Annotated[bool, typer.Option("--force", help="Replace the run that is there.")] = False


@app.command(epilog=EXAMPLES)
@grouped
def learn(
    source: Annotated[
        str,
        typer.Argument(
            help="CSV, TSV, JSON lines, Parquet, Arrow or Feather; a directory of parts; - for"
            " standard input."
        ),
    ],
    out: Annotated[
        str | None, typer.Option(help="Run directory; - for none: rows go to standard output.")
    ] = None,
    *,
    wanted: LearnOptions,
    emission: Emissions = None,
    text: TextOptions,
    run: RunOptions,
    display: DisplayOptions,
) -> int:
    """Learn from a source, row by row: predict each row, score the prediction, then learn.

    Without any option it finds the time, the numeric columns, the delimiter, decimal commas and
    codes for missing values, and says what it assumed. Rows go to the run directory, or to standard
    output if that is not a terminal.

    Models: seasonal (default), linear-gaussian, stochastic-volatility, chaotic-rnn,
    neural-gaussian.
    """
    form, place = _destination(source, out, display.format)
    progress, stopper = Progress(display.quiet), Stopper()
    follow = run.follow and source != "-"
    found = wanted.read(source, follow=follow, pace=stopper.pace, **text.asked())
    plan = wanted.plan(
        source,
        found,
        emission=listed(emission),
        follow=run.follow,
        limit=run.limit,
        checkpoint_every=run.checkpoint_every,
    )
    directory = None if place is None else Directory.create(place, plan, run.force)
    output = Output(form, run.limit, not display.no_report, display.open_report)
    try:
        return carry_on(Start(plan, directory, found), progress, stopper, output)
    except Disordered:
        if directory is not None:
            directory.remove()
        raise


@dataclass(frozen=True)
class Start:
    """Where a run begins or goes on."""

    plan: Plan
    directory: Directory | None
    stream: Stream
    kept: Kept | None = None
    """The checkpoint to go on from."""


@dataclass(frozen=True)
class Output:
    """What this call of `learn` or `resume` should write, and how many rows it may learn from."""

    form: str | None
    """Format of the rows on standard output; None for none."""
    limit: int | None
    report: bool
    open_report: bool
    begun: Callable[[Engine], None] = lambda engine: None
    """Told the engine before its first row."""
    resumable: bool = True
    """Whether it is `resume` that goes on with it."""


def carry_on(start: Start, progress: Progress, stopper: Stopper, output: Output) -> int:
    """Run from where a run is, then sum it up; returns the exit status."""
    plan, directory, kept = start.plan, start.directory, start.kept
    extra = {} if kept is None else kept.extra
    progress.say([f"Going on after row {extra['rows']}."] if extra else plan.assumed)
    if directory is not None:
        progress.say([f"Run directory: {directory.path}"])
    engine, status = None, 0
    try:
        with stopper:
            live = plan.live()
            if kept is not None:
                kept.load(live)
            if unless_asked(live.prepare, stopper):
                engine = Engine(plan, live, directory, extra, progress, output.form)
                output.begun(engine)
                engine.run(start.stream, stopper, output.limit)
                if extra and engine.rows == extra["rows"] and not stopper.asked():
                    progress.say([f"Nothing new: {plan.source} ends with row {engine.rows}."])
                progress.say(engine.warnings())
                progress.summary(engine.summary())
                if directory is not None and output.report and engine.rows:
                    write_report(directory.path, progress, output.open_report, live)
                status = LOST if engine.scores.lost else 0
    finally:
        if engine is not None:
            engine.close()
        if directory is not None:
            directory.unlock()
    if stopper.asked() and directory is not None and output.resumable:
        progress.say([f"Stopped; `rmcvi resume {directory.path}` goes on."])
    return stopper.status or status


def _destination(source: str, out: str | None, form: str | None) -> tuple[str | None, Path | None]:
    """Format of standard output (None: nothing goes there) and the run directory."""
    if out is not None and out != "-":
        return form, Path(out)
    if out is None and form is None and sys.stdout.isatty():
        stem = "stdin" if source == "-" else Path(source).name.split(".")[0] or "stream"
        return None, Path(f"{stem}.run")
    return form or "jsonl", None


def _code(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
