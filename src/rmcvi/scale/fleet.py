"""Many independent streams advanced together: one program, a row of it per stream.

    fleet = Fleet(learner)
    states = fleet.init(key, 100)
    states, infos = fleet.update(states, ys, active=active)

Every stream has parameters, particles and a clock of its own. A row of NaN is an observation that
did not come; a stream that is not active has not joined yet, or rests: its clock stands still.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Key, PyTree

from rmcvi.contract import AbstractLearner
from rmcvi.core import tree
from rmcvi.core.checks import check_array, check_instance, check_int
from rmcvi.core.inputs import Inputs
from rmcvi.learners.loops import Collect


class Fleet(eqx.Module):
    """One learner, many streams; leaves of `states` have a leading axis of streams."""

    learner: AbstractLearner

    def __init__(self, learner: AbstractLearner):
        """`learner` is the starting point of every stream."""
        check_instance("learner", learner, AbstractLearner)
        self.learner = learner

    def init(self, key: Key[Array, ""], count: int) -> PyTree:
        """States of `count` streams; that of stream i is `learner.init(split(key, count)[i])`."""
        return jax.vmap(self.learner.init)(jax.random.split(key, check_int("count", count)))

    def stream(self, states: PyTree, index: int) -> PyTree:
        """The state of one stream, for `learner.filter`, `learner.forecast` and the like."""
        return jax.tree.map(lambda v: v[index], states)

    def step(
        self,
        states: PyTree,
        ys: Float[Array, "streams dy"],
        inputs: Inputs,
        active: Bool[Array, "streams"] | None = None,
    ) -> tuple[PyTree, Any]:
        """Every active stream one step on; what an inactive one tells means nothing."""
        new, infos = jax.vmap(self.learner.step)(states, ys, inputs)
        if active is not None:
            new = jax.vmap(tree.where)(active, new, states)
        return new, infos

    def update(
        self,
        states: PyTree,
        ys: ArrayLike,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        active: ArrayLike | None = None,
    ) -> tuple[PyTree, Any]:
        """Take in one observation per stream (rows of `ys`, `u` and `dt`), compiled."""
        ys = jnp.asarray(ys, float)
        check_array("ys", ys, (None, self.learner.dim_obs))
        inputs = Inputs.sequence(len(ys), u, dt, self.learner.dim_input)
        return _update(self, states, ys, inputs, _present(active, ys))

    def scan(
        self,
        states: PyTree,
        ys: ArrayLike,
        active: ArrayLike | None = None,
        collect: Collect | None = None,
    ) -> tuple[PyTree, PyTree]:
        """All rows of `ys`, of shape (T, streams, dy), in one compiled loop; `active` likewise.

        `collect(fleet, states, infos)` picks what is stacked over time (default: `infos`).
        """
        ys = jnp.asarray(ys, float)
        check_array("ys", ys, (None, None, self.learner.dim_obs))
        return _scan(self, states, ys, _present(active, ys), collect)


def _present(active: ArrayLike | None, ys: Array) -> Array | None:
    """`active` as an array with one truth value per observation."""
    if active is None:
        return None
    present = jnp.asarray(active, bool)
    if present.shape != ys.shape[:-1]:
        raise ValueError(f"active: got shape {present.shape}, expected {ys.shape[:-1]}")
    return present


@eqx.filter_jit
def _update(
    fleet: Fleet, states: PyTree, ys: Array, inputs: Inputs, active: Array | None
) -> tuple[PyTree, Any]:
    return fleet.step(states, ys, inputs, active)


@eqx.filter_jit
def _scan(
    fleet: Fleet, states: PyTree, ys: Array, active: Array | None, collect: Any
) -> tuple[PyTree, PyTree]:
    inputs = Inputs.sequence(ys.shape[1], dim=fleet.learner.dim_input)

    def step(states, row):
        states, infos = fleet.step(states, row[0], inputs, row[1])
        return states, infos if collect is None else collect(fleet, states, infos)

    return jax.lax.scan(step, states, (ys, active))
