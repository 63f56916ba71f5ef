"""What users hold in their hands: one object that learns from a stream.

    learner = OnlineEstimator(model, family, RMCVI(100), adam(1e-4), adam(1e-3))
    state = learner.init(key)
    state, info = learner.update(state, y)

Every method is pure. Step t draws from fold_in(key, t), so that single updates, chunks and a
resumed run give the same numbers. At each step: predict y_t, score the prediction, only then learn.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from rmcvi._contract import AbstractRecursion, Result, Trainable
from rmcvi._core import tree
from rmcvi._core.checks import check_array, check_instance, check_int, check_real
from rmcvi._core.inputs import Inputs
from rmcvi.estimator import _query
from rmcvi.estimator._guard import GradientGuard, GuardState
from rmcvi.estimator._predict import Prediction, predict, screen
from rmcvi.estimator._query import Forecast, Imputed
from rmcvi.estimator._records import Filtered, LearnerInfo, LearnerState
from rmcvi.estimator._smooth import Smoothed
from rmcvi.families import AbstractFamily
from rmcvi.models import AbstractModel

SCREEN_FROM = 50  # observations before absurd ones are pulled in: a cold start is absurd itself


class OnlineEstimator(eqx.Module):
    """Learns theta and phi on two time scales, one gradient step each per observation.

    `model` and `family` are the starting point; the current ones are `model_at(state)` and
    `family_at(state)`. `draws` particles make the prediction (0: no prediction, and no screen).
    """

    model: AbstractModel
    family: AbstractFamily
    recursion: AbstractRecursion
    model_optimiser: optax.GradientTransformation = eqx.field(static=True)
    family_optimiser: optax.GradientTransformation = eqx.field(static=True)
    trainable: Trainable
    draws: int = eqx.field(static=True)
    level: float = eqx.field(static=True)
    screen_width: float | None = eqx.field(static=True)
    guard: GradientGuard | None
    average_from: int | None = eqx.field(static=True)

    def __init__(
        self,
        model: AbstractModel,
        family: AbstractFamily,
        recursion: AbstractRecursion,
        model_optimiser: optax.GradientTransformation,
        family_optimiser: optax.GradientTransformation,
        *,
        trainable: Trainable | None = None,
        draws: int = 100,
        level: float = 0.9,
        screen_width: float | None = 20.0,
        guard: GradientGuard | bool = True,
        average_from: int | None = None,
    ):
        """Optimisers are optax transformations for *descent*; `trainable` chooses parameters.

        `average_from`: average the iterates from that observation on (`model_at(averaged=True)`).
        """
        check_instance("model", model, AbstractModel)
        check_instance("family", family, AbstractFamily)
        check_instance("recursion", recursion, AbstractRecursion)
        check_instance("model_optimiser", model_optimiser, optax.GradientTransformation)
        check_instance("family_optimiser", family_optimiser, optax.GradientTransformation)
        self.model = model
        self.family = family
        self.recursion = recursion
        self.model_optimiser = model_optimiser
        self.family_optimiser = family_optimiser
        self.trainable = Trainable() if trainable is None else trainable
        self.draws = check_int("draws", draws, 0)
        self.level = check_real("level", level, 0.0, 1.0)
        self.screen_width = screen_width and check_real("screen_width", screen_width, 1.0)
        self.guard = GradientGuard() if guard is True else guard or None
        self.average_from = (
            None if average_from is None else check_int("average_from", average_from, 0)
        )

    def init(self, key: Key[Array, ""]) -> LearnerState:
        """The state before the first observation."""
        theta = eqx.filter(self.model, self.trainable.model)
        phi = eqx.filter(self.family, self.trainable.family)
        guard = (self.guard or GradientGuard()).init()
        return LearnerState(
            key=key,
            t=jnp.zeros((), int),
            theta=theta,
            phi=phi,
            theta_optimiser=self.model_optimiser.init(theta),
            phi_optimiser=self.family_optimiser.init(phi),
            theta_gate=jax.tree.map(lambda _: jnp.ones(()), theta),
            phi_gate=jax.tree.map(lambda _: jnp.ones(()), phi),
            theta_guard=guard,
            phi_guard=guard,
            average=None if self.average_from is None else (theta, phi),
            recursion=self.recursion.init(self.model, self.family, self.trainable),
            skipped=jnp.zeros((), int),
        )

    def model_at(self, state: LearnerState, averaged: bool = False) -> AbstractModel:
        """The model with its learned parameters."""
        return eqx.combine(self._average(state)[0] if averaged else state.theta, self.model)

    def family_at(self, state: LearnerState, averaged: bool = False) -> AbstractFamily:
        """The family with its learned parameters."""
        return eqx.combine(self._average(state)[1] if averaged else state.phi, self.family)

    def _average(self, state: LearnerState) -> tuple[PyTree, PyTree]:
        if state.average is None:
            raise ValueError("averaged: got True, expected False unless average_from was set")
        return state.average

    def freeze(
        self, state: LearnerState, *, model: Any = None, family: Any = None, frozen: bool = True
    ) -> LearnerState:
        """Stop (or, with `frozen=False`, resume) learning of some parameters in mid-stream.

        `model` and `family` pick leaves, as in `freeze(state, model=lambda m: m.log_rho)`.
        """
        gate = jnp.zeros(()) if frozen else jnp.ones(())
        for name, where in (("theta_gate", model), ("phi_gate", family)):
            if where is not None:
                old = getattr(state, name)
                new = eqx.tree_at(where, old, jax.tree.map(lambda _: gate, where(old)))
                state = eqx.tree_at(lambda s, n=name: getattr(s, n), state, new)
        return state

    def update(
        self,
        state: LearnerState,
        y: ArrayLike,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
    ) -> tuple[LearnerState, LearnerInfo]:
        """Take in one observation (NaN = not observed), compiled."""
        y = jnp.asarray(y, float)
        check_array("y", y, (self.model.dim_obs,))
        return _update(self, state, y, Inputs.of(u, dt, self.model.dim_input))

    def step(
        self, state: LearnerState, y: Float[Array, "dy"], inputs: Inputs
    ) -> tuple[LearnerState, LearnerInfo]:
        """The pure step behind `update` and `scan`: predict, score, learn."""
        model, family = self.model_at(state), self.family_at(state)
        k_learn, k_predict = jax.random.split(jax.random.fold_in(state.key, state.t))
        prediction, used = self._predict(state, model, y, inputs, k_predict)
        statistics, grads, info = self.recursion.step(
            state.recursion, model, family, used, inputs, k_learn, self.trainable
        )
        theta, theta_memory, theta_guard, theta_ok = self._ascend(
            self.model_optimiser,
            grads.model,
            (state.theta_optimiser, state.theta, state.theta_gate, state.theta_guard),
        )
        phi, phi_memory, phi_guard, phi_ok = self._ascend(
            self.family_optimiser,
            grads.family,
            (state.phi_optimiser, state.phi, state.phi_gate, state.phi_guard),
        )
        phi = eqx.filter(eqx.combine(phi, self.family).project(), self.trainable.family)
        sound = theta_ok & phi_ok & (info.result < int(Result.NON_FINITE))
        new = LearnerState(
            key=state.key,
            t=state.t + 1,
            theta=theta,
            phi=phi,
            theta_optimiser=theta_memory,
            phi_optimiser=phi_memory,
            theta_gate=state.theta_gate,
            phi_gate=state.phi_gate,
            theta_guard=theta_guard,
            phi_guard=phi_guard,
            average=self._average_in(state, theta, phi),
            recursion=statistics,
            skipped=state.skipped + ~sound,
        )
        pulled = ~(used == y) & jnp.isfinite(y)
        cuts = theta_guard.cuts + phi_guard.cuts
        return new, LearnerInfo(prediction, info, pulled, cuts, new.skipped)

    def _predict(
        self,
        state: LearnerState,
        model: AbstractModel,
        y: Float[Array, "dy"],
        inputs: Inputs,
        key: Key[Array, ""],
    ) -> tuple[Prediction | None, Float[Array, "dy"]]:
        y = jnp.where(jnp.isfinite(y), y, jnp.nan)
        if self.draws == 0:
            return None, y
        q, eta = self.family.distribution, state.recursion.cloud.proposal
        prediction = predict(model, q, eta, state.t, y, inputs, key, self.draws, self.level)
        if self.screen_width is None:
            return prediction, y
        return prediction, screen(y, prediction, self.screen_width, state.t >= SCREEN_FROM)

    def _ascend(
        self, optimiser: optax.GradientTransformation, gradient: PyTree, old: tuple[Any, ...]
    ) -> tuple[PyTree, PyTree, GuardState, Array]:
        """One guarded step of an optimiser; kept only if every number is finite."""
        memory, parameters, gate, guard = old
        if self.guard is not None:
            guard, gradient = self.guard.step(guard, gradient)
        descent = jax.tree.map(jnp.negative, gradient)
        update, new_memory = optimiser.update(descent, memory, parameters)
        gated = jax.tree.map(lambda d, g: d * g.astype(d.dtype), update, gate)
        new = eqx.apply_updates(parameters, gated)
        sound = tree.all_finite((new, new_memory))
        kept = tree.where(sound, (new, new_memory), (parameters, memory))
        return *kept, guard, sound

    def _average_in(self, state: LearnerState, theta: PyTree, phi: PyTree) -> PyTree:
        if self.average_from is None:
            return None
        count = jnp.maximum(state.t + 1 - self.average_from, 1)
        return jax.tree.map(lambda a, v: a + (v - a) / count, state.average, (theta, phi))

    def filter(self, state: LearnerState) -> Filtered:
        """Mean and covariance of x_t given everything so far."""
        q, eta = self.family.distribution, state.recursion.cloud.proposal
        return Filtered(q.mean(eta), q.covariance(eta))

    def smooth(self, state: LearnerState, lag: int, **options: Any) -> Smoothed:
        """Draws of (x_{t-lag}, ..., x_t) given everything so far; options `num`, `key`."""
        return _query.smooth(self, state, lag, **options)

    def smooth_sequence(self, state: LearnerState, ys: ArrayLike, **options: Any) -> Smoothed:
        """Draws of all states of a whole sequence; options `u`, `dt`, `num`, `key`."""
        return _query.smooth_sequence(self, state, ys, **options)

    def forecast(self, state: LearnerState, horizon: int, **options: Any) -> Forecast:
        """The next `horizon` observations; options `u`, `dt`, `level`, `num`, `key`."""
        return _query.forecast(self, state, horizon, **options)

    def impute(self, state: LearnerState, lag: int = 0, **options: Any) -> Imputed:
        """The last observations with gaps filled; options `level`, `num`, `key`."""
        return _query.impute(self, state, lag, **options)


@eqx.filter_jit
def _update(
    learner: OnlineEstimator, state: LearnerState, y: Array, inputs: Inputs
) -> tuple[LearnerState, LearnerInfo]:
    return learner.step(state, y, inputs)
