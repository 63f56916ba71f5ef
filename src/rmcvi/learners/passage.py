"""Rows on their way: into the learner's units, and their results back into those of the data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rmcvi.core.past import last_value
from rmcvi.learners.chunk import Rows
from rmcvi.learners.episodes import Episodes, Verdicts
from rmcvi.learners.estimate import Estimates
from rmcvi.learners.units import Units


@dataclass(frozen=True, eq=False)
class Passage:
    """Some rows, arrays (rows, columns) with NaN for what was not observed."""

    rows: np.ndarray
    last: np.ndarray
    """The last value of each column before each row; NaN if it never had one."""
    units: Units

    @classmethod
    def of(cls, rows: np.ndarray, before: np.ndarray, units: Units) -> "Passage":
        """Rows, and the last values before the first of them."""
        return cls(rows, last_value(rows, before), units)

    def first(self, count: int) -> "Passage":
        """The first rows alone."""
        return Passage(self.rows[:count], self.last[:count], self.units.first(count))

    @property
    def latest(self) -> np.ndarray:
        """The last value of each column, the last row's included."""
        return np.where(np.isnan(self.rows[-1]), self.last[-1], self.rows[-1])

    def values(self, known: np.ndarray, dt: np.ndarray) -> np.ndarray:
        """What a program is given: the fields of `Values`, the inputs, the length."""
        units = self.units
        last = (self.last - units.mean) / units.scale
        parts = (units.z, last, self.rows - self.last, units.scale, known, dt[:, None])
        return np.concatenate(parts, axis=1)

    def estimates(self, results: Rows, episodes: Episodes, names: Sequence[str]) -> Estimates:
        """In the units of the data; of a column that never had a value nothing was known.

        Args:
            results: of these rows, in the learner's units.
            episodes: what goes on; it is moved on.
            names: of the columns, if the rows were dicts.
        """
        new, units = np.isnan(self.last), self.units
        inner = np.stack([results.mean, results.low, results.high, results.filled])
        mean, low, high, filled = np.where(new, np.nan, units.mean + units.scale * inner)
        band = (mean, low, high)
        score = np.where((new | np.isnan(units.z)).all(1), np.nan, results.log_score)
        verdicts = Verdicts(results.kind, results.anomaly, results.age)
        return Estimates(
            *band,
            log_score=score + units.log_jacobian,
            failure=results.failure,
            anomaly=results.anomaly,
            alarms=episodes.step(self.rows, self.last, band, verdicts, results.alarms),
            filled=np.where(np.isnan(self.rows), filled, np.nan),
            state_mean=results.state_mean,
            state_std=results.state_std,
            elbo=results.elbo,
            ess=results.ess,
            recoveries=results.recoveries,
            names=tuple(names),
        )
