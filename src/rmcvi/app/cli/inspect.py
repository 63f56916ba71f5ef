"""`rmcvi inspect`: what a run has learned."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.options import RunDirectory, SameModel
from rmcvi.app.run.directory import Opened
from rmcvi.app.run.horizons import horizon_rows
from rmcvi.app.run.progress import print_summary, tell
from rmcvi.app.run.scores import RunningScores
from rmcvi.app.run.speech import printable
from rmcvi.core.files import to_json

EXAMPLES = """
[bold]Examples[/bold]

rmcvi inspect air.run

rmcvi inspect air.run --json | python -m json.tool
"""
SHOWN = 60
"""Parameters that the table shows."""


@app.command(epilog=EXAMPLES)
def inspect(
    directory: RunDirectory,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
    model: SameModel = None,
) -> None:
    """Say what a run is, how well it predicts and what it has learned."""
    run = Opened(directory, model)
    scores = RunningScores(run.plan.columns, run.kept["scores"])
    summary = scores.summary(run.kept["seconds"], run.kept["counts"])
    record = run.live.by_horizon()
    summary["horizons"] = horizon_rows(record, run.plan.columns, scores.variance())
    parameters = run.live.parameters()
    if as_json:
        everything = {
            "method": run.live.learner.method,
            "run": run.plan.to_json(),
            "summary": summary,
            "parameters": parameters,
        }
        print(to_json(everything, indent=1))
        return
    console = Console(highlight=False)
    plan = run.plan
    title = f"{directory}: {plan.source}, begun {plan.started}, rmcvi {plan.version}"
    settings = {k: v for k, v in plan.learner["settings"].items() if v is not None}
    method = f"Method: {run.live.learner.method}"
    for sentence in (title, *plan.assumed, method, f"Settings: {to_json(settings)}"):
        tell(console, sentence)
    print_summary(console, summary)
    if parameters:
        console.print(_parameters(parameters))


def _parameters(parameters: dict[str, Any]) -> Table:
    table = Table(title="Parameters", title_justify="left")
    table.add_column("name")
    table.add_column("value", justify="right")
    for name, value in list(parameters.items())[:SHOWN]:
        table.add_row(escape(printable(name)), f"{value:.5g}")
    if len(parameters) > SHOWN:
        table.add_row(f"and {len(parameters) - SHOWN} more (--json)", "")
    return table
