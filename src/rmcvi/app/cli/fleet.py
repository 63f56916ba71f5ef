"""`rmcvi fleet`: many streams in one source, told apart by a key."""

import os
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.options import (
    BAD_ROWS,
    Calendar,
    Columns,
    InputColumns,
    Level,
    OnBadRow,
    Quiet,
    SameModel,
    Seasons,
    Seed,
    Times,
    a_level,
    listed,
    one_of,
    times,
)
from rmcvi.app.fleet import engines
from rmcvi.app.fleet.opened import OpenedFleet
from rmcvi.app.fleet.plan import FLEET, FleetPlan
from rmcvi.app.fleet.resharding import reshard
from rmcvi.app.fleet.shard import Told
from rmcvi.app.run.output import SHAPES, moment, write_rows
from rmcvi.app.run.plan import make_plan
from rmcvi.app.run.speech import Refusal, printable, say
from rmcvi.app.run.stopper import Interrupted, Stopper
from rmcvi.app.sources import Schema, first_stream, read
from rmcvi.core.files import to_json

EXAMPLES = """
[bold]Examples[/bold]

rmcvi fleet plant.csv --key sensor --out plant.run

rmcvi fleet resume plant.run --shards 4

rmcvi fleet inspect plant.run

rmcvi fleet forecast plant.run --key pump-7 --horizon 48

rmcvi fleet report plant.run

rmcvi fleet meters.parquet --key meter --address auto --out /shared/meters.run
"""
LEARN = "learn"
"""The command that a source stands for."""


class Verbs(TyperGroup):
    """`fleet SOURCE` is `fleet learn SOURCE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What was typed, with the verb that was left out."""
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = [LEARN, *args]
        return super().parse_args(ctx, args)


fleet = typer.Typer(
    cls=Verbs,
    help="Learn many streams of one source, told apart by a key, on all cores or on the machines of"
    " a Ray cluster. `rmcvi fleet SOURCE --key NAME --out DIR` begins; `rmcvi fleet learn --help`"
    " has its options.",
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(fleet, name="fleet")

FleetDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a fleet.")]
Shards = Annotated[
    int | None, typer.Option(min=1, help="Parts that learn side by side (the cores there are).")
]
Address = Annotated[
    str | None, typer.Option(help="Of a Ray cluster, such as auto; without it, processes here.")
]


@fleet.command(LEARN)
def learn(
    source: Annotated[str, typer.Argument(help="As of `rmcvi learn`; - needs --shards 1.")],
    key: Annotated[str, typer.Option(help="The column that tells the streams apart.")],
    out: Annotated[Path, typer.Option(help="Directory of the fleet.")],
    columns: Columns = None,
    inputs: InputColumns = None,
    calendar: Calendar = None,
    time: Times = None,
    season: Seasons = None,
    model: Annotated[str, typer.Option(help="As of `rmcvi learn`.")] = "seasonal",
    level: Level = 0.9,
    seed: Seed = 0,
    shards: Shards = None,
    address: Address = None,
    on_bad_row: OnBadRow = "error",
    checkpoint_every: Annotated[
        int, typer.Option(help="Rows of a shard between checkpoints.", min=1)
    ] = 100_000,
    force: Annotated[bool, typer.Option(help="Replace the fleet that is there.")] = False,
    quiet: Quiet = False,
) -> int:
    """Learn every stream of a source: predict each row, score the prediction, then learn.

    The step and the season of the first stream are taken for those of all. Estimates go to
    estimates-*.jsonl in the directory, one file per shard, each line with its key.
    """
    bad = one_of("--on-bad-row", on_bad_row, BAD_ROWS) or "error"
    number = _number(shards, source)
    found = read(
        source,
        columns=listed(columns) or None,
        inputs=listed(inputs),
        time=times(time),
        on_bad_row=bad,
    )
    plan = make_plan(
        source,
        first_stream(found, key),
        model,
        a_level(level),
        seed,
        datetime.now(UTC).isoformat(timespec="seconds"),
        calendar=listed(calendar),
        season=listed(season),
        follow=False,
        on_bad_row=bad,
        limit=None,
        checkpoint_every=checkpoint_every,
    )
    own = f"Left out, for it holds text: {key}."  # it is what tells the streams apart
    plan = replace(plan, assumed=[sentence for sentence in plan.assumed if sentence != own])
    if plan.live().learner.units != "raw":
        what = "needs standardised columns, which a fleet does not have yet"
        raise Refusal(f"--model: {model} {what}; expected seasonal, or a learner for raw columns")
    _clear(out, force)
    chosen = FleetPlan(plan, key, number)
    chosen.write(out)
    if not quiet:
        for sentence in (*plan.assumed, f"Streams: by {key!r}; shards: {number}."):
            say(printable(sentence))
    return _run(out, chosen, address, model, quiet)


def _number(shards: int | None, source: str) -> int:
    number = shards or (1 if source == "-" else os.cpu_count() or 1)
    if source == "-" and number > 1:
        raise Refusal(f"--shards: got {number}, but standard input can be read by one shard alone")
    return number


def _clear(out: Path, force: bool) -> None:
    """An empty directory, or what was a fleet's."""
    if (out / FLEET).exists():
        if not force:
            again = f"`rmcvi fleet resume {out}` goes on with it, --force starts anew"
            raise Refusal(f"{out}: already holds a fleet; {again}")
        FleetPlan.read(out)
        shutil.rmtree(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Refusal(f"{out}: is not empty, expected a directory for the fleet")
    out.mkdir(parents=True, exist_ok=True)


def _run(out: Path, plan: FleetPlan, address: str | None, model: str | None, quiet: bool) -> int:
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
        rows, streams = sum(t.rows for t in told), sum(t.streams for t in told)
        say(f"{rows} rows of {streams} streams, {sum(t.failing for t in told)} of them failing.")
    if stopper.asked():
        say(f"Stopped; `rmcvi fleet resume {out}` goes on.")
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
    return told


@fleet.command()
def resume(
    directory: FleetDirectory,
    shards: Shards = None,
    address: Address = None,
    quiet: Quiet = False,
    model: SameModel = None,
) -> int:
    """Go on with a fleet after it was stopped, killed, or its source has grown.

    Sorted by key and time, the output is that of an uninterrupted run, to the byte. The number of
    shards may be another one.
    """
    plan = FleetPlan.read(directory)
    plan.plan.trusted(model)
    number = plan.shards if shards is None else _number(shards, plan.plan.source)
    if number != plan.shards:

        def onward(place: Any) -> Any:
            return engines.run(directory, plan.shards, model, place, address)

        plan = reshard(directory, plan, number, onward)
    return _run(directory, plan, address, model, quiet)


@fleet.command()
def forecast(
    directory: FleetDirectory,
    key: Annotated[str, typer.Option(help="Whose rows to forecast.")],
    horizon: Annotated[int, typer.Option(help="Rows to forecast.", min=1)] = 24,
    level: Annotated[
        float | None, typer.Option(help="Probability that a value is in its band (the fleet's).")
    ] = None,
    format: Annotated[str, typer.Option(help="csv, jsonl or table.")] = "table",
    model: SameModel = None,
) -> None:
    """Forecast the rows of a stream after the last one that was learned from."""
    form = one_of("--format", format, SHAPES) or "table"
    opened = OpenedFleet(directory, model)
    plan, stream = opened.fleet.plan, opened.stream(key)
    if plan.schema["inputs"]:
        names = ", ".join(plan.schema["inputs"])
        raise Refusal(f"forecast: got no inputs {names} of the next rows, expected none are needed")
    times = Schema.from_json(plan.schema).next_times(stream.last_time, horizon)
    band = stream.forecast(times, a_level(plan.level if level is None else level))
    names = ["row", "time"]
    names += [f"{c}.{part}" for c in plan.columns for part in ("mean", "low", "high")]
    rows = [
        [stream.rows + k + 1, moment(time, plan.calendar), *band[k].ravel().tolist()]
        for k, time in enumerate(times)
    ]
    write_rows(names, rows, form)


@fleet.command()
def inspect(
    directory: FleetDirectory,
    as_json: Annotated[bool, typer.Option("--json", help="Print all streams as JSON.")] = False,
    worst: Annotated[int, typer.Option(help="Streams to show, the most troubled first.")] = 20,
    model: SameModel = None,
) -> None:
    """Say what a fleet is, how well it predicts, and which streams are in trouble."""
    opened = OpenedFleet(directory, model)
    ranked = opened.ranked()
    if as_json:
        print(to_json({"fleet": opened.about(), "streams": ranked}, indent=1))
        return
    console = Console(highlight=False)
    for sentence in opened.sentences():
        console.print(printable(sentence), markup=False)
    table = Table()
    for name in ranked[0] if ranked else ():
        table.add_column(name.replace("_", " "), justify="left" if name == "key" else "right")
    for row in ranked[:worst]:
        table.add_row(*(escape(printable(_cell(v))) for v in row.values()))
    console.print(table)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


@fleet.command()
def report(
    directory: FleetDirectory,
    pages: Annotated[int, typer.Option(help="Streams with a page of their own.", min=0)] = 10,
    model: SameModel = None,
) -> None:
    """Write report.html: all streams, the most troubled first, and pages of the worst."""
    from rmcvi.app.fleet.pages import write  # matplotlib and jinja: not for the other verbs

    print(write(OpenedFleet(directory, model), pages))
