"""`rmcvi bench`: how fast is it here, and is that what it should be?"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.grouping import grouped
from rmcvi.app.run.speech import Refusal
from rmcvi.lab.bench import WORKLOADS, Outcome, fleet_of, pinned

EXAMPLES = """
[bold]Examples[/bold]

rmcvi bench --list

rmcvi bench gradient

rmcvi bench gradient --quick --json gradient.json

rmcvi bench --threads 2 --json all.json

rmcvi bench fleet --streams 10000 --shards 2
"""


@dataclass(frozen=True)
class FleetSize:
    """Of a fleet of real processes."""

    streams: Annotated[
        int | None,
        typer.Option(min=64, help="With fleet: `rmcvi fleet` on so many streams instead."),
    ] = None
    columns: Annotated[int, typer.Option(min=1, help="Of each of these streams.")] = 1
    shards: Annotated[int, typer.Option(min=1, help="That learn them, each a process.")] = 1
    one_piece: Annotated[
        bool, typer.Option("--one-piece", help="As a fleet of a million rows and more is compiled.")
    ] = False


@app.command(epilog=EXAMPLES)
@grouped
def bench(
    name: Annotated[str | None, typer.Argument(help="A workload (default: all of them).")] = None,
    to: Annotated[Path | None, typer.Option("--json", help="Write the numbers to a file.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Tiny sizes: shows that it runs, not how fast it is.")
    ] = False,
    threads: Annotated[
        int, typer.Option("--threads", min=1, help="Cores that every program may use.")
    ] = 1,
    listed: Annotated[bool, typer.Option("--list", help="Show the workloads and stop.")] = False,
    *,
    size: FleetSize,
) -> int:
    """Measure speed: workloads whose programs take turns, warm, in one run.

    Times are medians with quartiles, in microseconds; compiling is reported apart. Ratios are the
    result; with one thread they are of processor times, which a busy machine changes least.
    The exit status is 0 even if a target is missed, which the table says.
    """
    console = Console(highlight=False)
    if listed:
        _list(console)
        return 0
    if name is not None and name not in WORKLOADS:
        raise Refusal(f"NAME: got {name!r}, expected one of {', '.join(WORKLOADS)}")
    if size.streams is not None:
        if name != "fleet":
            raise Refusal(f"--streams: got {size.streams} for {name}, expected it with fleet")
        outcome = fleet_of(
            size.streams, size.columns, size.shards, whole=size.one_piece
        )  # its processes keep to a core each
        _print(console, outcome)
        if to is not None:
            to.write_text(json.dumps(outcome.to_json(), indent=1) + "\n")
        return 0
    outcomes: dict[str, Any] = {}
    with pinned(threads):
        for chosen in WORKLOADS if name is None else (name,):
            with Console(stderr=True).status(f"{chosen}: compiling and measuring"):
                outcome = WORKLOADS[chosen](quick=quick)
            _print(console, outcome)
            outcomes[chosen] = outcome.to_json()
            if to is not None:
                found = outcomes if name is None else outcomes[name]
                to.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _list(console: Console) -> None:
    for name, workload in WORKLOADS.items():
        console.print(f"[bold]{name:<9}[/bold] {escape(str(workload.__doc__).splitlines()[0])}")


def _print(console: Console, outcome: Outcome) -> None:
    machine = outcome.to_json()["machine"]
    table = Table(title=outcome.title, title_justify="left", box=SIMPLE_HEAD)
    columns = [c for c in outcome.rows[0] if any(r[c] is not None for r in outcome.rows)]
    console.width = max(console.width, 13 * len(columns))
    for k, column in enumerate(columns):
        table.add_column(column.replace("_", " "), justify="left" if k == 0 else "right")
    for row in outcome.rows:
        table.add_row(*(escape(_number(row[column])) for column in columns))
    console.print(table)
    for target in outcome.targets:
        mark = "[green]met[/green]   " if target.met else "[red]missed[/red]"
        console.print(f"{mark} {escape(target.text)}")
    console.print(
        f"[dim]{machine['threads']} thread(s) of {machine['cores']} cores, {machine['precision']}, "
        f"jax {machine['jax']}, {machine['backend']}; times in microseconds"
        f"{'; quick: sizes too small to judge speed by' if outcome.quick else ''}[/dim]\n"
    )


def _number(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
