"""Short streams with everything that happens: gaps of one coordinate, of a row, an absurd value."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rmcvi.checks.compile import keys, quick_jit
from rmcvi.checks.report import call
from rmcvi.core.inputs import Inputs
from rmcvi.models import AbstractModel

ABSURD = 1e6


def simulated(model: AbstractModel, length: int, seed: int) -> np.ndarray:
    """Observations of the model's own, with usual steps and without inputs."""
    return np.asarray(_simulated(model, keys(seed, 2 * length)))


@quick_jit
def _simulated(model: AbstractModel, keys: Any) -> Any:
    inputs = Inputs(jnp.zeros(model.dim_input), jnp.ones(()))

    def step(x, pair):
        y = call("model.emission_sample", model.emission_sample, pair[0], x, inputs)
        return call("model.transition_sample", model.transition_sample, pair[1], x, inputs), y

    start = call("model.initial_sample", model.initial_sample, keys[0])
    return jax.lax.scan(step, start, keys.reshape(-1, 2))[1]


def wandering(dim: int, length: int, seed: int) -> np.ndarray:
    """Observations for a learner without a model: y_t = .8 y_{t-1} + noise."""
    noise = np.random.default_rng(seed).normal(size=(length, dim))
    for t in range(1, length):
        noise[t] += 0.8 * noise[t - 1]
    return noise


def with_gaps(ys: np.ndarray) -> np.ndarray:
    """Row 2 lacks its first coordinate, row 3 all of them."""
    ys = np.array(ys, float)
    ys[2, 0] = np.nan
    ys[3] = np.nan
    return ys
