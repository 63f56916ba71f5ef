"""What `Live` says of a row, and of the rows to come."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np


def _none() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True)
class Estimate:
    """What one row brought, in the units of the data; dicts if the row was one."""

    mean: Any
    """Prediction, made before the row was seen (NaN while nothing is known of a column)."""
    low: Any
    high: Any
    log_score: float
    """Log-density of the row under the prediction, over what was observed and not doubted."""
    failure: Any
    """Evidence in [0, 1] that a column's sensor has failed (above 1/2: it has)."""
    alarms: tuple[str, ...]
    """Sentences that stay the same while what they say goes on; empty if all is well."""
    filled: Any = None
    """Posterior of each value that was not observed, NaN where it was."""
    state_mean: np.ndarray = field(default_factory=_none)
    """Filtered mean of the hidden state, in the learner's units; empty if there is none."""
    state_std: np.ndarray = field(default_factory=_none)
    elbo: float = np.nan
    """Evidence lower bound per row so far, of the rows as the learner sees them."""
    ess: float = np.nan
    """Effective sample size."""
    recoveries: int = 0
    """Rows so far on which the learner went back to a sound state, or was replaced."""


@dataclass(frozen=True)
class LiveForecast:
    """One entry per step, in the units of the data; dicts if the last row was one."""

    mean: list[Any]
    low: list[Any]
    high: list[Any]
