"""A cell that is fed the innovation: predict by the model's own transition, then correct.

p = f_theta(m_{t-1}),  m_t = p + s * correction(squashed residuals of y_t, precision, memory),
eta~(x) = (L mu, L) with mu = x + s * network(x). The model's parameters are constants here.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.core.inputs import Inputs, split_missing
from rmcvi.core.network import network
from rmcvi.families.base import AbstractFamily, correction_networks, squash
from rmcvi.families.exponential import DiagonalGaussian, Natural
from rmcvi.families.kalman import KalmanModel


class InnovationCarry(eqx.Module):
    """Mean, log-precision relative to the transition noise, and a small hidden memory."""

    mean: Float[Array, "*batch dx"]
    log_precision: Float[Array, "*batch dx"]
    precision: Float[Array, "*batch dx"]
    memory: Float[Array, "*batch da"]


class InnovationFamily(AbstractFamily[DiagonalGaussian]):
    """Diagonal Gaussian whose cell corrects the model's prediction; reaches the Bayes floor.

    Needs a model with additive Gaussian transition noise. `ExtendedKalmanFamily` ties the
    precision and the potential to the model as well.
    """

    cell: eqx.nn.MLP
    net: eqx.nn.MLP
    start_mean: Float[Array, "dx"]
    start_log_precision: Float[Array, "dx"]
    start_memory: Float[Array, "da"]
    distribution: DiagonalGaussian

    def __init__(
        self, model: KalmanModel, *, key: Key[Array, ""], hidden: int = 64, memory: int = 16
    ):
        """`hidden` units in both networks, `memory` numbers carried besides mean and precision."""
        networks = correction_networks(model, key, hidden=hidden, memory=memory, last=0.1)
        self.cell, self.net = networks
        dx = model.dim_state
        self.start_mean = jnp.zeros(dx)
        self.start_log_precision = jnp.zeros(dx)
        self.start_memory = jnp.zeros(memory)
        self.distribution = DiagonalGaussian()

    def initial_carry(self, model):
        """The learned a_{-1}."""
        base = _base_precision(model, Inputs(jnp.zeros(model.dim_input), jnp.ones(())))
        bounded = _bounded(self.start_log_precision)
        return InnovationCarry(self.start_mean, bounded, base * jnp.exp(bounded), self.start_memory)

    def advance(self, model, carry, y, inputs):
        """Predict through the model, then correct by what the residuals say."""
        dx = carry.mean.size
        prediction = model.transition_mean(carry.mean, inputs)
        filled, seen = split_missing(y)
        expected = model.emission_mean(prediction, inputs)
        residual = 0.5 * seen * (filled - expected) / model.emission_scale(prediction, inputs)
        features = [squash(residual), seen, prediction, carry.log_precision, carry.memory]
        out = network(self.cell, jnp.concatenate([*features, inputs.u]))
        base = _base_precision(model, inputs)
        bounded = _bounded(out[dx : 2 * dx])
        return InnovationCarry(
            prediction + out[:dx] * jax.lax.rsqrt(base),
            bounded,
            base * jnp.exp(bounded),
            jnp.tanh(out[2 * dx :]),
        )

    def marginal(self, carry):
        """Diagonal Gaussian at the carried mean."""
        return Natural(carry.precision * carry.mean, carry.precision)

    def potential(self, model, carry, x, inputs):
        """A Gaussian around x plus a learned shift."""
        del carry
        base = _base_precision(model, inputs)
        shift, raw = jnp.split(network(self.net, x), 2)
        precision = base * jnp.exp(_bounded(raw))
        return Natural(precision * (x + 3.0 * shift * jax.lax.rsqrt(base)), precision)


def _base_precision(model: Any, inputs: Inputs) -> Float[Array, "dx"]:
    """Inverse variance of the transition noise, the natural unit of both precisions."""
    scale = model.transition_scale(inputs)
    variance = scale**2 if scale.ndim == 1 else jnp.sum(scale**2, 1)
    return 1.0 / variance


def _bounded(raw: Array) -> Array:
    """Keep a log-precision within exp(+-4) of its base."""
    return 4.0 * jnp.tanh(0.25 * raw)
