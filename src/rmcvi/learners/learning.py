"""The learning half of a step: the recursion's gradients, and both optimisers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from rmcvi.contract import Info, Result
from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
from rmcvi.learners.records import LearnerState


def learn(
    learner: Any, state: LearnerState, y: Float[Array, "dy"], inputs: Inputs, key: Key[Array, ""]
) -> tuple[LearnerState, Info, Bool[Array, ""]]:
    """`learner.steps` steps, each from the same statistics; and whether the last one was sound."""
    factor, seen = state.watch.factor, jnp.any(jnp.isfinite(y))
    slow = jnp.ones(()), jnp.ones(())
    if state.trial is not None:
        slow = state.trial.theta_rate, state.trial.phi_rate
    on_theta, on_phi = (factor * rate for rate in slow)
    on_model, on_family = learner.model_ascent, learner.family_ascent

    def once(i, now):
        model, trainable = learner.differentiated(learner.model_at(now, averaged=False))
        statistics, grads, info = learner.recursion.step(
            state.recursion,
            model,
            learner.family_at(now, averaged=False),
            y,
            inputs,
            key if learner.steps == 1 else jax.random.fold_in(key, i),
            trainable,
        )
        up, em = grads.model, None
        if learner.em is not None:
            up = eqx.combine(grads.model.base, tree.zeros(now.theta))
        theta_ascent, theta, theta_ok = on_model.step(
            now.theta_ascent, now.theta, up, on_theta, seen
        )
        if learner.em is not None:
            share = jax.tree.map(lambda gate: on_theta * gate, theta_ascent.gate)
            moved = eqx.combine(theta, learner.model)
            em, moved = learner.em.step(state.em, moved, grads.model, learner.trainable, share)
            theta = eqx.filter(moved, learner.trainable.model)
        # A recursion that fits q_t itself returns no gradient for the family.
        fitted = not tree.has_arrays(grads.family)
        up = tree.zeros(now.phi) if fitted else grads.family
        phi_ascent, phi, phi_ok = on_family.step(now.phi_ascent, now.phi, up, on_phi, seen)
        now = eqx.tree_at(
            lambda s: (s.theta, s.phi, s.theta_ascent, s.phi_ascent, s.recursion, s.em),
            now,
            (theta, _project(learner, phi), theta_ascent, phi_ascent, statistics, em),
            is_leaf=lambda v: v is None,
        )
        return now, info, theta_ok & phi_ok & (info.result < int(Result.NON_FINITE))

    new, info, sound = once(0, state)
    if learner.steps > 1:
        new, info, sound = jax.lax.fori_loop(
            1, learner.steps, lambda i, loop: once(i, loop[0]), (new, info, sound)
        )
    averages = (
        on_model.average_in(new.theta_ascent, new.theta, state.t),
        on_family.average_in(new.phi_ascent, new.phi, state.t),
    )
    return eqx.tree_at(lambda s: (s.theta_ascent, s.phi_ascent), new, averages), info, sound


def _project(learner: Any, phi: PyTree) -> PyTree:
    family = learner.recursion.variational(eqx.combine(phi, learner.family))
    return phi if family is None else eqx.filter(family.project(), learner.trainable.family)
