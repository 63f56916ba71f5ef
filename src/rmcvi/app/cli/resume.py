"""`rmcvi resume`: go on where a run stopped, however it did."""

import csv
import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.grouping import grouped
from rmcvi.app.cli.groups import DisplayOptions
from rmcvi.app.cli.learn import Output, Start, carry_on
from rmcvi.app.cli.options import BAD_ROWS, RunDirectory, SameModel, one_of
from rmcvi.app.run.directory import CHECKPOINT, GROWING, PREVIOUS, Directory, Kept
from rmcvi.app.run.output import csv_line
from rmcvi.app.run.plan import Plan
from rmcvi.app.run.progress import Progress
from rmcvi.app.run.speech import Refusal
from rmcvi.app.run.stopper import Stopper
from rmcvi.app.sources import Changed, Position

EXAMPLES = """
[bold]Examples[/bold]

rmcvi resume air.run

rmcvi resume air.run --on-bad-row skip

cat log.csv | rmcvi resume log.run

cat new-rows.csv | rmcvi resume log.run --continue
"""


@app.command(epilog=EXAMPLES)
@grouped
def resume(
    directory: RunDirectory,
    new_rows: Annotated[
        bool, typer.Option("--continue", help="Standard input holds new rows only.")
    ] = False,
    follow: Annotated[
        bool | None,
        typer.Option(help="Wait for more rows at the end, or not (default: as before)."),
    ] = None,
    on_bad_row: Annotated[
        str | None, typer.Option(help="error, skip or missing (default: as before).")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Stop after this many rows, earlier ones included.", min=1)
    ] = None,
    model: SameModel = None,
    *,
    display: DisplayOptions,
) -> int:
    """Go on with a run after it was stopped, killed, or came to the end of a file that has grown.

    The output is what an uninterrupted run would have written, to the byte. A run that read
    standard input needs the same stream again, from its beginning, or new rows with --continue.
    """
    room, plan = Directory.open(directory)
    plan = plan.trusted(model)
    said = {"follow": follow, "on_bad_row": one_of("--on-bad-row", on_bad_row, BAD_ROWS)}
    plan = plan.with_options(**{k: v for k, v in said.items() if v is not None})
    if new_rows and plan.source != "-":
        raise Refusal(f"--continue: {directory} reads {plan.source}, expected standard input")
    room.lock()
    try:
        kept = kept_in(room)
        extra = {} if kept is None else kept.extra
        after = Position.from_json(extra["source"]) if extra.get("source") else None
        source: Any = None
        if new_rows:
            after = after and replace(after, offset=0, line=0)
            source = _with_header(plan)
        progress, stopper = Progress(display.quiet), Stopper()
        if kept is not None and kept.remark:
            progress.say([kept.remark])
        stream = plan.stream(after, stopper.pace, source)
        bound = plan.options["limit"] if limit is None else limit
        if limit is None and bound is not None and extra.get("rows", 0) >= bound:
            bound = None
        output = Output(display.format, bound, not display.no_report, display.open_report)
        return carry_on(Start(plan, room, stream, kept), progress, stopper, output)
    except Changed as error:
        hint = ", or new rows with --continue" if plan.source == "-" else ""
        raise Refusal(f"{error}{hint}") from None
    finally:
        room.unlock()


def kept_in(room: Directory) -> Kept | None:
    """Where to go on; None in a run that was stopped before it wrote anything."""
    kept = room.newest()
    if kept is None and any(_filled(room.path / name) for name in GROWING):
        what = f"holds rows, but both checkpoints are lost ({CHECKPOINT} and {PREVIOUS})"
        raise Refusal(f"{room.path}: {what}; `rmcvi learn SOURCE --force` starts anew")
    return kept


def _filled(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _with_header(plan: Plan) -> Any:
    """Standard input, with the header that rows of a running log lack."""
    if plan.schema["kind"] != "delimited" or not plan.schema["header"]:
        return "-"
    return _Headed(sys.stdin.buffer, plan.schema)


class _Headed:
    """A stream of bytes that begins with a header line, whether it came with one or not."""

    name = "standard input"

    def __init__(self, stream: Any, schema: dict[str, Any]):
        self._stream = stream
        first = stream.readline()
        cells = next(csv.reader(io.StringIO(_text(first)), delimiter=schema["delimiter"]), [])
        stripped = {cell.strip() for cell in cells}
        lacks = not {*schema["columns"], *schema["time"]} <= stripped
        header = csv_line(schema["names"], schema["delimiter"]).encode() if lacks else b""
        self._held = header + first

    def read(self, size: int = -1) -> bytes:
        """What is held, then what comes."""
        held, self._held = self._held, b""
        if held:
            return held
        return self._stream.read1(size) if size > 0 else self._stream.read()

    def fileno(self) -> int:
        """For those who wait."""
        return self._stream.fileno()


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
