"""q tied to the model: an extended Kalman step, a linearised potential, and learned corrections.

Networks start near zero, so that an untrained family is the extended Kalman smoother of the
current model; they learn what the linearisation misses.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.core.inputs import split_missing
from rmcvi.core.network import network
from rmcvi.families.base import AbstractFamily, correction_networks, squash
from rmcvi.families.exponential import DiagonalGaussian, FullGaussian
from rmcvi.families.kalman import (
    KalmanModel,
    Moments,
    condition,
    expand,
    initial_moments,
    linearised_potential,
    mean_field,
    natural,
    predict,
)


class TiedCarry(eqx.Module):
    """The filter's moments and a small hidden memory."""

    moments: Moments
    memory: Float[Array, "da"]


class ExtendedKalmanFamily(AbstractFamily[DiagonalGaussian | FullGaussian]):
    """`InnovationFamily` tied to the model in mean, precision and potential.

    phi: one network that corrects the filter (in units of its standard deviation and log-scale)
    and one that corrects the backward potential.
    """

    cell: eqx.nn.MLP
    net: eqx.nn.MLP
    start_memory: Float[Array, "da"]
    start_shift: Float[Array, "dx"]
    distribution: DiagonalGaussian | FullGaussian

    def __init__(
        self,
        model: KalmanModel,
        *,
        key: Key[Array, ""],
        hidden: int = 64,
        memory: int = 16,
        diagonal: bool = True,
    ):
        """Draw the two networks.

        Args:
            model: whose filter is corrected.
            key: draws the weights.
            hidden: units in each network.
            memory: numbers carried besides the moments.
            diagonal: independent coordinates of q; False keeps full covariances.
        """
        networks = correction_networks(model, key, hidden=hidden, memory=memory, last=0.02)
        self.cell, self.net = networks
        dx = model.dim_state
        self.start_memory = jnp.zeros(memory)
        self.start_shift = jnp.zeros(dx)
        self.distribution = DiagonalGaussian() if diagonal else FullGaussian()

    def initial_carry(self, model):
        """The model's law of x_0, shifted by a learned a_{-1}."""
        start = initial_moments(model)
        mean = start.mean + self.start_shift
        return TiedCarry(Moments(mean, start.covariance, start.fresh), self.start_memory)

    def advance(self, model, carry, y, inputs):
        """An extended Kalman step, then the network's correction."""
        prior = predict(model, carry.moments, inputs)
        after, _ = condition(model, prior, y, inputs)
        if isinstance(self.distribution, DiagonalGaussian):
            after = mean_field(after)
        filled, seen = split_missing(y)
        scale = model.emission_scale(prior.mean, inputs)
        residual = 0.5 * seen * (filled - model.emission_mean(prior.mean, inputs)) / scale
        deviation = jnp.sqrt(jnp.diagonal(after.covariance))
        features = [squash(residual), seen, prior.mean, jnp.log(deviation), carry.memory, inputs.u]
        shift, stretch, memory = jnp.split(
            network(self.cell, jnp.concatenate(features)), [deviation.size, 2 * deviation.size]
        )
        widen = jnp.exp(_bounded(stretch))
        covariance = widen[:, None] * after.covariance * widen[None]
        moments = Moments(after.mean + deviation * shift, covariance, after.fresh)
        return TiedCarry(moments, jnp.tanh(memory))

    def marginal(self, carry):
        """N(mean, covariance)."""
        return natural(self.distribution, carry.moments)

    def potential(self, model, carry, x, inputs):
        """The linearised transition, corrected in slope and curvature."""
        mean = carry.moments.mean
        score, curvature = linearised_potential(model, mean, x, inputs)
        shift, stretch = jnp.split(network(self.net, x), 2)
        widen = jnp.exp(_bounded(stretch))
        root = jnp.sqrt(jnp.diagonal(curvature))
        return expand(
            self.distribution,
            mean,
            score + root * shift,
            widen[:, None] * curvature * widen[None],
        )


def _bounded(raw: Array) -> Array:
    """Keep a log-scale correction within +-2."""
    return 2.0 * jnp.tanh(0.5 * raw)
