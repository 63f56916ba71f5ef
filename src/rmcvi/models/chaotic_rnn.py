"""Chaotic recurrent network, x_t = x + dt / rho (gamma W tanh(x) - x) + noise, y = x + Student-t.

Settings of the paper (errata B9): dt = .001, rho = .025, gamma = 2.5, noise variance .01, two
degrees of freedom, scale .1. The published W is unknown: it is drawn from `key`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Key

from rmcvi.core.checks import check_int, check_real
from rmcvi.core.gaussian import normal_log_prob
from rmcvi.core.positive import positive, unconstrained
from rmcvi.models.gaussian import AbstractGaussianModel, draw_normal
from rmcvi.models.linear_part import Held, LinearPart, held_noise

LEAST = 1e-3
"""A regression may not make a rate smaller than this share of what it was: rates are positive."""


class ChaoticRNN(AbstractGaussianModel):
    """theta = (log rho, log gamma, W, noise scales); the paper learns the first two."""

    log_rho: Float[Array, ""]
    log_gamma: Float[Array, ""]
    weights: Float[Array, "dx dx"]
    raw_noise: Float[Array, "dx"]
    raw_obs_scale: Float[Array, "dx"]
    dim_state: int = eqx.field(static=True)
    dim_obs: int = eqx.field(static=True)
    euler_step: float = eqx.field(static=True)
    dof: float = eqx.field(static=True)

    def __init__(
        self,
        dim: int = 5,
        *,
        rho: float = 0.025,
        gamma: float = 2.5,
        noise: float = 0.1,
        obs_scale: float = 0.1,
        dof: float = 2.0,
        euler_step: float = 0.001,
        key: Key[Array, ""] | None = None,
    ):
        """Draw W_ij ~ N(0, 1 / dim).

        Args:
            dim: length of x and of y.
            rho: time constant.
            gamma: strength of the coupling.
            noise: standard deviation of the state's noise.
            obs_scale: scale of the observation's noise.
            dof: its degrees of freedom.
            euler_step: length of an integration step.
            key: draws W (default: `jax.random.key(0)`).
        """
        self.dim_state = self.dim_obs = check_int("dim", dim)
        for name, value in dict(rho=rho, gamma=gamma, noise=noise, obs_scale=obs_scale).items():
            check_real(name, value, 0.0)
        key = jax.random.key(0) if key is None else key
        self.log_rho = jnp.log(jnp.asarray(rho, float))
        self.log_gamma = jnp.log(jnp.asarray(gamma, float))
        self.weights = jax.random.normal(key, (dim, dim)) / jnp.sqrt(dim)
        self.raw_noise = unconstrained(jnp.full(dim, noise))
        self.raw_obs_scale = unconstrained(jnp.full(dim, obs_scale))
        self.euler_step = check_real("euler_step", euler_step, 0.0)
        self.dof = check_real("dof", dof, 0.0)

    def parameters(self):
        """Rho, gamma, W and both noise scales."""
        return {
            "rho": jnp.exp(self.log_rho),
            "gamma": jnp.exp(self.log_gamma),
            "weights": self.weights,
            "noise": positive(self.raw_noise),
            "obs_scale": positive(self.raw_obs_scale),
        }

    def initial_log_prob(self, x):
        """`log N(x; 0, Q)`."""
        return jnp.sum(normal_log_prob(x, jnp.zeros_like(x), positive(self.raw_noise)))

    def initial_sample(self, key):
        """Draw x_0."""
        return draw_normal(key, jnp.zeros_like(self.raw_noise), positive(self.raw_noise))

    def transition_mean(self, x_prev, inputs):
        """One Euler step."""
        drift = jnp.exp(self.log_gamma) * (self.weights @ jnp.tanh(x_prev)) - x_prev
        return x_prev + inputs.dt * self.euler_step * jnp.exp(-self.log_rho) * drift

    def transition_scale(self, inputs):
        """Standard deviations of the state noise."""
        return positive(self.raw_noise) * jnp.sqrt(inputs.dt)

    def linear_transition(self):
        """Gamma / rho and 1 / rho, the same for all coordinates, and their noise."""
        rates = jnp.stack([jnp.exp(self.log_gamma), jnp.ones_like(self.log_gamma)])
        rates = rates * jnp.exp(-self.log_rho)

        def features(x, inputs):
            drifts = jnp.stack([self.weights @ jnp.tanh(x), -x], 1)
            return inputs.dt * self.euler_step * drifts

        def leaves(value):
            coupled, decay = jnp.maximum(value[0, :, 0], LEAST * rates)
            return -jnp.log(decay), jnp.log(coupled / decay)

        value = jnp.broadcast_to(rates[None, :, None], (self.dim_state, 2, 1))
        return LinearPart(
            features=features,
            offset=lambda x, inputs: x,
            coefficients=Held(value, lambda m: (m.log_rho, m.log_gamma), leaves),
            covariance=held_noise(self.raw_noise, False, lambda m: (m.raw_noise,)),
            tied=True,
        )

    def emission_log_prob(self, x, y, inputs):
        """`log Student-t(y - x)`."""
        del inputs
        scale, nu = positive(self.raw_obs_scale), self.dof
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(nu * jnp.pi)
        square = ((y - x) / scale) ** 2 / nu
        return constant - jnp.log(scale) - 0.5 * (nu + 1) * jnp.log1p(square)

    def emission_sample(self, key, x, inputs):
        """Draw y given x."""
        del inputs
        return x + positive(self.raw_obs_scale) * jax.random.t(key, self.dof, x.shape, x.dtype)

    def emission_draws(self, key, xs, inputs):
        """One y for each x, without rejection: by inversion if dof = 2, else by Bailey's method."""
        del inputs
        if self.dof == 2.0:
            u = jax.random.uniform(key, xs.shape, xs.dtype, jnp.finfo(xs.dtype).eps / 4)
            noise = (u - 0.5) * jax.lax.rsqrt(0.5 * u * (1.0 - u))
        else:
            u, angle = jax.random.uniform(key, (2, *xs.shape), xs.dtype)
            radius = jnp.sqrt(self.dof * jnp.expm1(-2.0 / self.dof * jnp.log1p(-u)))
            noise = radius * jnp.cos(2.0 * jnp.pi * angle)
        return xs + positive(self.raw_obs_scale)[None] * noise

    def emission_mean(self, x, inputs):
        """The state itself."""
        del inputs
        return x

    def emission_scale(self, x, inputs):
        """The Student-t scale."""
        del x, inputs
        return positive(self.raw_obs_scale)

    def emission_information(self, x, seen, inputs):
        """Fisher information of a Student-t location: (nu + 1) / (nu + 3) / scale^2."""
        del x, inputs
        root = ((self.dof + 1) / (self.dof + 3)) ** 0.5
        return jnp.diag(seen * root / positive(self.raw_obs_scale))
