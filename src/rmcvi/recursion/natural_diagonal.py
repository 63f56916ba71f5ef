"""Independent coordinates: q_t = N(m, diag(1 / p)), its kernel tied to the model.

With the potential the transition density, linearised at the mean of q_{t-1}, all that is left to
fit at time t is q_t. A step of length r uses derivatives of h = h_t in x_t,

    p <- (1 - r) p - r E_q[h''],    m <- m + r E_q[h'] / p,    E_q[h''] = E_q[h' (x - m)] p,

(theorems of Bonnet and Price): Newton's method averaged over q_t, which stops where the ELBO does.

h itself is estimated with little bias at few particles (docs/theory/natural.md): the weights are
left with the part of h_{t-1} that log q_{t-1} does not explain, the rest is averaged over draws
from the kernel itself, whose law is known:

    h(x) = sum_j w_j {H_j - log q_{t-1}(x_j)} + E[log q_{t-1} + log m - log q_{t-1|t}] + log g(x).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from rmcvi.contract import Gradients, Info, Misfit, Step, Trainable
from rmcvi.core import tree
from rmcvi.core.compensated import CompensatedSum
from rmcvi.core.gaussian import colour, log_density, matched_normal
from rmcvi.core.inputs import Inputs
from rmcvi.core.observation import Observation
from rmcvi.families import LinearGaussianFamily
from rmcvi.families.kalman import Moments, predict
from rmcvi.models import AbstractModel
from rmcvi.recursion.cloud import Cloud, empty_cloud
from rmcvi.recursion.history import History
from rmcvi.recursion.settings import NaturalSettings
from rmcvi.recursion.tied import Kernel, natural_ascent

RATE = 0.7
"""Length of a step unless told otherwise."""


class NaturalState(eqx.Module):
    """What the next step needs, the recent past, and E[x_{t-1} | y_{0:t}]."""

    t: Int[Array, ""]
    carry: Moments
    cloud: Cloud
    tangents: PyTree
    """Gradient of h in theta at the particles, centred."""
    offset: CompensatedSum
    entropy: Float[Array, ""]
    history: History
    smoothed: Float[Array, "dx"]

    def draw(
        self, family: LinearGaussianFamily, key: Key[Array, ""], num: int
    ) -> Float[Array, "{num} dx"]:
        """Draws from q_t."""
        return family.distribution.sample(key, self.cloud.proposal, num)


class Fitted(eqx.Module):
    """q_t as fitted, its particles, and what is known at them."""

    mean: Float[Array, "dx"]
    scale: Float[Array, "dx"]
    x: Float[Array, "n dx"]
    values: Float[Array, "n"]
    """h_t, up to the running offset."""
    log_q: Float[Array, "n"]
    weights: Float[Array, "n m"]
    conditional: Float[Array, "n dx"]
    """E[x_{t-1}] given each particle."""
    kernel: Kernel
    inner: Float[Array, "m dx"]

    def __init__(self, mean: Array, scale: Array, x: Array, h: Any, kernel: Kernel, inner: Array):
        self.mean, self.scale, self.x = mean, scale, x
        self.values, self.log_q = h(x), log_density(scale, x - mean[None])
        self.weights = jax.vmap(kernel.weights)(x)
        self.conditional = jax.vmap(kernel.conditional)(x)
        self.kernel, self.inner = kernel, inner

    @property
    def mean_value(self) -> Float[Array, ""]:
        """What must be added to the running offset of h."""
        return jnp.mean(self.values)


def init(
    settings: NaturalSettings, model: AbstractModel, family: LinearGaussianFamily, theta: PyTree
) -> NaturalState:
    """The state before the first observation; `theta` are the parameters that are trained."""
    carry = family.initial_carry(model)
    cloud = empty_cloud(family, model, settings.num_particles, jax.random.key(0))
    return NaturalState(
        t=jnp.zeros((), int),
        carry=carry,
        cloud=cloud,
        tangents=tree.zeros(theta, settings.num_particles),
        offset=CompensatedSum.zeros(),
        entropy=jnp.zeros(()),
        history=History.empty(settings.lag, carry, model.dim_obs, model.dim_input),
        smoothed=cloud.origin,
    )


def step(
    settings: NaturalSettings,
    state: NaturalState,
    model: Any,
    family: Any,
    observed: Observation,
    key: Key[Array, ""],
    trainable: Trainable,
) -> Step:
    """Fit q_t to y_t, then move the statistics on."""
    y, inputs, first = observed.y, observed.inputs, observed.first
    theta, rest = eqx.partition(model, trainable.model)
    k_outer, k_inner = jax.random.split(key)
    noise = matched_normal(k_outer, settings.num_particles, model.dim_state)
    inner = matched_normal(k_inner, settings.num_inner, model.dim_state)
    plain, rate = model.untilted, settings.rate or RATE
    kernel = Kernel.of(family, plain, state.carry, state.cloud, inputs)

    def log_joint(model, x, x_prev, weights):
        before = weights @ model.pairwise_log_prob(x_prev, x[None], inputs)[0]
        prior = jnp.where(first, model.initial_log_prob(x), before)
        return prior + model.observed_log_prob(x, y, inputs)

    def h(x):
        back, x_prev = kernel.terms(x, inner)
        equal = jnp.full(settings.num_inner, 1.0 / settings.num_inner)
        return jnp.where(first, 0.0, back) + log_joint(plain, x, x_prev, equal)

    def slope(x, x_prev, weights):
        def joint(v):
            return log_joint(eqx.combine(v, rest), x, x_prev, weights)

        return jax.grad(joint)(theta)

    prior = predict(plain, state.carry, inputs)
    unit = jnp.sqrt(jnp.diagonal(prior.covariance))
    mean, scale = natural_ascent(h, prior.mean, unit, noise, settings.num_steps, rate)
    fitted = Fitted(mean, scale, mean[None] + colour(scale, noise), jax.vmap(h), kernel, inner)
    tangents, gradient, share = _tangents(settings, state, fitted, slope, first)
    new, sound = _move(state, fitted, family, tangents, gradient, y, inputs)
    gradient = tree.where(sound, gradient, tree.zeros(gradient))
    ess = jnp.mean(1.0 / jnp.sum(fitted.weights**2, 1))
    info = Info.plain(
        new.offset.value + new.entropy,
        jnp.where(sound, fitted.mean_value, 0.0) + new.entropy - state.entropy,
        sound,
        jnp.where(first, float(settings.num_particles), ess),
        calibrated=share,
        misfit=Misfit.of(fitted.values - fitted.log_q),
    )
    return Step(new, Gradients(gradient, eqx.filter(family, False)), info)


def _tangents(
    settings: NaturalSettings,
    state: NaturalState,
    fitted: Fitted,
    slope: Any,
    first: Bool[Array, ""],
) -> tuple[PyTree, PyTree, Float[Array, ""]]:
    """V at the particles (N4), centred, the gradient, and how well weights are calibrated."""
    kernel, calibration = fitted.kernel, fitted.kernel.calibration()
    if settings.corrected:
        back, now = kernel.corrected(fitted.x), jax.nn.softmax(fitted.values - fitted.log_q)
    else:
        now = jnp.full(settings.num_particles, 1.0 / settings.num_particles)
        back = fitted.weights
    moments = kernel.moments(fitted.conditional)
    change, share = calibration.correction(fitted.weights, moments)
    back = back + change
    carried = jax.tree.map(lambda v: jnp.tensordot(back, v, 1), state.tangents)
    carried = tree.where(first, tree.zeros(carried), carried)
    if len(calibration.columns) > fitted.x.shape[1]:
        x_prev, weights = state.cloud.x, back
        fresh = jax.vmap(slope, (0, None, 0))(fitted.x, x_prev, weights)
    else:  # too few for second moments: draws from the kernel itself have them
        x_prev = jax.vmap(kernel.draws, (0, None))(fitted.conditional, fitted.inner)
        weights = jnp.full(settings.num_inner, 1.0 / settings.num_inner)
        fresh = jax.vmap(slope, (0, 0, None))(fitted.x, x_prev, weights)
    total = tree.add(carried, fresh)
    gradient = jax.tree.map(lambda v: jnp.tensordot(now, v, 1), total)
    return jax.tree.map(lambda v, g: v - g[None], total, gradient), gradient, share


def _move(
    state: NaturalState,
    fitted: Fitted,
    family: LinearGaussianFamily,
    tangents: PyTree,
    gradient: PyTree,
    y: Float[Array, "dy"],
    inputs: Inputs,
) -> tuple[NaturalState, Bool[Array, ""]]:
    """The next state, which stands still if anything is not finite, and whether all is."""
    numbers = (fitted.values, fitted.mean, fitted.scale, gradient, tangents)
    sound = tree.all_finite(numbers)
    carry = Moments(fitted.mean, jnp.diag(fitted.scale**2), jnp.zeros(()))
    centred, origin = fitted.values - fitted.mean_value, jnp.mean(fitted.x, 0)
    history = state.history.push(state.carry, y, inputs)
    moved = NaturalState(
        t=state.t + 1,
        carry=carry,
        cloud=Cloud(fitted.x, centred, family.marginal(carry), origin, state.cloud.terminal),
        tangents=tangents,
        offset=state.offset.add(fitted.mean_value),
        entropy=-jnp.mean(fitted.log_q),
        history=history,
        smoothed=jnp.mean(fitted.conditional, 0),
    )
    stood = eqx.tree_at(
        lambda s: (s.t, s.history), state, (state.t + 1, history.forget_last(~sound))
    )
    return tree.where(sound, moved, stood), sound
