"""The parameters of the learner's best time, for when it is lost.

Damping cannot help a learner whose parameters are already far off: it only keeps them there. So
those under which recent predictions stood highest above a running mean and variance are kept, and
put back, once, when the shortest steps have not helped. Averages of the parameters go back with
them.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from rmcvi.core import tree
from rmcvi.monitors.health import Health, HealthState


class Best(eqx.Module):
    """Parameters, and how well they did."""

    theta: PyTree
    phi: PyTree
    merit: Float[Array, ""]
    """Nats per coordinate above the yardstick; it fades, for the world changes."""
    returns: Int[Array, ""]
    """Number of times that the learner went back."""
    em: PyTree
    """Statistics that go with the parameters, None without EM."""

    @classmethod
    def of(cls, theta: PyTree, phi: PyTree, em: PyTree = None) -> "Best":
        """The start, which is thought to be no worse than no model at all."""
        return cls(theta, phi, jnp.zeros(()), jnp.zeros((), int), em)


def go_on(health: Health, now: HealthState, state: Any) -> Any:
    """`state` with its parameters kept as the best ones, or replaced by them."""
    best: Best = state.best
    known = best.merit - health.tolerance / health.usual
    keep = (now.count >= health.warmup) & (now.merit >= known) & ~now.lost
    lost = now.lost & (now.merit < known - 4.0 * health.tolerance)
    fresh = Best(
        tree.where(keep, state.theta, best.theta),
        tree.where(keep, state.phi, best.phi),
        # After going back what is known of the old merit no longer counts.
        jnp.where(keep | lost, now.merit, known),
        best.returns + lost,
        tree.where(keep, state.em, best.em),
    )
    theta = back(lost, best.theta, state.theta, state.theta_ascent.gate)
    phi = back(lost, best.phi, state.phi, state.phi_ascent.gate)
    means = [
        None if v.average is None else back(lost, kept, v.average, v.gate)
        for v, kept in ((state.theta_ascent, best.theta), (state.phi_ascent, best.phi))
    ]
    em = tree.where(lost, best.em, state.em)
    return eqx.tree_at(
        lambda s: (s.theta, s.phi, s.best, s.theta_ascent.average, s.phi_ascent.average, s.em),
        state,
        (theta, phi, fresh, *means, em),
        is_leaf=lambda v: v is None,
    )


def back(lost: Bool[Array, ""], best: PyTree, now: PyTree, gate: PyTree) -> PyTree:
    """Each parameter as it was at the best time, unless it is frozen."""
    return jax.tree.map(lambda b, n, g: jnp.where(lost & (g > 0.0), b, n), best, now, gate)
