"""x_t = x + dt f(x, u) + q_t,  y_t = g(x, u) + r_t: networks f, g and learned diagonal noise."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.core.checks import check_int, check_real
from rmcvi.core.gaussian import normal_log_prob
from rmcvi.core.network import last_features, network
from rmcvi.core.positive import positive, unconstrained
from rmcvi.models.gaussian import AbstractGaussianModel
from rmcvi.models.linear_part import LinearPart, held_noise, held_rows


class NeuralGaussian(AbstractGaussianModel):
    """The paper's air-quality model: residual transition, tanh networks, diagonal Q and R."""

    drift: eqx.nn.MLP
    readout: eqx.nn.MLP
    raw_noise: Float[Array, "dx"]
    raw_obs_noise: Float[Array, "dy"]
    dim_state: int = eqx.field(static=True)
    dim_obs: int = eqx.field(static=True)
    inputs: int = eqx.field(static=True)

    def __init__(
        self,
        dim_state: int,
        dim_obs: int,
        *,
        key: Key[Array, ""],
        dim_input: int = 0,
        width: int = 32,
        depth: int = 2,
        noise: float = 0.3,
        obs_noise: float = 0.5,
    ):
        """Draw the two networks.

        Args:
            dim_state: length of x.
            dim_obs: length of y.
            key: draws the weights.
            dim_input: length of u.
            width: units of a hidden tanh layer.
            depth: hidden layers.
            noise: deviation of the state's noise at first.
            obs_noise: the same for the observation.
        """
        self.dim_state = check_int("dim_state", dim_state)
        self.dim_obs = check_int("dim_obs", dim_obs)
        self.inputs = check_int("dim_input", dim_input, 0)
        check_int("width", width)
        check_int("depth", depth, 0)
        self.raw_noise = unconstrained(jnp.full(dim_state, check_real("noise", noise, 0.0)))
        obs_noise = check_real("obs_noise", obs_noise, 0.0)
        self.raw_obs_noise = unconstrained(jnp.full(dim_obs, obs_noise))
        k1, k2 = jax.random.split(key)
        size = dim_state + dim_input
        self.drift = eqx.nn.MLP(size, dim_state, width, depth, jnp.tanh, key=k1)
        self.readout = eqx.nn.MLP(size, dim_obs, width, depth, jnp.tanh, key=k2)

    @property
    def dim_input(self) -> int:
        """Length of `inputs.u`."""
        return self.inputs

    def parameters(self):
        """Both noise scales, and the networks' arrays by their path."""
        networks = super().parameters()
        networks = {k: v for k, v in networks.items() if not k.startswith("raw_")}
        scales = {"noise": positive(self.raw_noise), "obs_noise": positive(self.raw_obs_noise)}
        return scales | networks

    def initial_log_prob(self, x):
        """`log N(x; 0, I)`."""
        return jnp.sum(normal_log_prob(x, jnp.zeros_like(x), jnp.ones_like(x)))

    def initial_sample(self, key):
        """Draw x_0."""
        return jax.random.normal(key, (self.dim_state,), self.raw_noise.dtype)

    def transition_mean(self, x_prev, inputs):
        """`x + dt f(x, u)`."""
        return x_prev + inputs.dt * network(self.drift, jnp.concatenate([x_prev, inputs.u]))

    def transition_scale(self, inputs):
        """Standard deviations of the state noise."""
        return positive(self.raw_noise) * jnp.sqrt(inputs.dt)

    def linear_transition(self):
        """The last layer of f, and the noise."""

        def features(x, inputs):
            return inputs.dt * last_features(self.drift, jnp.concatenate([x, inputs.u]))[None]

        return LinearPart(
            features=features,
            offset=lambda x, inputs: x,
            coefficients=held_rows(_last(self.drift), True, lambda m: _last(m.drift)),
            covariance=held_noise(self.raw_noise, True, lambda m: (m.raw_noise,)),
        )

    def linear_emission(self):
        """The last layer of g, and the noise."""

        def features(x, inputs):
            hidden = last_features(self.readout, jnp.concatenate([x, inputs.u]))
            return jnp.broadcast_to(hidden, (self.dim_obs, hidden.size))

        return LinearPart(
            features=features,
            offset=lambda x, inputs: jnp.zeros(self.dim_obs, x.dtype),
            coefficients=held_rows(_last(self.readout), False, lambda m: _last(m.readout)),
            covariance=held_noise(self.raw_obs_noise, False, lambda m: (m.raw_obs_noise,)),
        )

    def emission_mean(self, x, inputs):
        """`g(x, u)`."""
        return network(self.readout, jnp.concatenate([x, inputs.u]))

    def emission_scale(self, x, inputs):
        """Standard deviations of the observation noise."""
        del x, inputs
        return positive(self.raw_obs_noise)


def _last(net: eqx.nn.MLP) -> tuple[Any, Any]:
    """Weights and bias of the last layer."""
    layer: Any = net.layers[-1]
    return layer.weight, layer.bias
