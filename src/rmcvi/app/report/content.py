"""What the page's script draws: packed arrays, and the curves and names as JSON."""

from statistics import NormalDist
from typing import Any

import numpy as np

from rmcvi.app.report.alarms import Episode
from rmcvi.app.report.curves import FEWEST, grid, moving_mean, running_rmse, window
from rmcvi.app.report.pack import Packer
from rmcvi.app.report.scores import Scores
from rmcvi.app.run.estimates import Run

STATES = 12
PARAMETERS = 24
"""Charts of hidden states and of parameters at most."""


def content(
    run: Run, scores: Scores, told: list[Episode], keep: np.ndarray
) -> tuple[dict[str, Any], str]:
    """The JSON, and the packed arrays of the rows `keep`."""
    packer, units = Packer(), list(run.units.values())
    for i in range(len(run.columns)):
        for part in ("value", "mean", "low", "high", "filled"):
            packer.add(f"{part}.{i}", getattr(run, part)[keep, i])
        if np.isfinite(run.failure[:, i]).any():
            packer.share(f"failure.{i}", run.failure[keep, i])
    for i in range(min(len(run.state_names), STATES)):
        packer.add(f"state.{i}", run.state_mean[keep, i])
        packer.add(f"spread.{i}", run.state_std[keep, i])
    for name in ("elbo", "ess"):
        if np.isfinite(getattr(run, name)).any():
            packer.add(name, getattr(run, name)[keep])
    _axis(packer, run, keep)
    meta = {
        "level": run.level,
        "width": NormalDist().inv_cdf(0.5 + run.level / 2),
        "zoned": run.zoned,
        "columns": [{"name": n, "unit": u} for n, u in zip(run.columns, units, strict=True)],
        "states": run.state_names[:STATES],
        "parameters": _parameters(run, keep),
        "curves": _curves(run, scores, keep, units),
        "window": window(run.rows),
        "episodes": [[_place(keep, e.first), _place(keep, e.last), e.sentence] for e in told],
        "index": packer.index,
    }
    return meta, packer.text()


def _axis(packer: Packer, run: Run, keep: np.ndarray) -> None:
    """The numbers of the rows and their times, as doubles."""
    packer.exact("row", run.row[keep])
    if run.time is not None:
        packer.exact("time", run.time[keep])


def _place(keep: np.ndarray, index: int) -> int:
    """The place of the nearest row that is shown, not before `index`."""
    return int(min(np.searchsorted(keep, index), max(len(keep) - 1, 0)))


def _curves(run: Run, scores: Scores, keep: np.ndarray, units: list[str]) -> dict[str, Any]:
    """Running RMSE and moving coverage, of all columns and of each; the moving log score."""
    at = grid(run.rows)
    width = window(run.rows)
    chosen: list[int | None] = [None] if len(run.columns) > 1 else []
    chosen += range(len(run.columns))
    lines = []
    for column in chosen:
        learner, rival = scores.squares(column)
        inside = scores.inside if column is None else scores.inside[:, column]
        lines.append(
            {
                "name": "all columns" if column is None else run.columns[column],
                "learner": plain(running_rmse(learner, at)),
                "persistence": plain(running_rmse(rival, at)),
                "coverage": plain(moving_mean(inside, width, at, FEWEST)),
                "unit": "standard deviations" if column is None else units[column],
            }
        )
    return {
        "at": _between(keep, at),
        "lines": lines,
        "log_score": plain(moving_mean(run.log_score, width, at, 1)),
    }


def _parameters(run: Run, keep: np.ndarray) -> list[dict[str, Any]]:
    lines = []
    for name, (rows, values) in list(run.parameters.items())[:PARAMETERS]:
        at = np.searchsorted(run.row, rows).clip(0, max(run.rows - 1, 0))
        few = at if len(at) <= 2000 else np.unique(np.linspace(0, len(at) - 1, 2000).astype(int))
        if len(at) > 2000:
            at, values = at[few], values[few]
        lines.append({"name": name, "at": _between(keep, at), "value": plain(values)})
    return lines


def _between(keep: np.ndarray, index: np.ndarray) -> list[float | None]:
    """Indices of rows as places between the rows that are shown."""
    if not len(keep):
        return []
    return plain(np.interp(index, keep, np.arange(len(keep))))


def plain(values: np.ndarray) -> list[float | None]:
    """Numbers to six digits for JSON, None where there is none."""
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in values.tolist()]
