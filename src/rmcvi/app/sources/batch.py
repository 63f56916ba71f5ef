"""Rows of many streams, by the thousand."""

from dataclasses import dataclass

import numpy as np

from rmcvi.app.sources.observation import Position


@dataclass(frozen=True)
class Batch:
    """Rows of any streams in the order of the source, and the place after them."""

    keys: list[str]
    y: np.ndarray
    """Values (rows, columns), NaN = missing."""
    u: np.ndarray
    """Inputs (rows, inputs)."""
    dt: np.ndarray
    """Lengths of the steps (rows,)."""
    times: np.ndarray
    """Seconds or numbers (rows,), NaN = none."""
    position: Position | None

    def __len__(self) -> int:
        return len(self.keys)

    def some(self, rows: np.ndarray, columns: np.ndarray) -> "Batch":
        """Some of the rows, with some of the columns."""
        keys = list(map(self.keys.__getitem__, rows.tolist()))
        y, u, dt, times = self.y[rows][:, columns], self.u[rows], self.dt[rows], self.times[rows]
        return Batch(keys, y, u, dt, times, self.position)

    def with_rows(self, more: "Batch", order: np.ndarray) -> "Batch":
        """These rows and others in an order: numbers of those of both, one after the other."""
        keys = [*self.keys, *more.keys]
        ours = (self.y, self.u, self.dt, self.times)
        theirs = (more.y, more.u, more.dt, more.times)
        both = [np.concatenate(pair)[order] for pair in zip(ours, theirs, strict=True)]
        return Batch([keys[i] for i in order.tolist()], *both, position=self.position)


class Rows:
    """A batch that is put together row by row."""

    def __init__(self, columns: int, inputs: int):
        self._columns, self._inputs = columns, inputs
        self._keys: list[str] = []
        self._y: list[np.ndarray] = []
        self._u: list[np.ndarray] = []
        self._dt: list[float] = []
        self._times: list[float] = []

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: str, y: np.ndarray, u: np.ndarray, dt: float, time: float | None) -> None:
        """One row more."""
        self._keys.append(key)
        self._y.append(y)
        self._u.append(u)
        self._dt.append(dt)
        self._times.append(np.nan if time is None else time)

    def batch(self, position: Position | None) -> Batch:
        """All of them, and the place after them."""
        n = len(self)
        y, u = np.array(self._y, float), np.array(self._u, float)
        y, u = y.reshape(n, self._columns), u.reshape(n, self._inputs)
        return Batch(self._keys, y, u, np.array(self._dt), np.array(self._times), position)
