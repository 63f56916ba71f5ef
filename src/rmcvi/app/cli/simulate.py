"""`rmcvi simulate`: a stream whose truth is known, to try things out."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import typer

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.streams import Failure, punch, rhythm
from rmcvi.app.run import settings, zoo
from rmcvi.app.run.output import csv_line, to_stdout
from rmcvi.app.run.refusal import Refusal
from rmcvi.models import simulate as draw

START = datetime(2024, 1, 1, tzinfo=UTC)
EXAMPLES = """
[bold]Examples[/bold]

rmcvi simulate seasonal --rows 2000 > hours.csv

rmcvi simulate chaotic-rnn --rows 5000 --columns 3 --missing 0.05 --out chaos.csv

rmcvi simulate seasonal --fail y2:300:60:freeze | rmcvi learn - --format csv
"""


@app.command(epilog=EXAMPLES)
def simulate(
    model: Annotated[str, typer.Argument(help="A name as for `rmcvi learn`, or my.toml.")],
    rows: Annotated[int, typer.Option(help="How many.", min=1)] = 1000,
    columns: Annotated[int, typer.Option(help="How many observed columns.", min=1)] = 3,
    seed: Annotated[int, typer.Option(help="Of all random numbers.", min=0)] = 0,
    missing: Annotated[float, typer.Option(help="Share of missing values.")] = 0.0,
    fail: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN:START:LENGTH:KIND; freeze, zero, noise, drift, spikes or gone."),
    ] = None,
    states: Annotated[bool, typer.Option("--states", help="Add the hidden states.")] = False,
    out: Annotated[Path | None, typer.Option(help="A file (standard output).")] = None,
) -> None:
    """Simulate an hourly stream and write it as CSV: time, y1, y2, ...

    seasonal is a daily and weekly rhythm; the other models draw from themselves.
    """
    if not 0.0 <= missing < 1.0:
        raise Refusal(f"--missing: got {missing:g}, expected a share of at least 0 and below 1")
    failures = [Failure.parse(text) for text in fail or []]
    hidden, values = _draw(model, rows, columns, seed)
    names = [f"y{i + 1}" for i in range(values.shape[1])]
    rng = np.random.default_rng([seed, 1])
    for failure in failures:
        failure.apply(values, names, rng)
    punch(values, missing, rng)
    if states:
        names += [f"x{i + 1}" for i in range(hidden.shape[1])]
        values = np.concatenate([values, hidden], 1)
    text = table(names, values)
    if out is None:
        to_stdout(text)
    else:
        out.write_text(text)


def table(names: list[str], values: np.ndarray) -> str:
    """Hourly rows as CSV; an empty cell is missing."""
    lines = [csv_line(["time", *names])]
    for i, row in enumerate(values.tolist()):
        time = (START + timedelta(hours=i)).replace(tzinfo=None).isoformat(sep=" ")
        lines.append(csv_line([time, *("" if v != v else f"{v:.6g}" for v in row)]))
    return "".join(lines)


def _draw(model: str, rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Hidden states and observations."""
    if ":" in model:
        raise Refusal(f"simulate: got {model!r}, expected a name or a TOML file")
    config = settings.validated(zoo.parse(model), "model")
    if config.model == "seasonal":
        return np.zeros((rows, 0)), rhythm(rows, columns, seed)
    try:
        law = zoo.make_model(config, columns, 0)
    except ValueError as error:
        raise Refusal(f"model {config.model!r}: {error}") from None
    xs, ys = draw(law, jax.random.key(seed), rows)
    return np.array(xs, float), np.array(ys, float)
