"""How forecasts fared that the learner made along the way, by the number of rows ahead."""

import math
from typing import Any

import numpy as np

from rmcvi.contract import ByHorizon

PARTS = {"rmse": "square", "last_value_rmse": "last", "season_rmse": "season"}
"""Names of the errors in `summary.json`, and those of the sums behind them."""


def horizon_rows(
    record: ByHorizon | None, columns: list[str], variance: np.ndarray
) -> dict[str, list[dict[str, Any]]] | None:
    """Rows of a table for all columns (key ""), and for each; None if there is no record.

    Args:
        record: of the learner.
        columns: their names.
        variance: of their values; over all columns errors are in standard deviations, as elsewhere,
            unless there is but one. A constant column counts for nothing there.
    """
    if record is None:
        return None
    unit = np.ones(1) if len(columns) == 1 else np.where(variance > 0.0, variance, np.inf)
    varies = np.isfinite(unit)
    tables = {"": _rows(record, unit, varies)}
    if len(columns) > 1:
        for i, name in enumerate(columns):
            tables[name] = _rows(record, np.ones(len(columns)), np.arange(len(columns)) == i)
    return tables


def _rows(record: ByHorizon, unit: np.ndarray, chosen: np.ndarray) -> list[dict[str, Any]]:
    """One for each range of horizons of which there is a value."""
    count = (np.asarray(record.count, float) * chosen).sum(1)
    inside = (np.asarray(record.inside, float) * chosen).sum(1)
    sums = {
        name: (np.asarray(getattr(record, part), float) / unit * chosen).sum(1)
        for name, part in PARTS.items()
    }
    return [
        {"from": record.ends[k], "to": record.ends[k + 1] - 1, "values": int(n)}
        | {name: math.sqrt(total[k] / n) for name, total in sums.items()}
        | {"coverage": inside[k] / n}
        for k, n in enumerate(count.tolist())
        if n > 0
    ]
