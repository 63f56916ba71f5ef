"""Streams by their keys: a table of states, moved on by batches of rows.

    streams = Streams(SeasonalLearner(1))
    results = streams.learn(keys, values)        # predicted first, then learned, row by row

A batch holds rows of any streams in the order in which they came. What is told of a row depends on
the rows of its own stream alone, to the bit: not on the batch, nor on the other streams.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from rmcvi.contract import AbstractLearner, Band
from rmcvi.core.checks import check_int
from rmcvi.scale.block import STEPS, Block
from rmcvi.scale.results import Results, Tally
from rmcvi.scale.units import StreamUnits

PAGE = 256
"""Streams whose states lie side by side: a table grows without being copied, and a page is not
given back, but filled anew, when streams are removed."""
AGES = 256
"""Rows after which streams are of the same age: until then, those of one age share blocks, since
all lanes of a block wait for one that has more to do, as in a warm-up."""


class Streams:
    """A learner for each key; a key that is new starts with nothing learned."""

    def __init__(
        self,
        learner: AbstractLearner,
        seed: int = 0,
        sensitivity: float = 1.0,
        *,
        whole: bool = False,
    ):
        """Every stream is as a `Live` of its own with these, and without `remedy`."""
        self.learner, self.block = learner, Block(learner, seed, sensitivity, whole=whole)
        self.units = None if learner.units == "raw" else StreamUnits(learner.dim_obs)
        """Those of the streams, if columns are standardised."""
        self._places: dict[str, int] = {}
        self._free: list[int] = []
        self._pages: list[np.ndarray] = []
        self._rows, self._failing = np.zeros(0, int), np.zeros(0, bool)

    @property
    def keys(self) -> list[str]:
        """Those of the streams that are here."""
        return list(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def place(self, key: str) -> int:
        """The number of a stream; a new one is added."""
        at = self._places.get(key)
        return self._take(key) if at is None else at

    def _take(self, key: str) -> int:
        """A place for a stream, as yet of no rows."""
        if not self._free:
            begin = PAGE * len(self._pages)
            self._free = list(range(begin, begin + PAGE))[::-1]
            self._pages.append(np.empty((PAGE, len(self.block.fresh)), self.block.fresh.dtype))
            self._rows = np.concatenate([self._rows, np.zeros(PAGE, int)])
            self._failing = np.concatenate([self._failing, np.zeros(PAGE, bool)])
        at = self._places[key] = self._free.pop()
        self.state(at)[:] = self.block.fresh
        return at

    def add(self, states: Mapping[str, np.ndarray]) -> int:
        """Streams as `state` gave them; returns how many have a sensor that fails."""
        if not states:
            return 0
        whole = np.stack(list(states.values()))
        places = [self.place(key) for key in states]
        for at, state in zip(places, whole, strict=True):
            self.state(at)[:] = state
        tally = self.block.tallies(whole)
        self._rows[places], self._failing[places] = tally.rows, (tally.failing > 0.5).any(1)
        return int(self._failing[places].sum())

    def remove(self, keys: Sequence[str]) -> int:
        """Make room: what the streams were is gone; returns how many have a sensor that fails."""
        places = [self._places.pop(key) for key in keys]
        failing = int(self._failing[places].sum())
        self._rows[places], self._failing[places] = 0, False
        self._free += places
        if self.units is not None:
            for key in keys:
                self.units.forget(key)
        return failing

    def state(self, at: int) -> np.ndarray:
        """The numbers of a stream, in their place."""
        return self._pages[at // PAGE][at % PAGE]

    def learn(
        self, keys: Sequence[str], y: Any, u: Any | None = None, dt: Any | None = None
    ) -> Results:
        """Predict each row, then learn from it; arrays (rows, ..) in the order of the rows.

        Args:
            keys: whose rows they are.
            y: values (rows, dy), NaN = not observed.
            u: inputs (rows, du).
            dt: lengths of the steps (rows,), 1 by default.
        """
        values = np.asarray(y, float)
        n, du = len(keys), self.learner.dim_input
        if values.shape != (n, self.learner.dim_obs):
            raise ValueError(f"y: got {values.shape}, expected {(n, self.learner.dim_obs)}")
        inputs = np.zeros((n, 0)) if u is None else np.asarray(u, float)
        if inputs.shape != (n, du):
            raise ValueError(f"u: got {inputs.shape}, expected {(n, du)}")
        steps = np.ones(n) if dt is None else np.asarray(dt, float)
        values = np.where(np.isfinite(values), values, np.nan)
        for key in dict.fromkeys(keys):
            self.place(key)
        which = self._which(keys)
        parts = [values, inputs, steps[:, None]]
        if self.units is not None:
            parts.insert(1, self.units.rows(keys, values))
        return self._learn(which, np.concatenate(parts, 1))

    def _which(self, keys: Sequence[str]) -> np.ndarray:
        """The numbers of the streams of rows."""
        return np.fromiter(map(self._places.__getitem__, keys), int, len(keys))

    def _learn(self, which: np.ndarray, rows: np.ndarray) -> Results:
        """As `learn`, for streams by their numbers and rows with all that a block takes."""
        order = np.argsort(which, kind="stable")
        streams, first, counts = np.unique(which[order], return_index=True, return_counts=True)
        told = np.empty((len(rows), Results.width(self.learner.dim_obs)))
        ages = np.minimum(self._rows[streams], AGES)
        together = np.lexsort((-counts, ages))
        for begin in range(0, len(together), self.block.lanes):
            these = together[begin : begin + self.block.lanes]
            self._block(streams[these], first[these], counts[these], rows, order, told)
        self._rows[streams] += counts
        results = Results.of(told, self.learner.dim_obs)
        last = order[first + counts - 1]
        self._failing[streams] = (results.failure[last] > 0.5).any(1)
        return results

    def _block(
        self,
        streams: np.ndarray,
        first: np.ndarray,
        counts: np.ndarray,
        rows: np.ndarray,
        order: np.ndarray,
        told: np.ndarray,
    ) -> None:
        """All rows of a block's streams: those of stream i are `order[first[i] + ..]`."""
        spare = self.block.lanes - len(streams)
        states = np.stack([*map(self.state, streams.tolist()), *[self.block.fresh] * spare])
        first, left = (np.concatenate([v, np.zeros(spare, int)]) for v in (first, counts))
        while left.any():
            steps = np.arange(min(STEPS, left.max()))[:, None]
            at = order[np.minimum(first + steps, len(order) - 1)]
            states, numbers, done = self.block.advance(states, rows[at], np.minimum(left, STEPS))
            did = steps < done
            told[at[did]] = numbers[did]
            first, left = first + done, left - done
        for at, state in zip(streams.tolist(), states, strict=False):
            self.state(at)[:] = state

    def open(self, key: str) -> tuple[PyTree, Tally]:
        """The learner's state of a stream, and how it has fared."""
        if key not in self._places:
            raise ValueError(f"key: got {key!r}, expected one of the {len(self)} streams")
        state, _, tally = self.block.open(self.state(self._places[key]))
        return state, tally

    def forecast(
        self,
        key: str,
        horizon: int,
        u: Any | None = None,
        dt: Any | None = None,
        *,
        level: float = 0.9,
    ) -> Band:
        """The next rows of a stream with their central intervals."""
        state, _ = self.open(key)
        steps = check_int("horizon", horizon)
        band = self.learner.forecast(state, steps, u, dt, level=level)
        if self.units is None:
            return band
        scaling = self.units.scaling(key)
        parts = (band.mean, band.low, band.high)
        return Band(*(jnp.asarray(scaling.inverse_ahead(part)) for part in parts))

    def numbers(self, keys: Sequence[str]) -> list[int]:
        """The numbers, from 1, of the last rows of streams: those of a batch just learned."""
        which = self._which(keys)
        order = np.argsort(which, kind="stable")
        streams, first, counts = np.unique(which[order], return_index=True, return_counts=True)
        numbers = np.empty(len(keys), int)
        before = self._rows[streams] - counts - first
        numbers[order] = np.arange(1, len(keys) + 1) + np.repeat(before, counts)
        return numbers.tolist()

    @property
    def failing(self) -> int:
        """Streams with a sensor that fails now."""
        return int(self._failing.sum())

    def tallies(self) -> Tally:
        """How all streams have fared, with a leading axis in the order of `keys`."""
        pages = [self.block.tallies(page) for page in self._pages]
        here = np.array(list(self._places.values()), int)
        every = jax.tree.map(lambda *parts: np.concatenate(parts)[here], *pages)
        return every if pages else Tally.fresh(self.learner.dim_obs)
