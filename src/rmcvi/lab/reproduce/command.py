"""`rmcvi reproduce`: every table and figure of the paper."""

import json
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rmcvi.app.cli.commands import FAILED, app
from rmcvi.app.run.speech import Refusal

EXAMPLES = """
[bold]Examples[/bold]

rmcvi reproduce --list

rmcvi reproduce chaotic-table1 --quick

rmcvi reproduce other-streams --check

rmcvi reproduce all --out results
"""


@app.command(epilog=EXAMPLES)
def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment, or `all`.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the results.")] = Path("reproduce"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: shows that it runs, proves nothing.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with expected.json; status 1 if it differs.")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    look: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Run an experiment of the paper: result.json, figures and one page in OUT/NAME.

    Interrupted, it goes on where it stopped when it is called again.
    """
    from rmcvi.lab import reproduce as room
    from rmcvi.lab.reproduce.runner import Progress

    if listing:
        table = Table("experiment", "what it is", box=None)
        for known in room.names():
            table.add_row(known, room.find(known).title)
        Console().print(table)
        return
    if name is None:
        raise Refusal("NAME: got nothing, expected an experiment, `all` or --list")
    if check and quick:
        raise Refusal("--check: got --quick as well, expected the full form alone")
    apart = False
    for each in room.names() if name == "all" else [name]:
        result = _run(room, each, out / each, quick, Progress(quiet))
        apart |= check and _differs(room.differences(each, result))
        if look:
            webbrowser.open((out / each / "report.html").resolve().as_uri())
    if apart:
        raise typer.Exit(FAILED)


def _run(room: Any, name: str, out: Path, quick: bool, progress: Any) -> dict[str, Any]:
    """Run one experiment and print what it found; returns what `result.json` holds."""
    try:
        experiment = room.find(name)
    except ValueError as error:
        raise Refusal(str(error)) from None
    room.reproduce(name, out, quick=quick, progress=progress)
    result = json.loads((out / "result.json").read_text())
    console = Console()
    console.print(f"[bold]{experiment.title}[/bold]")
    for line in result["remarks"]:
        console.print(f"  {line}", highlight=False)
    console.print(f"{out / 'report.html'}", highlight=False, soft_wrap=True)
    return result


def _differs(sentences: list[str]) -> bool:
    """Print how a result differs from what was expected; whether it does."""
    console = Console()
    for sentence in sentences:
        console.print(f"  {sentence}", highlight=False, markup=False, soft_wrap=True)
    verdict = f"{len(sentences)} numbers differ from" if sentences else "All numbers agree with"
    console.print(f"{verdict} expected.json", highlight=False)
    return bool(sentences)
