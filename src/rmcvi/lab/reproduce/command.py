"""`rmcvi reproduce`: every table and figure of the paper."""

import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rmcvi.app.cli.commands import app
from rmcvi.app.run.refusal import Refusal

EXAMPLES = """
[bold]Examples[/bold]

rmcvi reproduce --list

rmcvi reproduce chaotic-table1 --quick

rmcvi reproduce all --out results
"""


@app.command(epilog=EXAMPLES)
def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment, or `all`.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the results.")] = Path("reproduce"),
    quick: Annotated[bool, typer.Option("--quick", help="Smoke, not evidence.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="What there is.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    look: Annotated[bool, typer.Option("--open", help="Open the page.")] = False,
) -> None:
    """Run an experiment of the paper: result.json, figures and one page in OUT/NAME.

    Interrupted, it goes on where it stopped when it is called again.
    """
    from rmcvi.lab import reproduce as room

    if listing:
        table = Table("experiment", "what it is", box=None)
        for known in room.names():
            table.add_row(known, room.find(known).title)
        Console().print(table)
        return
    if name is None:
        raise Refusal("NAME: got nothing, expected an experiment, `all` or --list")
    for each in room.names() if name == "all" else [name]:
        _one(room, each, out / each, quick, quiet, look)


def _one(room: Any, name: str, out: Path, quick: bool, quiet: bool, look: bool) -> None:
    try:
        experiment = room.find(name)
    except ValueError as error:
        raise Refusal(str(error)) from None
    from rmcvi.lab.reproduce.progress import Progress

    result = room.reproduce(name, out, quick=quick, progress=Progress(quiet))
    console = Console()
    console.print(f"[bold]{experiment.title}[/bold]")
    for line in result["remarks"]:
        console.print(f"  {line}", highlight=False)
    console.print(f"{out / 'report.html'}", highlight=False, soft_wrap=True)
    if look:
        webbrowser.open((out / "report.html").resolve().as_uri())
