"""The paper's forward gradient: one gradient per particle, propagated with the weights.

u_i = sum_j w_ij u_j + grad_phi {<eta_{t-1} + eta~(x_i), c_i> + Entropy}
v_i = sum_j w_ij {v_j + grad_theta log m(x_j, x_i)} + grad_theta log g(x_i, y_t)

Exact at any horizon, at a cost O(N^2 P) and memory O(N P); `windowed` gives the same mean for
less. u and v are kept centred (errata A9): only differences between particles matter for what
follows.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from rmcvi.contract import Gradients
from rmcvi.core import tree
from rmcvi.core.observation import Observation
from rmcvi.models import AbstractModel
from rmcvi.recursion.cloud import Slot, Value
from rmcvi.recursion.windowed import terminal_score


class Tangents(eqx.Module):
    """Per-particle gradients of h, centred over particles."""

    model: PyTree
    family: PyTree

    @classmethod
    def empty(cls, theta: PyTree, phi: PyTree, num: int) -> "Tangents":
        """No gradient yet."""
        return cls(tree.zeros(theta, num), tree.zeros(phi, num))


def check_tangents(tangents: Tangents, theta: PyTree, phi: PyTree) -> None:
    """Refuse a state that was made for other parameters."""
    for name, kept, given in (("model", tangents.model, theta), ("family", tangents.family, phi)):
        if jax.tree.structure(kept) != jax.tree.structure(given):
            raise ValueError(
                f"trainable.{name}: got another choice of parameters than `init` was given, "
                "expected the same in `init` and `step`"
            )


def forward_gradients(
    model: tuple[PyTree, PyTree],
    family: tuple[PyTree, PyTree],
    tangents: Tangents,
    value: Value,
    chains: Any,
    observed: Observation,
    entropy: str,
) -> tuple[Tangents, Gradients]:
    """Move u and v one step on.

    Args:
        model: (trained, rest) partition of the model.
        family: the same of the family.
        tangents: u and v of t - 1.
        value: h, weights and coefficients of t.
        chains: phi -> the recent carries, recomputed.
        observed: y_t and its inputs.
        entropy: how that of the kernels is taken.
    """
    slot, theta, phi = value.slot, model[0], family[0]
    inputs, linked = observed.inputs, ~observed.first
    if tree.has_arrays(phi):
        fixed = eqx.combine(*model)

        def particle(phi, x, c):
            q = eqx.combine(phi, family[1])
            carry = jax.tree.map(lambda v: v[-1], chains(phi)[0])
            eta = tree.add(q.marginal(carry), q.potential(fixed, carry, x, inputs))
            score = tree.vdot(q.distribution.relative(eta, slot.origin), c)
            return score + q.distribution.entropy(eta) if entropy == "closed" else score

        def terminal(phi):
            q = eqx.combine(phi, family[1])
            return terminal_score(q, chains(phi)[1], value, linked, entropy)

        fresh = jax.vmap(jax.grad(particle), (None, 0, 0))(phi, slot.x, slot.coefficient)
        u, drift = tree.centre(_carry_on(slot, tangents.family, fresh, linked))
        phi = tree.add(drift, jax.grad(terminal)(phi))
        tangents = eqx.tree_at(lambda s: s.family, tangents, u)
    if tree.has_arrays(theta):
        fresh = _model_tangents(*model, slot, observed)
        v = jax.tree.map(slot.weights.average, tangents.model)
        v = tree.add(tree.where(linked, v, tree.zeros(v)), fresh)
        v, theta = tree.centre(v)
        tangents = eqx.tree_at(lambda s: s.model, tangents, v)
    return tangents, Gradients(theta, phi)


def _carry_on(slot: Slot, old: PyTree, fresh: PyTree, linked: Bool[Array, ""]) -> PyTree:
    """sum_j w_ij u_j + fresh_i, or nothing at t = 0."""
    new = tree.add(jax.tree.map(slot.weights.average, old), fresh)
    return tree.where(linked, new, tree.zeros(new))


def _model_tangents(
    theta: PyTree,
    rest: PyTree,
    slot: Slot,
    observed: Observation,
) -> PyTree:
    """grad_theta of sum_j w_ij log m(x_j, x_i) + log g(x_i, y_t), per particle."""
    inputs = observed.inputs

    def particle(theta, x, weights):
        model: AbstractModel = eqx.combine(theta, rest)
        log_m = weights.transition(model, slot.x_prev, x[None], inputs)
        prior = jnp.where(observed.first, model.initial_log_prob(x), weights.expect(log_m)[0])
        return prior + model.observed_log_prob(x, observed.y, inputs)

    rows = slot.weights.rows()
    return jax.vmap(jax.grad(particle), (None, 0, 0))(theta, slot.x, rows)
