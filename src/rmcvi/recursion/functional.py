"""Additive functionals: E[sum_s h(x_{s-1}, x_s) | y_{0:t}] under q, from the same weights.

tau_i = sum_j w_ij (forget * tau_j + h(x_j, x_i)): a running smoothed expectation, for sufficient
statistics of online EM, smoothed means, energies, ... With `forget` below 1 the past fades.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from rmcvi.core import tree
from rmcvi.core.checks import check_real
from rmcvi.core.compensated import CompensatedSum
from rmcvi.recursion.cloud import Slot


class AdditiveFunctional(eqx.Module):
    """h(x_{t-1}, x_t) -> pytree of floating arrays; it starts at t = 1 (the sum at t = 0 is 0)."""

    function: Callable[[Array, Array], PyTree] = eqx.field(static=True)
    forget: float = eqx.field(static=True)

    def __init__(self, function: Callable[[Any, Any], PyTree], forget: float = 1.0):
        """`function` takes (x_prev, x), each of shape (dx,)."""
        if not callable(function):
            raise ValueError(f"function: got {function!r}, expected a callable of (x_prev, x)")
        self.function = function
        self.forget = 1.0 if forget == 1.0 else check_real("forget", forget, 0.0, 1.0)

    def init(self, x: Float[Array, "n dx"]) -> "FunctionalState":
        """Nothing summed yet."""
        value = jax.eval_shape(self.function, x[0], x[0])
        offset = jax.tree.map(lambda v: CompensatedSum.zeros(*v.shape), value)
        return FunctionalState(tree.zeros(value, x.shape[0]), offset)

    def step(self, state: "FunctionalState", slot: Slot, linked: Bool[Array, ""]):
        """One more term; the mean over particles is kept apart in a compensated sum."""
        h = slot.weights.pairs(self.function, slot.x_prev, slot.x)
        moved = jax.tree.map(
            lambda tau, term: jnp.where(
                linked,
                self.forget * slot.weights.average(tau) + slot.weights.expect(term),
                jnp.zeros_like(tau),
            ),
            state.tau,
            h,
        )
        tau, mean = tree.centre(moved)
        offset = jax.tree.map(
            lambda total, v: total.add(v, self.forget),
            state.offset,
            mean,
            is_leaf=lambda v: isinstance(v, CompensatedSum),
        )
        return FunctionalState(tau, offset)


class FunctionalState(eqx.Module):
    """Deviations of tau over particles, and its mean."""

    tau: PyTree
    offset: PyTree

    @property
    def value(self) -> PyTree:
        """The running smoothed expectation."""
        return jax.tree.map(
            lambda v: v.value, self.offset, is_leaf=lambda v: isinstance(v, CompensatedSum)
        )
