"""What users hold in their hands: one object that learns from a stream.

    learner = OnlineEstimator(model, family, RMCVI(100), adam(1e-4), adam(1e-3))
    state = learner.init(key)
    state, info = learner.update(state, y)

Every method is pure. Step t draws from fold_in(key, t), so that single updates, chunks and a
resumed run give the same numbers.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Key, PyTree

from rmcvi._contract import AbstractRecursion, Info, Trainable
from rmcvi._core.checks import check_array, check_instance
from rmcvi._core.inputs import Inputs
from rmcvi.families import AbstractFamily
from rmcvi.models import AbstractModel


class LearnerState(eqx.Module):
    """Arrays only: parameters, optimisers, the recursion's statistics, the key and the time."""

    key: Key[Array, ""]
    t: Int[Array, ""]
    theta: PyTree
    phi: PyTree
    theta_optimiser: PyTree
    phi_optimiser: PyTree
    recursion: PyTree


class Filtered(eqx.Module):
    """The law of x_t given y_{0:t}."""

    mean: Float[Array, "dx"]
    covariance: Float[Array, "dx dx"]


class OnlineEstimator(eqx.Module):
    """Learns theta and phi on two time scales, one gradient step each per observation.

    `model` and `family` are the starting point; the current ones are `model_at(state)` and
    `family_at(state)`.
    """

    model: AbstractModel
    family: AbstractFamily
    recursion: AbstractRecursion
    model_optimiser: optax.GradientTransformation = eqx.field(static=True)
    family_optimiser: optax.GradientTransformation = eqx.field(static=True)
    trainable: Trainable

    def __init__(
        self,
        model: AbstractModel,
        family: AbstractFamily,
        recursion: AbstractRecursion,
        model_optimiser: optax.GradientTransformation,
        family_optimiser: optax.GradientTransformation,
        *,
        trainable: Trainable | None = None,
    ):
        """Optimisers are optax transformations for *descent*; `trainable` chooses parameters."""
        check_instance("model", model, AbstractModel)
        check_instance("family", family, AbstractFamily)
        check_instance("recursion", recursion, AbstractRecursion)
        self.model = model
        self.family = family
        self.recursion = recursion
        self.model_optimiser = model_optimiser
        self.family_optimiser = family_optimiser
        self.trainable = Trainable() if trainable is None else trainable

    def init(self, key: Key[Array, ""]) -> LearnerState:
        """The state before the first observation."""
        theta = eqx.filter(self.model, self.trainable.model)
        phi = eqx.filter(self.family, self.trainable.family)
        return LearnerState(
            key=key,
            t=jnp.zeros((), int),
            theta=theta,
            phi=phi,
            theta_optimiser=self.model_optimiser.init(theta),
            phi_optimiser=self.family_optimiser.init(phi),
            recursion=self.recursion.init(self.model, self.family, self.trainable),
        )

    def model_at(self, state: LearnerState) -> AbstractModel:
        """The model with its learned parameters."""
        return eqx.combine(state.theta, self.model)

    def family_at(self, state: LearnerState) -> AbstractFamily:
        """The family with its learned parameters."""
        return eqx.combine(state.phi, self.family)

    def update(
        self,
        state: LearnerState,
        y: ArrayLike,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
    ) -> tuple[LearnerState, Info]:
        """Take in one observation (NaN = not observed), compiled."""
        y = jnp.asarray(y, float)
        check_array("y", y, (self.model.dim_obs,))
        return _update(self, state, y, Inputs.of(u, dt, self.model.dim_input))

    def step(
        self, state: LearnerState, y: Float[Array, "dy"], inputs: Inputs
    ) -> tuple[LearnerState, Info]:
        """The pure step behind `update` and `scan`."""
        model, family = self.model_at(state), self.family_at(state)
        statistics, grads, info = self.recursion.step(
            state.recursion,
            model,
            family,
            y,
            inputs,
            jax.random.fold_in(state.key, state.t),
            self.trainable,
        )
        theta, theta_optimiser = _ascend(
            self.model_optimiser, grads.model, state.theta_optimiser, state.theta
        )
        phi, phi_optimiser = _ascend(
            self.family_optimiser, grads.family, state.phi_optimiser, state.phi
        )
        projected = eqx.combine(phi, self.family).project()
        phi = eqx.filter(projected, self.trainable.family)
        new = LearnerState(
            state.key, state.t + 1, theta, phi, theta_optimiser, phi_optimiser, statistics
        )
        return new, info

    def filter(self, state: LearnerState) -> Filtered:
        """Mean and covariance of x_t given everything so far."""
        q, eta = self.family.distribution, state.recursion.cloud.proposal
        return Filtered(q.mean(eta), q.covariance(eta))


def _ascend(
    optimiser: optax.GradientTransformation, gradient: PyTree, memory: PyTree, parameters: PyTree
) -> tuple[PyTree, PyTree]:
    descent = jax.tree.map(jnp.negative, gradient)
    update, memory = optimiser.update(descent, memory, parameters)
    return eqx.apply_updates(parameters, update), memory


@eqx.filter_jit
def _update(
    learner: OnlineEstimator, state: LearnerState, y: Array, inputs: Inputs
) -> tuple[LearnerState, Info]:
    return learner.step(state, y, inputs)


def scan(
    learner: OnlineEstimator,
    state: LearnerState,
    ys: ArrayLike,
    u: ArrayLike | None = None,
    dt: ArrayLike | None = None,
    collect: Any = None,
) -> tuple[LearnerState, PyTree]:
    """All rows of `ys` in one compiled loop: the same numbers as single updates.

    `collect(learner, state, info)` picks what is stacked over time (default: `info`).
    """
    ys = jnp.asarray(ys, float)
    check_array("ys", ys, (None, learner.model.dim_obs))
    length, dim = len(ys), learner.model.dim_input
    u = jnp.zeros((length, dim)) if u is None else jnp.asarray(u, float)
    dt = jnp.ones(length) if dt is None else jnp.asarray(dt, float)
    check_array("u", u, (length, dim))
    check_array("dt", dt, (length,))
    return _scan(learner, state, ys, Inputs(u, dt), collect)


@eqx.filter_jit
def _scan(
    learner: OnlineEstimator, state: LearnerState, ys: Array, inputs: Inputs, collect: Any
) -> tuple[LearnerState, PyTree]:
    def step(state, row):
        state, info = learner.step(state, *row)
        return state, info if collect is None else collect(learner, state, info)

    return jax.lax.scan(step, state, (ys, inputs))
