"""What a learner has learned, as numbers with names."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from rmcvi.contract import AbstractLearner
from rmcvi.learners.estimator import OnlineEstimator
from rmcvi.learners.seasonal import SeasonalState

MOST = 25
"""Entries of an array that are told one by one; of a larger one the root mean square."""


def parameters(
    learner: AbstractLearner, state: PyTree, columns: list[str], *, whole: bool = False
) -> dict[str, Any]:
    """Scalars by name, or with `whole` arrays as they are; nothing for an unknown learner.

    Those of a model are in its own units (standardised, if the columns are); those of a seasonal
    learner in the units of the data.
    """
    arrays = jax.device_get(_arrays(learner, state))
    if isinstance(state, SeasonalState):
        return {f"{c}.{k}": float(v[i]) for i, c in enumerate(columns) for k, v in arrays.items()}
    if whole:
        return arrays
    return {name: value for k, v in arrays.items() for name, value in _scalars(k, v)}


@eqx.filter_jit
def _arrays(learner: AbstractLearner, state: PyTree) -> dict[str, Array]:
    if isinstance(learner, OnlineEstimator):
        return dict(learner.model_at(state).parameters())
    if isinstance(state, SeasonalState):
        first = jax.tree.map(lambda v: v[0], state.learned.components)
        noise = jnp.sqrt(first.noise.variance) * first.units.deviation
        return {
            "level": first.units.centre,
            "noise": noise,
            "persistence": jnp.diagonal(first.rows.weights),
        }
    return {}


def _scalars(name: str, value: np.ndarray) -> list[tuple[str, float]]:
    if value.ndim == 0:
        return [(name, float(value))]
    if value.size > MOST:
        return [(f"{name}.rms", float(np.sqrt(np.mean(value**2))))]
    places = np.ndindex(value.shape)
    return [(f"{name}[{','.join(map(str, i))}]", float(value[i])) for i in places]
