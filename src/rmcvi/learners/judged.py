"""Rows as the monitors and the counters see them: all that the sentences of alarms are made of."""

from typing import NamedTuple

import numpy as np


class Counted(NamedTuple):
    """After each row, (rows, columns) or (rows,)."""

    since: np.ndarray
    """The row of the last change."""
    missing: np.ndarray
    """Rows without a value up to this one."""
    longest: np.ndarray
    """The longest gap that ended."""
    repeats: np.ndarray
    """Rows in which all columns that live were seen and none had changed."""


class Judged(NamedTuple):
    """All that the sentences of rows are made of, (rows, columns), but for `flags` (rows,)."""

    kind: np.ndarray
    """What an alarm would be about, 0 for none."""
    anomaly: np.ndarray
    age: np.ndarray
    dead: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    flags: np.ndarray
    counted: Counted

    @property
    def loud(self) -> np.ndarray:
        """Rows at which something may begin."""
        return (self.flags != 0) | self.kind.any(1) | self.dead.any(1)

    def at(self, t: int) -> list["Now"]:
        """The columns of a row."""
        return [Now(*v) for v in zip(*(part[t].tolist() for part in self[:8]), strict=True)]


class Now(NamedTuple):
    """One column of the present row."""

    kind: int
    """What its alarm would be, 0 for none."""
    anomaly: float
    age: float
    dead: bool
    y: float
    mean: float
    low: float
    high: float
