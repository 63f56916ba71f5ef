"""`rmcvi forecast`: the next rows, with their intervals."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.options import RunDirectory, SameModel, a_level, one_of
from rmcvi.app.run.directory import Opened
from rmcvi.app.run.output import SHAPES, moment, write_rows
from rmcvi.app.run.speech import Refusal
from rmcvi.app.sources import Schema, read

EXAMPLES = """
[bold]Examples[/bold]

rmcvi forecast air.run --horizon 48

rmcvi forecast air.run --horizon 24 --level 0.5 --format csv > tomorrow.csv

rmcvi forecast air.run --horizon 24 --inputs-file weather-forecast.csv
"""


@app.command(epilog=EXAMPLES)
def forecast(
    directory: RunDirectory,
    horizon: Annotated[int, typer.Option(help="Rows to forecast.", min=1)] = 24,
    level: Annotated[
        float | None,
        typer.Option(help="Probability that a value is in its band (default: the run's)."),
    ] = None,
    format: Annotated[str, typer.Option(help="csv, jsonl or table.")] = "table",
    inputs_file: Annotated[
        Path | None, typer.Option(help="File with the inputs of the next rows.")
    ] = None,
    model: SameModel = None,
) -> None:
    """Forecast the rows after the last one that was learned from.

    Times go on by the usual step, months by the calendar. Calendar inputs are computed; others come
    from --inputs-file.
    """
    form = one_of("--format", format, SHAPES) or "table"
    run = Opened(directory, model)
    plan = run.plan
    level = a_level(plan.level if level is None else level)
    times = Schema.from_json(plan.schema).next_times(run.last_time, horizon)
    known = _known(run, times, inputs_file)
    try:
        ahead = run.live.forecast(horizon, known, level=level)
    except ValueError as error:
        raise Refusal(str(error)) from None
    names = ["row", "time"]
    names += [f"{c}.{part}" for c in plan.columns for part in ("mean", "low", "high")]
    rows: list[list[Any]] = []
    for k, time in enumerate(times):
        row: list[Any] = [run.rows + k + 1, moment(time, plan.calendar)]
        table = zip(ahead.mean[k], ahead.low[k], ahead.high[k], strict=True)
        rows.append([*row, *(float(v) for triple in table for v in triple)])
    write_rows(names, rows, form)


def _known(run: Opened, times: list[float | None], file: Path | None) -> list[np.ndarray] | None:
    """The inputs of the next rows."""
    plan = run.plan
    if not plan.inputs:
        return None
    own, horizon = plan.schema["inputs"], len(times)
    values = np.zeros((horizon, 0))
    if own:
        if file is None:
            raise Refusal(
                f"--inputs-file: got none, expected a file with the next {horizon} rows of"
                f" {', '.join(own)}"
            )
        rows = [row.y for row in read(file, columns=own, time=(), gaps="ignore")]
        if len(rows) < horizon:
            raise Refusal(f"{file}: got {len(rows)} rows, expected {horizon}, one per step")
        values = np.array(rows[:horizon], float)
        if np.isnan(values).any():
            raise Refusal(f"{file}: got a missing input, expected one per step")
    return [plan.inputs_at(u, time) for u, time in zip(values, times, strict=True)]
