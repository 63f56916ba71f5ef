"""The rows after the last one, forecast from the run's checkpoint when its page is written."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmcvi.app.report.run import Run
from rmcvi.app.run.ahead import next_times
from rmcvi.app.run.directory import Directory
from rmcvi.app.run.plan import Plan
from rmcvi.app.sources import Schema

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


def forecast(folder: Path, run: Run) -> Forecast | str:
    """The next season (or `USUAL` rows), or a sentence that says why there is none."""
    try:
        return _forecast(folder, run)
    except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
        said = str(error).replace(f"{folder}/", "").rstrip(".")
        return f"{said or type(error).__name__}."


def _forecast(folder: Path, run: Run) -> Forecast | str:
    directory, plan = Directory.open(folder)
    name = plan.options["model"]["model"]
    if ":" in name:
        return f"the model is code of its own; `rmcvi forecast --model {name}` makes one."
    if plan.schema["inputs"]:
        inputs = ", ".join(plan.schema["inputs"])
        return (
            f"the next values of {inputs} are not known; `rmcvi forecast --inputs-file` reads them."
        )
    kept = directory.last()
    behind = run.rows - kept.extra["rows"]
    if not 0 <= behind <= FAR or not kept.extra["rows"]:
        return f"the checkpoint is of row {kept.extra['rows']}, the page of row {run.rows}."
    horizon = plan.options.get("season", [None])[0] or USUAL
    schema, source = Schema.from_json(plan.schema), kept.extra["source"]
    times = next_times(schema, None if source is None else source["clock"], behind + horizon)
    live = plan.live()
    kept.load(live)
    told = live.forecast(behind + horizon, _inputs(plan, times), level=run.level)
    mean, low, high = (np.stack(part)[behind:] for part in (told.mean, told.low, told.high))
    if not np.isfinite([mean, low, high]).any():
        return "the learner gives no finite numbers."
    last = None if run.time is None else run.time[-1]
    shown = [time for time in next_times(schema, last, horizon) if time is not None]
    if last is not None and not shown:
        return "the usual step between two rows is not known."
    row = run.row[-1] + np.arange(1.0, horizon + 1)
    return Forecast(row, np.array(shown) if shown else None, mean, low, high)


def _inputs(plan: Plan, times: list[float | None]) -> list[np.ndarray] | None:
    return [plan.inputs_at(np.zeros(0), time) for time in times] if plan.inputs else None
