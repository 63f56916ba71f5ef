"""`rmcvi simulate`: a stream whose truth is known, to try things out."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.grouping import grouped
from rmcvi.app.cli.options import Seed, one_of
from rmcvi.app.run import settings
from rmcvi.app.run.output import csv_line, to_stdout
from rmcvi.app.run.speech import Refusal

START = datetime(2024, 1, 1, tzinfo=UTC)
EXAMPLES = """
[bold]Examples[/bold]

rmcvi simulate seasonal --rows 2000 > hours.csv

rmcvi simulate chaotic-rnn --rows 5000 --columns 3 --missing 0.05 --out chaos.csv

rmcvi simulate seasonal --fail y2:300:60:freeze | rmcvi learn - --format csv
"""
KINDS = ("freeze", "zero", "noise", "drift", "spikes", "gone")


@dataclass(frozen=True)
class Size:
    """How much is drawn, and from which seed."""

    rows: Annotated[int, typer.Option(help="How many rows.", min=1)] = 1000
    columns: Annotated[int, typer.Option(help="How many observed columns.", min=1)] = 3
    seed: Seed = 0


@app.command(epilog=EXAMPLES)
@grouped
def simulate(
    model: Annotated[str, typer.Argument(help="A name as for `rmcvi learn`, or my.toml.")],
    missing: Annotated[float, typer.Option(help="Share of values to leave out.")] = 0.0,
    fail: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN:START:LENGTH:KIND; freeze, zero, noise, drift, spikes or gone."),
    ] = None,
    states: Annotated[bool, typer.Option("--states", help="Add the hidden states.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="File to write (default: standard output).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    *,
    size: Size,
) -> None:
    """Simulate an hourly stream and write it as CSV: time, y1, y2, ...

    The model seasonal has a daily and a weekly rhythm; any other is simulated as it is.
    """
    if not 0.0 <= missing < 1.0:
        raise Refusal(f"--missing: got {missing:g}, expected a share of at least 0 and below 1")
    if out is not None and out.exists() and not force:
        raise Refusal(f"{out}: is there already, expected another --out or --force to replace it")
    failures = [Failure.parse(text) for text in fail or []]
    hidden, values = _draw(model, size)
    names = [f"y{i + 1}" for i in range(values.shape[1])]
    rng = np.random.default_rng([size.seed, 1])
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


def _draw(model: str, size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Hidden states and observations."""
    if ":" in model:
        raise Refusal(f"simulate: got {model!r}, expected a name or a TOML file")
    config = settings.validated(settings.parse(model, "MODEL"), "model")
    if config.model == "seasonal":
        return np.zeros((size.rows, 0)), rhythm(size.rows, size.columns, size.seed)
    import jax  # not for the others, whom it would keep waiting

    from rmcvi.app.run import zoo
    from rmcvi.models import simulate as draw

    try:
        law = zoo.make_model(config, size.columns, 0)
    except ValueError as error:
        raise Refusal(f"model {config.model!r}: {error}") from None
    xs, ys = draw(law, jax.random.key(size.seed), size.rows)
    return np.array(xs, float), np.array(ys, float)


@dataclass(frozen=True)
class Failure:
    """`length` rows from `start` on (counted from 1) in which a column's sensor fails."""

    column: str
    start: int
    length: int
    kind: str

    @classmethod
    def parse(cls, text: str) -> "Failure":
        """COLUMN:START:LENGTH:KIND."""
        parts = text.rsplit(":", 3)
        numbers = [p for p in parts[1:3] if p.isdecimal() and int(p) > 0]
        if len(parts) != 4 or len(numbers) != 2:
            expected = "COLUMN:START:LENGTH:KIND, such as y1:200:50:freeze"
            raise Refusal(f"--fail: got {text!r}, expected {expected}")
        kind = one_of("--fail", parts[3], KINDS) or "freeze"
        return cls(parts[0], int(numbers[0]), int(numbers[1]), kind)

    def apply(self, values: np.ndarray, names: list[str], rng: np.random.Generator) -> None:
        """Change the rows in place."""
        name = one_of("--fail", self.column, tuple(names))
        column = values[:, names.index(name or "")]
        rows = column[self.start - 1 : self.start - 1 + self.length]
        spread = float(np.nanstd(column))
        noise = rng.standard_normal(len(rows))
        match self.kind:
            case "freeze":
                rows[:] = rows[:1]
            case "zero":
                rows[:] = 0.0
            case "gone":
                rows[:] = np.nan
            case "noise":
                rows += 3.0 * spread * noise
            case "drift":
                rows += spread * np.linspace(0.0, 4.0, len(rows))
            case _:
                rows += np.where(rng.random(len(rows)) < 0.1, 8.0 * spread * np.sign(noise), 0.0)


def rhythm(rows: int, columns: int, seed: int, day: int = 24) -> np.ndarray:
    """Hours of correlated columns with a daily and a weekly rhythm around their own levels."""
    rng = np.random.default_rng(seed)
    hours = np.arange(rows)
    hour, weekend = hours % day, (hours // day) % 7 >= 5
    common, own = np.zeros(rows), np.zeros((rows, columns))
    for t in range(1, rows):
        common[t] = 0.9 * common[t - 1] + 0.2 * rng.standard_normal()
        own[t] = 0.8 * own[t - 1] + 0.15 * rng.standard_normal(columns)
    phase = 2.0 * np.pi * (hour[:, None] - np.linspace(6.0, 10.0, columns)[None]) / day
    size = np.where(weekend, 0.5, 1.0)[:, None]
    wave = size * (np.sin(phase) + 0.4 * np.sin(2.0 * phase))
    shares = np.linspace(0.9, 0.4, columns)[None]
    level, scale = 10.0 * 3.0 ** np.arange(columns), 2.0 * 3.0 ** np.arange(columns)
    return level[None] + scale[None] * (wave + shares * common[:, None] + own)


def punch(values: np.ndarray, share: float, rng: np.random.Generator) -> None:
    """Make a share of the values missing, in gaps of one to ten rows."""
    if share <= 0.0:
        return
    rows, columns = values.shape
    for column in range(columns):
        wanted = round(share * rows)
        while wanted > int(np.isnan(values[:, column]).sum()):
            lacking = wanted - int(np.isnan(values[:, column]).sum())
            start = int(rng.integers(rows))
            values[start : start + min(lacking, int(rng.integers(1, 11))), column] = np.nan
