"""Loops around the learner: one compiled pass over an array."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from rmcvi._core.checks import check_array
from rmcvi._core.inputs import Inputs
from rmcvi.estimator._estimator import LearnerState, OnlineEstimator

Collect = Callable[[OnlineEstimator, LearnerState, Any], PyTree]


def scan(
    learner: OnlineEstimator,
    state: LearnerState,
    ys: ArrayLike,
    u: ArrayLike | None = None,
    dt: ArrayLike | None = None,
    collect: Collect | None = None,
) -> tuple[LearnerState, PyTree]:
    """All rows of `ys` in one compiled loop: the same numbers as single updates.

    `collect(learner, state, info)` picks what is stacked over time (default: `info`).
    """
    ys = jnp.asarray(ys, float)
    check_array("ys", ys, (None, learner.model.dim_obs))
    inputs = Inputs.sequence(len(ys), u, dt, learner.model.dim_input)
    return _scan(learner, state, ys, inputs, collect)


@eqx.filter_jit
def _scan(
    learner: OnlineEstimator,
    state: LearnerState,
    ys: Array,
    inputs: Inputs,
    collect: Collect | None,
) -> tuple[LearnerState, PyTree]:
    def step(state, row):
        state, info = learner.step(state, *row)
        return state, info if collect is None else collect(learner, state, info)

    return jax.lax.scan(step, state, (ys, inputs))
