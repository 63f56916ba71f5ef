"""Additive Gaussian transition noise: x_t = f(x_{t-1}) + S e_t, and its pairwise fast path.

With z = S^-1 x and mu = S^-1 f(x_prev), log m = -|z_i - mu_j|^2 / 2 + const: one matrix product for
all pairs, and any weighted sum over pairs needs only the weights' moments.
"""

import abc

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.core.gaussian import Scale, log_volume, whiten
from rmcvi.core.inputs import Inputs
from rmcvi.models.base import AbstractModel
from rmcvi.models.linear_part import LinearPart


class AbstractGaussianModel(AbstractModel):
    """A model whose transition adds Gaussian noise, and whose emission has a location.

    The last three methods describe the emission roughly, for families that imitate a Kalman step.
    """

    @abc.abstractmethod
    def transition_mean(self, x_prev: Float[Array, "dx"], inputs: Inputs) -> Float[Array, "dx"]:
        """`f(x_{t-1})`."""

    @abc.abstractmethod
    def transition_scale(self, inputs: Inputs) -> Scale:
        """S: standard deviations, or a lower Cholesky factor of the covariance."""

    @abc.abstractmethod
    def emission_mean(self, x: Float[Array, "dx"], inputs: Inputs) -> Float[Array, "dy"]:
        """Where y_t is expected given x_t."""

    @abc.abstractmethod
    def emission_scale(self, x: Float[Array, "dx"], inputs: Inputs) -> Float[Array, "dy"]:
        """Typical deviation of each coordinate of y_t around `emission_mean`."""

    @abc.abstractmethod
    def emission_information(
        self, x: Float[Array, "dx"], seen: Float[Array, "dy"], inputs: Inputs
    ) -> Float[Array, "dy dx"]:
        """Rows r_k with sum_k r_k r_k' = Fisher information about x_t in what is seen of y_t."""

    def transition_jacobian(
        self, x_prev: Float[Array, "dx"], inputs: Inputs
    ) -> Float[Array, "dx dx"]:
        """Derivative of `transition_mean`."""
        return jax.jacfwd(self.transition_mean)(x_prev, inputs)

    def linear_transition(self) -> LinearPart | None:
        """The transition as a regression of x_t, if parameters enter it linearly."""
        return None

    def linear_emission(self) -> LinearPart | None:
        """The emission as a regression of y_t, if parameters enter it linearly."""
        return None

    def transition_log_prob(self, x_prev, x, inputs):
        """`log N(x; f(x_prev), S S')`."""
        scale = self.transition_scale(inputs)
        white = whiten(scale, (x - self.transition_mean(x_prev, inputs))[None])[0]
        return -0.5 * white @ white - log_volume(scale)

    def transition_sample(self, key, x_prev, inputs):
        """`f(x_prev) + S e`."""
        noise = jax.random.normal(key, x_prev.shape, x_prev.dtype)
        scale = self.transition_scale(inputs)
        moved = scale * noise if scale.ndim == 1 else scale @ noise
        return self.transition_mean(x_prev, inputs) + moved

    def pairwise_log_prob(self, x_prev, x, inputs):
        """All pairs by one matrix product, centred so that float32 does not cancel."""
        mu = jax.vmap(self.transition_mean, (0, None))(x_prev, inputs)
        scale = self.transition_scale(inputs)
        centre = jnp.mean(x, 0, keepdims=True)
        z, mu = whiten(scale, x - centre), whiten(scale, mu - centre)
        half = 0.5 * jnp.sum(z**2, 1)[:, None] + 0.5 * jnp.sum(mu**2, 1)[None]
        return z @ mu.T - half - log_volume(scale)

    def moment_log_prob(
        self,
        x_prev: Float[Array, "m dx"],
        x: Float[Array, "n dx"],
        row_weight: Float[Array, "n"],
        column_weight: Float[Array, "m"],
        cross: Float[Array, "m dx"],
        inputs: Inputs,
    ) -> Float[Array, ""]:
        """`sum_ij A_ij log m(x_prev[j], x[i])` from the moments of A alone.

        `row_weight` = A 1, `column_weight` = A' 1, `cross` = A' (x - mean(x)).
        """
        mu = jax.vmap(self.transition_mean, (0, None))(x_prev, inputs)
        scale = self.transition_scale(inputs)
        centre = jnp.mean(x, 0, keepdims=True)
        z, mu, b = whiten(scale, x - centre), whiten(scale, mu - centre), whiten(scale, cross)
        square = row_weight @ jnp.sum(z**2, 1) + column_weight @ jnp.sum(mu**2, 1)
        return jnp.sum(b * mu) - 0.5 * square - jnp.sum(row_weight) * log_volume(scale)


def draw_normal(key: Key[Array, ""], mean: Array, scale: Array) -> Array:
    """`mean + scale * e`, elementwise."""
    return mean + scale * jax.random.normal(key, mean.shape, mean.dtype)
