"""Gradients that must not destroy a trained learner.

A gradient longer than `limit` times its running length is cut to that; the running length follows
what was let through, so one outlier moves it little and a true change moves it soon.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from rmcvi.core.checks import check_real

WARM_UP = 30  # gradients that set the first running length


class GuardState(eqx.Module):
    """Running length of the gradient, the number of observations behind it, and of cuts."""

    length: Float[Array, ""]
    count: Int[Array, ""]
    cuts: Int[Array, ""]


class GradientGuard(eqx.Module):
    """Cut gradients to `limit` times their running length (memory about `1 / rate` steps)."""

    limit: float = eqx.field(static=True)
    rate: float = eqx.field(static=True)

    def __init__(self, limit: float = 10.0, rate: float = 0.01):
        """`limit` > 1; `rate` in (0, 1)."""
        self.limit = check_real("limit", limit, 1.0)
        self.rate = check_real("rate", rate, 0.0, 1.0)

    def init(self) -> GuardState:
        """Nothing seen."""
        return GuardState(jnp.zeros(()), jnp.zeros((), int), jnp.zeros((), int))

    def step(self, state: GuardState, gradient: PyTree) -> tuple[GuardState, PyTree]:
        """The gradient, cut if it must be, and the new running length."""
        norm = optax.tree.norm(gradient)
        longest = jnp.where(state.count >= WARM_UP, self.limit * state.length, norm)
        cut = norm > longest
        factor = jnp.where(cut, longest / jnp.maximum(norm, jnp.finfo(norm.dtype).tiny), 1.0)
        weight = jnp.maximum(self.rate, 1.0 / (state.count + 1.0))
        length = state.length + weight * (jnp.minimum(norm, longest) - state.length)
        counted = norm > 0.0
        length = jnp.where(counted, length, state.length)
        new = GuardState(length, state.count + counted, state.cuts + cut)
        return new, jax.tree.map(lambda g: factor * g, gradient)
