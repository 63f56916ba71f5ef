"""What a fleet is asked: `rmcvi fleet forecast`, `inspect` and `report`."""

from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rmcvi.app.cli.fleet.group import FleetDirectory, fleet
from rmcvi.app.cli.options import SameModel, a_level, one_of
from rmcvi.app.fleet.opened import OpenedFleet
from rmcvi.app.fleet.remote import as_directory
from rmcvi.app.fleet.storage import is_remote
from rmcvi.app.run.output import SHAPES, moment, write_rows
from rmcvi.app.run.progress import tell
from rmcvi.app.run.speech import Refusal, printable, say
from rmcvi.app.sources import Schema
from rmcvi.core.files import to_json

HEADS = {
    "columns": "cols",
    "failure": "failing",
    "episodes": "alarms",
    "error_of_last_value": "error",
    "coverage": "inside",
    "recoveries": "recovered",
}
"""Short ones, where a terminal has no room for the others."""


@fleet.command()
def forecast(
    directory: FleetDirectory,
    key: Annotated[str, typer.Option(help="Whose rows to forecast.")],
    horizon: Annotated[int, typer.Option(help="Rows to forecast.", min=1)] = 24,
    level: Annotated[
        float | None,
        typer.Option(help="Probability that a value is in its band (default: the fleet's)."),
    ] = None,
    format: Annotated[str, typer.Option(help="csv, jsonl or table.")] = "table",
    model: SameModel = None,
) -> None:
    """Forecast the rows of a stream after the last one that was learned from."""
    form = one_of("--format", format, SHAPES) or "table"
    with as_directory(directory) as here:
        stream = OpenedFleet(here, model).stream(key)
    plan = stream.plan
    if stream.failing:
        which = ", ".join(stream.failing)
        say(printable(f"{key}: {which} fails now; its forecast goes on from what it last told."))
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
    with as_directory(directory) as here:
        opened = OpenedFleet(here, model, directory)
        about, sentences, ranked = opened.about(), opened.sentences(), opened.ranked()
    if as_json:
        print(to_json({"fleet": about, "streams": ranked}, indent=1))
        return
    console = Console(highlight=False)
    for sentence in sentences:
        tell(console, sentence)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ranked[0] if ranked else ():
        head = HEADS.get(name, name.replace("_", " "))
        table.add_column(head, justify="left" if name == "key" else "right", overflow="fold")
    for row in ranked[:worst]:
        table.add_row(*(escape(printable(_cell(v))) for v in row.values()))
    console.print(table)
    console.print("error: ours over the last value's; inside: share of values in their band.")


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


@fleet.command()
def report(
    directory: FleetDirectory,
    pages: Annotated[int, typer.Option(help="Streams with a page of their own.", min=0)] = 10,
    key: Annotated[
        list[str] | None, typer.Option(help="A stream that gets a page, too (repeat it).")
    ] = None,
    model: SameModel = None,
) -> None:
    """Write report.html: all streams, the most troubled first, and pages of the worst, or of those
    that you name.
    """
    from rmcvi.app.fleet.pages import (  # matplotlib and jinja: not for the other verbs
        put_pages,
        write,
    )

    with as_directory(directory, outputs=True) as here:
        page = write(OpenedFleet(here, model, directory), pages, key or [])
        if is_remote(directory):
            print(put_pages(directory, here))
        else:
            print(page)
