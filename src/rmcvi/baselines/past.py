"""The last rows of a rival without a hidden state: what came, and what was predicted of it.

Such a rival learns nothing about a row from the rows after it: a value that did not come stays what
its prediction was.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.baselines.tails import Tails
from rmcvi.contract import AbstractLearner, Band
from rmcvi.core.checks import check_real

ROWS = 25
"""Rows that are kept: of an hourly stream the present one and the day before it."""


class Past(eqx.Module):
    """Rows, latest last; NaN before the first."""

    y: Float[Array, "rows dy"]
    mean: Float[Array, "rows dy"]
    scale: Float[Array, "rows dy"]

    @classmethod
    def empty(cls, dim: int) -> "Past":
        """No rows."""
        unknown = jnp.full((ROWS, dim), jnp.nan, float)
        return cls(unknown, unknown, unknown)

    def push(
        self, y: Float[Array, "dy"], mean: Float[Array, "dy"], scale: Float[Array, "dy"]
    ) -> "Past":
        """One row more, the oldest dropped."""
        rows = (self.y, self.mean, self.scale)
        new = zip(rows, (y, mean, scale), strict=True)
        return Past(*(jnp.concatenate([old[1:], row[None]]) for old, row in new))

    def band(self, lag: int, tails: Tails, level: float) -> Band:
        """The last `lag + 1` rows: values as they came, the others as they were predicted."""

        def one(y: Array, mean: Array, scale: Array) -> Band:
            said = tails.predict(mean, scale, jnp.full_like(y, jnp.nan), level)[1]
            predicted = Band(said.mean, said.low, said.high)
            return jax.tree.map(lambda v: jnp.where(jnp.isnan(y), v, y), predicted)

        return jax.vmap(one)(self.y[-lag - 1 :], self.mean[-lag - 1 :], self.scale[-lag - 1 :])


class AbstractRival(AbstractLearner):
    """A learner without a hidden state; its state has the fields `past` and `tails`."""

    @property
    def reach(self) -> int:
        """Rows before the present one."""
        return ROWS - 1

    def present(self, state: Any, *, level: float = 0.9) -> Band:
        """The row taken in last."""
        return jax.tree.map(lambda v: v[0], self.recent(state, 0, level=level))

    def recent(self, state: Any, lag: int, *, level: float = 0.9) -> Band:
        """The last rows; a value that did not come as it was predicted."""
        self.check_lag(lag)
        return state.past.band(lag, state.tails, check_real("level", level, 0.0, 1.0))
