"""`rmcvi report`: one page about a run."""

import importlib
import webbrowser
from pathlib import Path

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.options import OpenReport, RunDirectory
from rmcvi.app.run.directory import Directory
from rmcvi.app.run.progress import Progress
from rmcvi.app.run.speech import Refusal
from rmcvi.learners import Live

EXAMPLES = """
[bold]Examples[/bold]

rmcvi report air.run

rmcvi report air.run --open
"""


@app.command(epilog=EXAMPLES)
def report(directory: RunDirectory, open_report: OpenReport = False) -> None:
    """Write report.html again and print its path; this works while the run goes on."""
    Directory.open(directory)
    try:
        path = make(directory, Progress(quiet=True), open_report)
    except ValueError as error:  # files that `learn` did not write
        raise Refusal(str(error)) from None
    if path is None:
        raise Refusal("report: this installation has no rmcvi.app.report")
    print(path)


def make(
    directory: Path, progress: Progress, open_report: bool, live: Live | None = None
) -> Path | None:
    """The report's path, None if reports are not part of this installation.

    Args:
        directory: the run.
        progress: what tells the path.
        open_report: whether to open it in a browser.
        live: the learner after the last row, for the forecast; read from the checkpoint if None.
    """
    try:
        room = importlib.import_module("rmcvi.app.report")
    except ImportError:
        return None
    path = room.write(directory, live)
    progress.say([f"Report: {path}"])
    if open_report:
        webbrowser.open(path.resolve().as_uri())
    return path
