"""`rmcvi smooth`: the past, given all that came after it."""

import json
from typing import Annotated, Any

import numpy as np
import typer

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.options import RunDirectory, SameModel, one_of
from rmcvi.app.run.directory import ESTIMATES, Opened
from rmcvi.app.run.output import SHAPES, moment, write_rows
from rmcvi.app.run.smoothing import recent
from rmcvi.app.run.speech import Refusal

EXAMPLES = """
[bold]Examples[/bold]

rmcvi smooth air.run --lag 48

rmcvi smooth air.run --lag 48 --format csv > filled.csv

rmcvi smooth chaotic.run --all --format csv > states.csv
"""
Rows = tuple[list[str], list[list[Any]]]


@app.command(epilog=EXAMPLES)
def smooth(
    directory: RunDirectory,
    lag: Annotated[
        int | None, typer.Option(help="Rows to look back (default: all that are kept).", min=0)
    ] = None,
    whole: Annotated[
        bool, typer.Option("--all", help="Hidden states of all rows; reads the source again.")
    ] = False,
    format: Annotated[str, typer.Option(help="csv, jsonl or table.")] = "table",
    model: SameModel = None,
) -> None:
    """Estimate the last rows again, given all rows up to now.

    A missing value is shown as it is estimated, with its band; an observed one as it came, so that
    its mean, low and high are the value itself. Models with a hidden state show that, too.
    """
    form = one_of("--format", format, SHAPES) or "table"
    run = Opened(directory, model)
    names, rows = _whole(run) if whole else _recent(run, lag)
    write_rows(names, rows, form)


def _recent(run: Opened, lag: int | None) -> Rows:
    """The last rows, from what the learner keeps."""
    learner, state, scaling = run.live.learner, run.live.state, run.live.scaling
    longest = min(learner.reach, run.rows - 1)
    lag = longest if lag is None else lag
    if lag > longest:
        raise Refusal(f"--lag: got {lag}, expected at most {longest} for this learner")
    table = [recent(learner, state, scaling, lag, run.plan.level).reshape(lag + 1, -1)]
    names = [f"{c}.{part}" for c in run.plan.columns for part in ("mean", "low", "high")]
    if learner.dim_state:
        past = learner.smooth(state, lag)
        table.append(np.stack([past.mean, past.std], -1).reshape(lag + 1, -1))
        names += _state_names(learner.dim_state)
    try:
        seen = [json.loads(line) for line in run.last_lines(lag + 1)]
        rows = [
            [before["row"], before["time"], *values.tolist()]
            for before, values in zip(seen, np.concatenate(table, 1), strict=True)
        ]
    except (LookupError, RecursionError, TypeError, ValueError):
        path = run.directory.path / ESTIMATES
        raise Refusal(f"{path}: got other lines than `learn` wrote, expected its rows") from None
    return ["row", "time", *names], rows


def _whole(run: Opened) -> Rows:
    """All states of the source, with the parameters and units of the end."""
    learner, plan = run.live.learner, run.plan
    if not learner.dim_state:
        raise Refusal("--all: this learner has no hidden state, expected --lag")
    if plan.source == "-":
        raise Refusal("--all: got a run that read standard input, expected a file to read again")
    options = plan.options | {"follow": False}
    stream = type(plan)(**vars(plan) | {"options": options, "source": plan.place()}).stream(None)
    past = [row for _, row in zip(range(run.rows), stream, strict=False)]
    ys = run.live.scaling.transform(np.array([row.y for row in past]))
    us = np.array([plan.known(row) for row in past])
    dts = np.array([row.dt for row in past])
    try:
        states = learner.smooth_sequence(run.live.state, ys, us, dts)
    except ValueError as error:
        raise Refusal(f"--all: {error}") from None
    values = np.stack([states.mean, states.std], -1).reshape(len(past), -1)
    rows = [
        [i + 1, moment(row.time, plan.calendar), *line.tolist()]
        for i, (row, line) in enumerate(zip(past, values, strict=True))
    ]
    return ["row", "time", *_state_names(learner.dim_state)], rows


def _state_names(count: int) -> list[str]:
    return [f"state.{i}.{part}" for i in range(count) for part in ("mean", "std")]
