"""The rows after the last one, forecast from the run's checkpoint when its page is written."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmcvi.app.run.directory import Directory
from rmcvi.app.run.estimates import Run
from rmcvi.app.run.plan import Plan
from rmcvi.app.sources import Schema
from rmcvi.learners import Live

USUAL = 24
"""Rows that are forecast where there is no season: a day, if they come every hour."""
FAR = 2000
"""Rows that a checkpoint may be behind: a few times those between two of them."""


@dataclass(frozen=True)
class Forecast:
    """The next rows with their intervals, (horizon, columns); times are seconds since 1970."""

    row: np.ndarray
    time: np.ndarray | None
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    behind: int = 0
    """Rows of the run that the learner had not seen when it made it."""


def forecast(folder: Path, run: Run, live: Live | None = None) -> Forecast | str:
    """The next season (or `USUAL` rows), or a sentence that says why there is none.

    Args:
        folder: the run directory.
        run: what is in it.
        live: the learner after the last row; read from the checkpoint if None.
    """
    try:
        return _forecast(folder, run, live)
    except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
        said = str(error).replace(f"{folder}/", "").replace(str(folder), folder.name).rstrip(".")
        return f"{said or type(error).__name__}."


def _forecast(folder: Path, run: Run, live: Live | None) -> Forecast | str:
    directory, plan = Directory.open(folder)
    if plan.schema["inputs"]:
        what = f"the next values of {', '.join(plan.schema['inputs'])} are not known"
        return f"{what}; `rmcvi forecast --inputs-file` reads them from a file."
    name = plan.options["model"]["model"]
    if live is None and ":" in name:
        return f"the model is code of its own; `rmcvi forecast --model {name}` makes one."
    kept = directory.last()
    behind = run.rows - kept.extra["rows"]
    if not 0 <= behind <= FAR or not kept.extra["rows"]:
        return f"the checkpoint is of row {kept.extra['rows']}, the page of row {run.rows}."
    if live is None:
        live = plan.live()
        kept.load(live)
    horizon = plan.options.get("season", [None])[0] or USUAL
    schema = Schema.from_json(plan.schema)
    inputs = _inputs(plan, schema.next_times(kept.last_time, behind + horizon))
    ahead = live.forecast(behind + horizon, inputs, level=run.level)
    mean, low, high = (np.stack(part)[behind:] for part in (ahead.mean, ahead.low, ahead.high))
    if not np.isfinite([mean, low, high]).any():
        return "the learner gives no finite numbers."
    time = _times(schema, run, horizon)
    return Forecast(run.row[-1] + np.arange(1.0, horizon + 1), time, mean, low, high, behind)


def _times(schema: Schema, run: Run, horizon: int) -> np.ndarray | None:
    """The times of the next rows, if those of the run are shown."""
    if run.time is None:
        return None
    times = [time for time in schema.next_times(float(run.time[-1]), horizon) if time is not None]
    if not times:
        raise ValueError("the usual step between two rows is not known")
    return np.array(times)


def _inputs(plan: Plan, times: list[float | None]) -> list[np.ndarray] | None:
    return [plan.inputs_at(np.zeros(0), time) for time in times] if plan.inputs else None
