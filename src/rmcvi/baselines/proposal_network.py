"""A Gaussian proposal r_phi(x_{t-1}, y_t, u_t) that corrects what the model itself would propose.

With p = f(x_{t-1}), transition noise S, (d, c) = network(p, residuals of y at p, mask, u):

    x = p + S z,   z = d + exp(c) e                     (base: "bootstrap")
    x = p + S z,   z = C^-T (C^-1 S's + d + exp(c) e)   (base: "guided", C and s as in `proposals`)

for e ~ N(0, I). The network starts near zero, so that an untrained proposal is its base.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Key

from rmcvi.baselines.proposals import PROPOSALS, guided_start, pull_towards, start
from rmcvi.core.checks import check_instance, check_int, check_option
from rmcvi.core.gaussian import colour, log_volume
from rmcvi.core.inputs import Inputs, split_missing
from rmcvi.families.base import scaled_mlp, squash
from rmcvi.models import AbstractGaussianModel


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
