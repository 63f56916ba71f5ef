"""The last rows again, given all that came after them."""

from typing import Any

import numpy as np
from jaxtyping import PyTree

from rmcvi.contract import AbstractLearner


def recent(
    learner: AbstractLearner, state: PyTree, scaling: Any, lag: int, level: float
) -> np.ndarray:
    """Mean, low and high of the last lag + 1 rows, (rows, columns, 3).

    Args:
        learner: as it is.
        state: its state after the last row.
        scaling: how its units become those of the columns; None if they are the same.
        lag: rows to look back.
        level: of the bands.
    """
    band = learner.recent(state, lag, level=level)
    parts = [np.asarray(v) for v in (band.mean, band.low, band.high)]
    return np.stack([v if scaling is None else scaling.inverse(v) for v in parts], -1)
