"""Smoothing: draw trajectories backwards through q_{s-1|s}(x_s, .)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
from rmcvi.families import AbstractFamily
from rmcvi.models import AbstractModel


class Smoothed(eqx.Module):
    """Draws of states given observations up to t, oldest first, and their moments."""

    samples: Float[Array, "num T dx"]

    @property
    def mean(self) -> Float[Array, "T dx"]:
        """Smoothed means."""
        return jnp.mean(self.samples, 0)

    @property
    def std(self) -> Float[Array, "T dx"]:
        """Smoothed standard deviations."""
        return jnp.std(self.samples, 0)


def backward_trajectories(
    model: AbstractModel,
    family: AbstractFamily,
    carries: PyTree,
    last: PyTree,
    inputs: Inputs,
    key: Key[Array, ""],
    num: int,
) -> Smoothed:
    """`num` draws of (x_{t-T}, ..., x_t); row s of `carries`, `inputs` holds a_{s-1} and inputs_s.

    `last` is the natural parameter of q_t.
    """
    q = family.distribution
    k_last, k_back = jax.random.split(key)
    x = q.sample(k_last, last, num)

    def back(x, row):
        carry, inputs, k = row
        eta_prev = family.marginal(carry)

        def one(k, x_i):
            eta = tree.add(eta_prev, family.potential(model, carry, x_i, inputs))
            return q.sample(k, eta, 1)[0]

        x_prev = jax.vmap(one)(jax.random.split(k, num), x)
        return x_prev, x_prev

    steps = inputs.dt.shape[0]
    rows = (carries, inputs, jax.random.split(k_back, steps))
    _, earlier = jax.lax.scan(back, x, rows, reverse=True)
    return Smoothed(jnp.moveaxis(jnp.concatenate([earlier, x[None]]), 0, 1))


def filter_sequence(
    model: AbstractModel, family: AbstractFamily, ys: Float[Array, "T dy"], inputs: Inputs
) -> tuple[PyTree, PyTree]:
    """(a_{t-1}, a_t) for every t of a whole sequence, with fixed parameters."""

    def step(carry: Any, row: Any) -> Any:
        new = family.advance(model, carry, *row)
        return new, (carry, new)

    return jax.lax.scan(step, family.initial_carry(model), (ys, inputs))[1]
