"""Online variational filtering by function regression (Campbell et al., 2021), non-amortised.

With x_t ~ q_t and x_{t-1} ~ q_t(. | x_t), both free at every t,

    V_t(x_t) = E[V_{t-1}(x_{t-1}) + log m + log g - log q_t(x_{t-1} | x_t) | x_t],
    L_t = E[V_t(x_t) - log q_t(x_t)],          T_t(x_t) = E[T_{t-1}(x_{t-1}) + s_theta | x_t],

where s_theta is the gradient in theta of log m + log g and E T_t the score. K gradient steps on L_t
need dV_{t-1}/dx only. Then V_t, dV_t/dx and T_t are regressed on draws of q_t, with one kernel
matrix and one solve. Only the difference V_t - log q_t need be regressed: at the optimum it is
constant wherever q_t is exact (`trend`).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from rmcvi.baselines.free_backward import Anchor, FreeBackward
from rmcvi.baselines.regressors import AbstractRegressor, KernelRidge, NetworkRegressor
from rmcvi.contract import AbstractRecursion, Filtered, Gradients, Info, Step, Trainable
from rmcvi.core import tree
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_instance, check_int, check_option
from rmcvi.core.compensated import CompensatedSum
from rmcvi.core.gaussian import log_volume
from rmcvi.core.inputs import Inputs
from rmcvi.models import AbstractModel, check_densities

REGRESSORS = {"kernel": KernelRidge, "network": NetworkRegressor}


class FunctionRegressionState(eqx.Module):
    """What the next step needs, and the one-step smoothing mean E[x_{t-1} | y_{0:t}]."""

    t: Int[Array, ""]
    phi: PyTree
    """Parameters of the last step's family; `FunctionRegression.current` puts them into it."""
    fit: PyTree
    """Regression of dV/dx, V and T, the last two less their means."""
    offset: CompensatedSum
    smoothed: Float[Array, "dx"]


class FunctionRegression(AbstractRecursion):
    """K = `num_steps` steps of `optimiser` per observation, restarted at each t.

    The family is a `FreeBackward`, a template for the first observation; afterwards phi^t lives in
    the state. Gradients are returned for theta only: increments of the score.
    """

    num_steps: int = eqx.field(static=True)
    num_samples: int = eqx.field(static=True)
    num_points: int = eqx.field(static=True)
    optimiser: optax.GradientTransformation = eqx.field(static=True)
    entropy: str = eqx.field(static=True)
    trend: bool = eqx.field(static=True)
    regressor: AbstractRegressor

    def __init__(
        self,
        num_steps: int = 500,
        *,
        num_samples: int = 10,
        num_points: int = 250,
        regressor: str | AbstractRegressor = "kernel",
        optimiser: optax.GradientTransformation | None = None,
        entropy: str = "path",
        trend: bool = True,
    ):
        """Choose the effort and the estimators.

        Args:
            num_steps: K, gradient steps per observation.
            num_samples: draws per gradient.
            num_points: points per regression.
            regressor: "kernel", "network", or one of your own.
            optimiser: optax transformation (default: Adam of rate 1e-2).
            entropy: its gradient in closed form ("closed") or along the path ("path"), the latter
                with a variance that vanishes where q is exact.
            trend: see the module.
        """
        self.num_steps = check_int("num_steps", num_steps)
        self.num_samples = check_int("num_samples", num_samples)
        self.num_points = check_int("num_points", num_points, 2)
        self.optimiser = optax.adam(1e-2) if optimiser is None else optimiser
        self.entropy = check_option("entropy", entropy, ("path", "closed"))
        self.trend = bool(trend)
        if isinstance(regressor, AbstractRegressor):
            self.regressor = regressor
        else:
            self.regressor = REGRESSORS[check_option("regressor", regressor, REGRESSORS)]()

    def init(self, model, family, trainable=None):
        """The state before the first observation."""
        check_instance("model", model, AbstractModel)
        check_instance("family", family, FreeBackward)
        check_densities(model)
        theta = ravel_pytree(eqx.filter(model, (trainable or Trainable()).model))[0]
        dx = model.dim_state
        return FunctionRegressionState(
            t=jnp.zeros((), int),
            phi=eqx.filter(family, eqx.is_inexact_array),
            fit=self.regressor.init(self.num_points, dx, dx + 1 + theta.size),
            offset=CompensatedSum.zeros(),
            smoothed=family.mean,
        )

    def current(self, state: FunctionRegressionState, family: FreeBackward) -> FreeBackward:
        """The family as fitted to the last observation."""
        return eqx.combine(state.phi, family)

    def step(self, state, model: Any, family: Any, y, inputs, key, trainable=None):
        """Fit phi^t to y_t, then regress."""
        check_array("y", y, (model.dim_obs,))
        last = self.current(state, family)
        later = last.predicted(model, inputs)
        start = eqx.combine(
            tree.where(state.t == 0, state.phi, eqx.filter(later, eqx.is_inexact_array)), family
        )
        anchor = Anchor(last.mean, last.scale, later.mean, later.scale)
        now = _Now(self, last, state.fit, anchor, model, y, inputs, state.t == 0)
        k1, k2, k3 = jax.random.split(key, 3)
        fitted = self._fit(start, now, k1)
        noise = jax.random.normal(k2, (self.num_points, 2, model.dim_state), y.dtype)
        theta, rest = eqx.partition(model, (trainable or Trainable()).model)
        flat, unravel = ravel_pytree(theta)

        def look(noise):
            return now.targets(fitted, noise, flat, lambda v: eqx.combine(unravel(v), rest))

        x, x_prev, slope, value, score = jax.vmap(look)(noise)
        value_mean, score_mean = jnp.mean(value), jnp.mean(score, 0)
        targets = [slope, (value - value_mean)[:, None], score - score_mean[None]]
        z = (x - fitted.mean[None]) / fitted.scale[None]
        fit = self.regressor.fit(state.fit, z, jnp.concatenate(targets, 1), k3)
        offset = state.offset.add(value_mean)
        new = FunctionRegressionState(
            state.t + 1, eqx.filter(fitted, eqx.is_inexact_array), fit, offset, jnp.mean(x_prev, 0)
        )
        elbo = offset.value + self._entropy(fitted)
        before = jnp.where(state.t == 0, 0.0, state.offset.value + self._entropy(last))
        sound = tree.all_finite((new, elbo, score_mean))
        keep = eqx.tree_at(lambda s: s.t, state, state.t + 1)
        new = tree.where(sound, new, keep)
        elbo, score_mean = tree.where(sound, (elbo, score_mean), (before, 0.0 * flat))
        nothing = eqx.filter(family, False)
        info = Info.plain(elbo, elbo - before, sound, jnp.asarray(float(self.num_points)))
        return Step(new, Gradients(unravel(score_mean), nothing), info)

    def variational(self, family):
        """None: its family is a fit to one row, anew at each."""
        return None

    def filtered(self, state, model, family):
        """Moments of q_t."""
        q = self.current(state, family)
        return Filtered(q.mean, jnp.diag(q.scale**2))

    def draw(self, state, model, family, key, num):
        """Draws from q_t."""
        q = self.current(state, family)
        noise = jax.random.normal(key, (num, q.mean.size), q.mean.dtype)
        return q.mean[None] + q.scale[None] * noise

    def _entropy(self, q: FreeBackward) -> Float[Array, ""]:
        """What L_t adds to the mean of what is regressed: the trend contains it."""
        if self.trend:
            return jnp.zeros_like(q.mean[0])
        return 0.5 * q.mean.size + log_volume(q.scale)

    def _fit(self, start: FreeBackward, now: "_Now", key: Key[Array, ""]) -> FreeBackward:
        """K ascent steps on L_t."""
        phi, rest = eqx.partition(start, eqx.is_inexact_array)
        shape = (self.num_steps, self.num_samples, 2, start.mean.size)

        def loss(phi, noise):
            q = eqx.combine(phi, rest)
            return -jnp.mean(jax.vmap(lambda e: now.objective(q, e))(noise))

        def ascend(loop, noise):
            phi, memory = loop
            update, memory = self.optimiser.update(jax.grad(loss)(phi, noise), memory, phi)
            return (eqx.apply_updates(phi, update), memory), None

        noise = jax.random.normal(key, shape, start.mean.dtype)
        (phi, _), _ = jax.lax.scan(ascend, (phi, self.optimiser.init(phi)), noise)
        return eqx.combine(phi, rest)


class _Now(eqx.Module):
    """One time step as one draw (x_t, x_{t-1}) sees it."""

    how: FunctionRegression
    last: FreeBackward
    fit: PyTree
    anchor: Anchor
    model: Any
    y: Float[Array, "dy"]
    inputs: Inputs
    first: Bool[Array, ""]

    def past(self, x_prev: Float[Array, "dx"], count: int) -> Float[Array, "{count}"]:
        """The first outputs of the regression made at t - 1."""
        z = (x_prev - self.last.mean) / self.last.scale
        return self.how.regressor.predict(self.fit, z, count)

    def past_slope(self, x_prev: Float[Array, "dx"]) -> Float[Array, "dx"]:
        """dV_{t-1}/dx, a constant to whoever differentiates."""
        slope = self.past(x_prev, x_prev.size)
        if self.how.trend:
            slope = slope - (x_prev - self.last.mean) / self.last.scale**2
        return jax.lax.stop_gradient(slope)

    def log_joint(self, model: Any, x_prev: Array, x: Array) -> Float[Array, ""]:
        """`log m + log g`, or `log chi + log g` at t = 0."""
        log_m = model.transition_log_prob(x_prev, x, self.inputs)
        prior = jnp.where(self.first, model.initial_log_prob(x), log_m)
        return prior + model.observed_log_prob(x, self.y, self.inputs)

    def objective(self, q: FreeBackward, noise: Float[Array, "2 dx"]) -> Float[Array, ""]:
        """A function of phi^t whose gradient estimates that of L_t; its value means nothing."""
        e, e_back = noise
        x = q.mean + q.scale * e
        deviation = q.back_scale * e_back
        x_prev = q.back_mean(x, self.anchor) + deviation
        back = self.past_slope(x_prev) @ x_prev
        if self.how.entropy == "closed":
            back = back + jnp.sum(jnp.log(q.back_scale))
            end = jnp.sum(jnp.log(q.scale))
        else:  # minus the slope of log q at the draw, parameters held; in x_t it cancels
            own = q.back_mean(jax.lax.stop_gradient(x), self.anchor) + deviation
            back = back + jax.lax.stop_gradient(e_back / q.back_scale) @ own
            end = jax.lax.stop_gradient(e / q.scale) @ x
        return self.log_joint(self.model, x_prev, x) + jnp.where(self.first, 0.0, back) + end

    def targets(
        self,
        q: FreeBackward,
        noise: Float[Array, "2 dx"],
        theta: Float[Array, "p"],
        build: Callable[[Array], Any],
    ) -> tuple[Array, Array, Array, Array, Array]:
        """x_t, E[x_{t-1} | x_t], and what to regress at x_t: dV_t/dx, V_t and T_t."""
        e, e_back = noise
        x, dx = q.mean + q.scale * e, q.mean.size
        mean = q.back_mean(x, self.anchor)
        x_prev = mean + q.back_scale * e_back
        known = self.past(x_prev, dx + 1 + theta.size)

        def along(x):
            x_prev = q.back_mean(x, self.anchor) + q.back_scale * e_back
            back = jnp.where(self.first, 0.0, self.past_slope(x_prev) @ x_prev)
            return self.log_joint(self.model, x_prev, x) + back

        slope = jax.grad(along)(x)
        back = known[dx] + 0.5 * e_back @ e_back + log_volume(q.back_scale)
        back = back + (self.last.log_prob(x_prev) if self.how.trend else 0.0)
        value = self.log_joint(self.model, x_prev, x) + jnp.where(self.first, 0.0, back)
        if self.how.trend:
            slope, value = slope + e / q.scale, value - q.log_prob(x)
        score = jax.grad(lambda v: self.log_joint(build(v), x_prev, x))(theta)
        score = score + jnp.where(self.first, 0.0, known[dx + 1 :])
        return x, mean, slope, value, score
