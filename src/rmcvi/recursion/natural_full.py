"""Full covariances: q_t = N(m, B B'), fitted to prediction times likelihood, and its derivatives.

Particles of q_{t-1} give the moments of x_t before y_t, N(m-, L L'), for any transition noise. In z
with x = m- + L z, h(z) = log N(z; 0, I) + log g(m- + L z), and q_t is fitted to exp h
(`gaussian_fit`). With d the derivative in a parameter, through f, S, g, and through q_{t-1},

    gradient = E[dh],    d E[z] = Cov(z, dh),    d Cov(z) = Cov(z z', dh),    z held,

under the target, by importance weights around q_t (`gaussian_match`; docs/theory/natural.md).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, Key

from rmcvi.contract import Gradients, Info, Misfit, Step, Trainable
from rmcvi.core import tree
from rmcvi.core.compensated import CompensatedSum
from rmcvi.core.gaussian import colour, root_of, whitened_normal
from rmcvi.core.observation import Observation
from rmcvi.core.pareto import pareto_k
from rmcvi.families import LinearGaussianFamily
from rmcvi.families.kalman import Moments, initial_moments
from rmcvi.recursion.gaussian_fit import ascend, inside
from rmcvi.recursion.gaussian_law import Law, Prediction, initial_law, predict
from rmcvi.recursion.gaussian_match import Match
from rmcvi.recursion.history import History
from rmcvi.recursion.settings import NaturalSettings


class FullState(eqx.Module):
    """What the next step needs, the recent past, and E[x_{t-1} | y_{0:t}]."""

    t: Int[Array, ""]
    law: Law
    tangents: Law
    """Derivative of the law in each parameter."""
    elbo: CompensatedSum
    history: History
    smoothed: Float[Array, "dx"]

    @property
    def carry(self) -> Moments:
        """Moments of q_t, or of x_0 before any row."""
        return self.law.moments(self.t == 0)

    def draw(
        self, family: LinearGaussianFamily, key: Key[Array, ""], num: int
    ) -> Float[Array, "{num} dx"]:
        """Draws from q_t."""
        del family
        noise = jax.random.normal(key, (num, self.law.mean.size), self.law.mean.dtype)
        return self.law.mean[None] + colour(self.law.root, noise)


class Row(eqx.Module):
    """One observation, and the noise that its particles are made of."""

    observed: Observation
    noise: Float[Array, "n dx"]
    inner: Float[Array, "m dx"]

    def predict(self, model: Any, law: Law) -> Prediction:
        """x_t before y_t."""
        moved = predict(model, law, self.noise, self.observed.inputs)
        return tree.where(self.observed.first, Prediction.at_start(law), moved)

    def target(self, model: Any, prior: Prediction, z: Float[Array, "dx"]) -> Float[Array, ""]:
        """h(z), less the constant of log N(z; 0, I)."""
        y, inputs = self.observed.y, self.observed.inputs
        return model.observed_log_prob(prior.at(z), y, inputs) - 0.5 * z @ z

    def log_likelihoods(self, model: Any, prior: Prediction) -> Float[Array, "n"]:
        """Log g at particles of the prediction."""
        y, inputs = self.observed.y, self.observed.inputs
        log_g = jax.vmap(lambda z: model.observed_log_prob(prior.at(z), y, inputs))(self.noise)
        return inside(log_g, jnp.zeros_like(self.noise))[0]

    def tilt(self, model: Any, prior: Prediction, z: Float[Array, "dx"]) -> Float[Array, ""]:
        """What a tilted transition adds: zero, with a derivative in the tilt."""
        x, inputs = prior.at(z), self.observed.inputs

        def gain(x_prev):
            tilted = model.transition_log_prob(x_prev, x, inputs)
            return tilted - model.untilted.transition_log_prob(x_prev, x, inputs)

        mean = jnp.mean(jax.vmap(gain)(prior.back(z, self.inner)))
        return jnp.where(self.observed.first, 0.0, mean)


def init(settings: NaturalSettings, model: Any, trained: Any) -> FullState:
    """The state before the first observation; `trained` picks the parameters."""
    theta, rest = eqx.partition(model, trained)
    flat, unravel = ravel_pytree(theta)
    law = initial_law(model)
    slopes = jax.jacfwd(lambda v: initial_law(eqx.combine(unravel(v), rest)))(flat)
    return FullState(
        t=jnp.zeros((), int),
        law=law,
        tangents=jax.tree.map(lambda v: jnp.moveaxis(v, -1, 0), slopes),
        elbo=CompensatedSum.zeros(),
        history=History.empty(settings.lag, initial_moments(model), model.dim_obs, model.dim_input),
        smoothed=law.mean,
    )


def step(
    settings: NaturalSettings,
    state: FullState,
    model: Any,
    family: LinearGaussianFamily,
    observed: Observation,
    key: Key[Array, ""],
    trainable: Trainable,
) -> Step:
    """Predict, fit q_t to y_t, then move its derivatives on."""
    k_outer, k_inner = jax.random.split(key)
    noise = whitened_normal(k_outer, settings.num_particles, model.dim_state)
    row = Row(observed, noise, whitened_normal(k_inner, settings.num_inner, model.dim_state))
    plain = model.untilted
    prior, now = fitted(settings, plain, state.law, row)
    fit = now.fit
    weights = now.weights if settings.corrected else now.plain
    gradient, tangents = _derivatives(state, (model, trainable), row, prior, now, weights)
    increment = fit.elbo
    sound = tree.all_finite((now, increment, gradient, tangents))
    history = state.history.push(state.carry, observed.y, observed.inputs)
    moved = FullState(
        t=state.t + 1,
        law=prior.posterior(now),
        tangents=tangents,
        elbo=state.elbo.add(increment),
        history=history,
        smoothed=state.law.mean + prior.gain @ now.mean,
    )
    stood = eqx.tree_at(
        lambda s: (s.t, s.history), state, (state.t + 1, history.forget_last(~sound))
    )
    new = tree.where(sound, moved, stood)
    misfit = Misfit(pareto_k(fit.unexplained), fit.left_out(row.log_likelihoods(plain, prior)))
    info = Info.plain(
        new.elbo.value, jnp.where(sound, increment, 0.0), sound, fit.ess, misfit=misfit
    )
    gradient = tree.where(sound, gradient, tree.zeros(gradient))
    return Step(new, Gradients(gradient, eqx.filter(family, False)), info)


def fitted(settings: NaturalSettings, model: Any, law: Law, row: Row) -> tuple[Prediction, Match]:
    """x_t before y_t, and q_t."""
    prior = row.predict(model, law)
    fit = ascend(
        lambda z: row.target(model, prior, z), row.noise, settings.num_steps, settings.rate or 1.0
    )
    return prior, Match.of(fit, row.log_likelihoods(model, prior), settings.corrected)


def advance(
    settings: NaturalSettings,
    carry: Moments,
    model: Any,
    observed: Observation,
    key: Key[Array, ""],
) -> Moments:
    """Moments of q_t from those of q_{t-1}, without derivatives."""
    noise = whitened_normal(key, settings.num_particles, model.dim_state)
    law = Law(carry.mean, root_of(carry.covariance))
    prior, now = fitted(settings, model, law, Row(observed, noise, noise[:0]))
    return prior.posterior(now).moments(jnp.zeros((), bool))


def _derivatives(
    state: FullState,
    learned: tuple[Any, Trainable],
    row: Row,
    prior: Prediction,
    now: Match,
    weights: Float[Array, "n"],
) -> tuple[Any, Law]:
    """Gradient in theta of the evidence of y_t, and the derivatives of q_t.

    Args:
        state: has those of q_{t-1}.
        learned: the model, and which of its leaves.
        row: y_t and the noise.
        prior: x_t before y_t.
        now: q_t.
        weights: of its particles in the gradient.
    """
    model, trainable = learned
    theta, rest = eqx.partition(model, trainable.model)
    flat, unravel = ravel_pytree(theta)
    tilted = model.untilted is not model

    def at_particles(flat, law):
        current = eqx.combine(unravel(flat), rest)
        moved = row.predict(current, law)

        def h(z):
            value = row.target(current, moved, z)
            return value + row.tilt(current, prior, z) if tilted else value

        values, slopes = inside(*jax.vmap(jax.value_and_grad(h))(now.fit.z))
        others = inside(jax.vmap(h)(now.fit.noise), jnp.zeros_like(slopes))[0]
        return jnp.concatenate([values, others]), slopes, Law(moved.mean, moved.root)

    def along(direction, tangent):
        values, slopes, moved = jax.jvp(at_particles, (flat, state.law), (direction, tangent))[1]
        return weights @ values, prior.posterior_tangent(now, moved, values, slopes)

    directions = jnp.eye(flat.size, dtype=flat.dtype)
    gradient, tangents = jax.vmap(along)(directions, state.tangents)
    return unravel(gradient), tangents
