"""The recent past of the cell, and truncated back-propagation through it (errata A6).

The chain of time tau recomputes a_{tau-depth+1}, ..., a_tau with the current phi from the constant
base a_{tau-depth}; where the stream is younger than that, from the learned a_{-1}.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
from rmcvi.families import AbstractFamily

UNROLL = 8  # cell updates written out one after the other: they are too small for a loop


class History(eqx.Module):
    """The last rows of (a_{s-1}, y_s, inputs_s), oldest first."""

    carry: PyTree
    y: Float[Array, "rows dy"]
    inputs: Inputs

    @classmethod
    def empty(cls, rows: int, carry: PyTree, dim_obs: int, dim_input: int) -> "History":
        """Rows that no chain will use."""
        repeated = jax.tree.map(lambda v: jnp.broadcast_to(v, (rows, *v.shape)), carry)
        inputs = Inputs(jnp.zeros((rows, dim_input)), jnp.ones(rows))
        return cls(repeated, jnp.full((rows, dim_obs), jnp.nan, float), inputs)

    def push(self, carry: PyTree, y: Float[Array, "dy"], inputs: Inputs) -> "History":
        """Drop the oldest row, append the newest."""

        def shift(rows, new):
            return jnp.concatenate([rows[1:], new[None]])

        rows = (self.carry, self.y, self.inputs)
        return History(*jax.tree.map(shift, rows, (carry, y, inputs)))

    def lengthened(self, more: int) -> "History":
        """`more` rows in front, which stand for nothing observed."""

        def repeat(rows):
            return jnp.concatenate([jnp.broadcast_to(rows[:1], (more, *rows.shape[1:])), rows])

        longer = jax.tree.map(repeat, (self.carry, self.y, self.inputs))
        return History(longer[0], longer[1].at[:more].set(jnp.nan), longer[2])

    def forget_last(self, unsound: Bool[Array, ""]) -> "History":
        """Treat the newest observation as missing if it led to numbers that are not finite."""
        last = jnp.where(unsound, jnp.nan, self.y[-1])
        return History(self.carry, self.y.at[-1].set(last), self.inputs)


def replay(
    family: AbstractFamily,
    model: Any,
    history: History,
    t: Int[Array, ""],
    count: int,
    depth: int,
) -> tuple[PyTree, PyTree]:
    """a_{tau-1} of the last `count` times tau, each by its own chain, and a_tau of the last two.

    All chains advance together by `depth - 1` updates, and two of them by one more.
    """
    rows = np.arange(count)[None] + np.arange(depth)[:, None]
    time = t - (count + depth - 2) + rows
    initial = family.initial_carry(model)
    young = time[0] <= 0
    base = jax.tree.map(lambda v: v[:count], history.carry)
    base = jax.vmap(lambda fresh, stored: tree.where(fresh, initial, stored))(young, base)

    def advance(carry, y, inputs, valid):
        return tree.where(valid, family.advance(model, carry, y, inputs), carry)

    def update(carry, row):
        return jax.vmap(advance)(carry, *row), None

    past = jax.tree.map(lambda v: v[rows], (history.y, history.inputs))
    past = (*past, time >= 0)
    earlier = jax.tree.map(lambda v: v[:-1], past)
    before, _ = jax.lax.scan(update, base, earlier, unroll=UNROLL)
    newest = jax.tree.map(lambda v: v[-1, -2:], past)
    now, _ = update(jax.tree.map(lambda v: v[-2:], before), newest)
    return before, now
