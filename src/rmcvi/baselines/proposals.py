"""Where particles go: through the model (bootstrap), one Kalman step to y (guided), or as learned.

Given x_{t-1}, the prior of x_t is N(p, S S'). With s = grad log g(p, y), Fisher information A'A,
I + (A S)'(A S) = C C' and e ~ N(0, I), the guided proposal is x = p + S z, z = C^-T (e + C^-1 S's):

    log m(x_{t-1}, x) - log r(x) = (|e|^2 - |z|^2) / 2 - log det C,

so that weights are exact, whatever the linearisation is worth. Under `vmap` C is computed once if A
does not depend on x. The network r_phi(x_{t-1}, y_t, u_t) corrects one of them: with
(d, c) = network(p, residuals of y at p, mask, u),

    x = p + S z,   z = d + exp(c) e                     (base: "bootstrap")
    x = p + S z,   z = C^-T (C^-1 S's + d + exp(c) e)   (base: "guided")

It starts near zero, so that an untrained proposal is its base.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Key

from rmcvi.core.checks import check_instance, check_int, check_option
from rmcvi.core.gaussian import Scale, colour, log_density, log_volume
from rmcvi.core.inputs import Inputs, split_missing
from rmcvi.core.observation import Observation
from rmcvi.families.base import scaled_mlp, squash
from rmcvi.families.kalman import initial_moments
from rmcvi.models import AbstractGaussianModel, AbstractModel

Weighted = tuple[Float[Array, "n dx"], Float[Array, "n"]]
PROPOSALS = ("bootstrap", "guided")
"""Through the model, or towards the observation."""


def check_proposal(proposal: str, model: AbstractModel) -> None:
    """Raise if the model cannot be linearised but should be."""
    check_instance(
        "model", model, AbstractModel if proposal == "bootstrap" else AbstractGaussianModel
    )


def propose(
    proposal: str,
    key: Key[Array, ""],
    model: AbstractModel,
    x_prev: Float[Array, "n dx"],
    observed: Observation,
) -> Weighted:
    """New particles and their log weights, log (m g / r); at t = 0, log (chi g / r).

    Args:
        proposal: "bootstrap" or "guided".
        key: for the draws.
        model: the state-space model.
        x_prev: the ancestors.
        observed: y_t and its inputs.
    """
    y, inputs, first = observed.y, observed.inputs, observed.first
    if proposal == "bootstrap":
        x = jax.lax.cond(
            first,
            lambda: start(key, model, x_prev.shape[0]),
            lambda: model.transition_draws(key, x_prev, inputs),
        )
        log_ratio = jnp.zeros(x.shape[0], x.dtype)
    else:
        noise = jax.random.normal(key, x_prev.shape, x_prev.dtype)
        x, log_ratio = jax.lax.cond(
            first,
            lambda: guided_start(model.gaussian, noise, y, inputs),
            lambda: guided_move(model.gaussian, x_prev, noise, y, inputs),
        )
    return x, log_ratio + jax.vmap(lambda v: model.observed_log_prob(v, y, inputs))(x)


def start(key: Key[Array, ""], model: AbstractModel, num: int) -> Float[Array, "{num} dx"]:
    """Draws of x_0."""
    return jax.vmap(model.initial_sample)(jax.random.split(key, num))


def guided_move(
    model: AbstractGaussianModel,
    x_prev: Float[Array, "n dx"],
    noise: Float[Array, "n dx"],
    y: Float[Array, "dy"],
    inputs: Inputs,
) -> Weighted:
    """Towards y from the predictions; returns log (m / r)."""
    mean = jax.vmap(model.transition_mean, (0, None))(x_prev, inputs)
    scale = model.transition_scale(inputs)
    return jax.vmap(lambda p, e: _towards(model, p, scale, e, y, inputs))(mean, noise)


def guided_start(
    model: AbstractGaussianModel,
    noise: Float[Array, "n dx"],
    y: Float[Array, "dy"],
    inputs: Inputs,
) -> Weighted:
    """Towards y from the law of x_0; returns log (chi / r), exact if chi is not Gaussian."""
    law = initial_moments(model)
    scale = jnp.linalg.cholesky(law.covariance)

    def one(e):
        x, log_ratio = _towards(model, law.mean, scale, e, y, inputs)
        gaussian = log_density(scale, (x - law.mean)[None])[0]
        return x, log_ratio + model.initial_log_prob(x) - gaussian

    return jax.vmap(one)(noise)


def _towards(
    model: AbstractGaussianModel,
    mean: Float[Array, "dx"],
    scale: Scale,
    noise: Float[Array, "dx"],
    y: Float[Array, "dy"],
    inputs: Inputs,
) -> tuple[Float[Array, "dx"], Float[Array, ""]]:
    """One draw of the guided proposal, and log (prior / proposal) there."""
    chol, pull = pull_towards(model, mean, scale, y, inputs)
    z = solve_triangular(chol, noise + pull, lower=True, trans=1)
    log_ratio = 0.5 * (noise @ noise - z @ z) - jnp.sum(jnp.log(jnp.diagonal(chol)))
    return mean + colour(scale, z[None])[0], log_ratio


def pull_towards(
    model: AbstractGaussianModel,
    mean: Float[Array, "dx"],
    scale: Scale,
    y: Float[Array, "dy"],
    inputs: Inputs,
) -> tuple[Float[Array, "dx dx"], Float[Array, "dx"]]:
    """C and C^-1 S's."""
    rows = model.emission_information(mean, split_missing(y)[1], inputs)
    rows = rows * scale[None] if scale.ndim == 1 else rows @ scale
    chol = jnp.linalg.cholesky(jnp.eye(mean.size, dtype=mean.dtype) + rows.T @ rows)
    score = jax.grad(model.observed_log_prob)(mean, y, inputs)
    pull = scale * score if scale.ndim == 1 else scale.T @ score
    return chol, solve_triangular(chol, pull, lower=True)


class ProposalNetwork(eqx.Module):
    """phi of online variational SMC; the model is an argument and held constant."""

    net: eqx.nn.MLP
    base: str = eqx.field(static=True)

    def __init__(
        self,
        model: AbstractGaussianModel,
        *,
        key: Key[Array, ""],
        hidden: int = 64,
        base: str = "guided",
    ):
        """One hidden tanh layer; `base` is "guided" (the stronger start) or "bootstrap"."""
        check_instance("model", model, AbstractGaussianModel)
        check_int("hidden", hidden)
        self.base = check_option("base", base, PROPOSALS)
        size = model.dim_state + 3 * model.dim_obs + model.dim_input
        self.net = scaled_mlp(size, 2 * model.dim_state, hidden, 1, 0.01, key)

    def sample(
        self,
        model: AbstractGaussianModel,
        x_prev: Float[Array, "dx"],
        noise: Float[Array, "dx"],
        y: Float[Array, "dy"],
        inputs: Inputs,
        detached: bool = False,
    ) -> tuple[Float[Array, "dx"], Float[Array, ""]]:
        """The draw x that belongs to `noise`, and log r(x), both differentiable in phi.

        If `detached`, log r depends on phi through x alone.
        """
        mean, scale = model.transition_mean(x_prev, inputs), model.transition_scale(inputs)
        filled, seen = split_missing(y)
        expected = model.emission_mean(mean, inputs)
        residual = 0.5 * seen * (filled - expected) / model.emission_scale(mean, inputs)
        shift, raw = jnp.split(
            self.net(jnp.concatenate([mean, squash(residual), seen, inputs.u])), 2
        )
        log_stretch = 2.0 * jnp.tanh(0.5 * raw)
        z = shift + jnp.exp(log_stretch) * noise
        if detached:
            shift, log_stretch = jax.lax.stop_gradient((shift, log_stretch))
            noise = (z - shift) * jnp.exp(-log_stretch)
        log_r = -0.5 * noise @ noise - log_volume(scale) - jnp.sum(log_stretch)
        if self.base == "guided":
            chol, pull = pull_towards(model, mean, scale, y, inputs)
            z = solve_triangular(chol, z + pull, lower=True, trans=1)
            log_r = log_r + jnp.sum(jnp.log(jnp.diagonal(chol)))
        return mean + colour(scale, z[None])[0], log_r

    def start(
        self,
        key: Key[Array, ""],
        model: AbstractGaussianModel,
        num: int,
        y: Float[Array, "dy"],
        inputs: Inputs,
    ) -> tuple[Float[Array, "{num} dx"], Float[Array, "{num}"]]:
        """Draws of x_0 from the base, with log r; nothing is learned about a single step."""
        log_chi = jax.vmap(model.initial_log_prob)
        if self.base == "bootstrap":
            x = start(key, model, num)
            return x, log_chi(x)
        x, log_ratio = guided_start(
            model, jax.random.normal(key, (num, model.dim_state)), y, inputs
        )
        return x, log_chi(x) - log_ratio
