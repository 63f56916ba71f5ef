"""`rmcvi doctor`: what is wrong with this data?"""

from typing import Annotated

import typer
from rich.console import Console

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.options import listed
from rmcvi.app.run.progress import tell
from rmcvi.app.sources import Diagnosis
from rmcvi.app.sources import doctor as diagnose
from rmcvi.core.files import to_json

EXAMPLES = """
[bold]Examples[/bold]

rmcvi doctor air.csv

rmcvi doctor air.csv --json > findings.json

rmcvi doctor air.csv && rmcvi learn air.csv --out air.run
"""


@app.command(epilog=EXAMPLES)
def doctor(
    source: Annotated[str, typer.Argument(help="As for `rmcvi learn`.")],
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", "-c", metavar="NAMES", help="Columns to look at (default: all)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> int:
    """Look for gaps, stuck sensors, codes for missing values, times out of order, constant columns.

    The exit status is 0 if nothing needs to be done about the data, else 1.
    """
    found = diagnose(source, columns=listed(columns) or None)
    if as_json:
        print(to_json(found.to_json(), indent=1, default=str))
    else:
        _print(found)
    return 1 if found.suggestions() else 0


def _print(found: Diagnosis) -> None:
    console = Console(highlight=False)
    for sentence in found.describe():
        tell(console, sentence)
    suggestions = found.suggestions()
    for i, sentence in enumerate(suggestions, 1):
        tell(console, f"{i}. {sentence}")
    if not suggestions:
        tell(console, "Nothing is wrong with it.")
