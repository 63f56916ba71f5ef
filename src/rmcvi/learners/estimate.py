"""What `Live` says of a row, of many, and of the rows to come."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np


def _none() -> np.ndarray:
    return np.zeros(0)


def by_name(values: np.ndarray, names: Sequence[str]) -> Any:
    """A dict of numbers, or without names the values as they are."""
    return dict(zip(names, values.tolist(), strict=True)) if len(names) else values


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
    anomaly: Any
    """From 0 to 1: 1 / (1 + r), r how often in 10 000 rows something as unusual is expected."""
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


@dataclass(frozen=True, eq=False)
class Estimates:
    """What many rows brought: the fields of `Estimate`, each (rows, ...); iterate for them."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    log_score: np.ndarray
    failure: np.ndarray
    anomaly: np.ndarray
    alarms: list[tuple[str, ...]]
    filled: np.ndarray
    state_mean: np.ndarray
    state_std: np.ndarray
    elbo: np.ndarray
    ess: np.ndarray
    recoveries: np.ndarray
    names: tuple[str, ...] = ()
    """Of the columns, if the rows were dicts; those of an `Estimate` are then as well."""

    def __len__(self) -> int:
        return len(self.alarms)

    def __iter__(self) -> Iterator[Estimate]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, row: int) -> Estimate:
        """What one row brought."""
        columns = (self.mean, self.low, self.high, self.failure, self.anomaly, self.filled)
        mean, low, high, failure, anomaly, filled = (by_name(v[row], self.names) for v in columns)
        return Estimate(
            *(mean, low, high, float(self.log_score[row])),
            *(failure, anomaly, self.alarms[row], filled),
            *(self.state_mean[row], self.state_std[row]),
            *(float(self.elbo[row]), float(self.ess[row]), int(self.recoveries[row])),
        )

    @classmethod
    def joined(cls, parts: "Sequence[Estimates]") -> "Estimates":
        """One after the other."""
        if len(parts) == 1:
            return parts[0]
        arrays = {
            f.name: np.concatenate([getattr(part, f.name) for part in parts])
            for f in fields(cls)
            if f.name not in ("alarms", "names")
        }
        alarms = [said for part in parts for said in part.alarms]
        return cls(**arrays, alarms=alarms, names=parts[0].names)


@dataclass(frozen=True)
class LiveForecast:
    """One entry per step, in the units of the data; dicts if the last row was one."""

    mean: list[Any]
    low: list[Any]
    high: list[Any]
