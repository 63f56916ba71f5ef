"""Additive Gaussian transition noise: x_t = f(x_{t-1}) + S e_t, and its pairwise fast path.

Four methods make a model: mean and scale of transition and emission. The laws of x_0 and y_t are
Gaussian unless their densities and samplers are overridden, and what y_t tells about x_t follows.

With z = S^-1 x and mu = S^-1 f(x_prev), log m = -|z_i - mu_j|^2 / 2 + const: one matrix product for
all pairs, and any weighted sum over pairs needs only the weights' moments.
"""

import abc

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.core.gaussian import (
    Scale,
    colour,
    log_density,
    log_volume,
    normal_log_prob,
    whiten,
)
from rmcvi.core.inputs import Inputs
from rmcvi.models.base import AbstractModel
from rmcvi.models.linear_part import LinearPart


class AbstractGaussianModel(AbstractModel):
    """A model whose transition adds Gaussian noise, and whose emission has a mean and a scale.

    x_0 ~ N(0, I) and y_t ~ N(emission_mean, emission_scale^2) unless overridden; for another law of
    y_t override `emission_log_prob` and `emission_sample`, and keep mean and scale true to it.
    """

    @property
    def gaussian(self) -> "AbstractGaussianModel":
        """The model itself."""
        return self

    @property
    def untilted(self) -> "AbstractGaussianModel":
        """The same model without the tilts of `Tilted`."""
        return self

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
        """Standard deviation of each coordinate of y_t; where there is none, a typical one."""

    def emission_information(
        self, x: Float[Array, "dx"], seen: Float[Array, "dy"], inputs: Inputs
    ) -> Float[Array, "k dx"]:
        """Rows r_k with sum_k r_k r_k' = Fisher information about x_t in what is seen of y_t.

        By default (d mean / dx) / scale, which is all there is for counts and a lower bound for
        every law; for the Gaussian law that follows from mean and scale also 2^.5 d log scale / dx,
        so that it is exact. Override it if y_t has another law and tells by its spread.
        """
        scale = self.emission_scale(x, inputs)
        rows = (seen / scale)[:, None] * jax.jacfwd(self.emission_mean)(x, inputs)
        if type(self).emission_log_prob is not AbstractGaussianModel.emission_log_prob:
            return rows
        spread = jax.jacfwd(self.emission_scale)(x, inputs) / scale[:, None]
        return jnp.concatenate([rows, 2.0**0.5 * seen[:, None] * spread])

    def initial_moments(self) -> tuple[Float[Array, "dx"], Scale]:
        """Mean of x_0; its standard deviations, or a lower Cholesky factor of its covariance."""
        return jnp.zeros(self.dim_state), jnp.ones(self.dim_state)

    def initial_log_prob(self, x):
        """`log N(x; mean, S S')`."""
        mean, scale = self.initial_moments()
        return log_density(scale, (x - mean)[None])[0]

    def initial_sample(self, key):
        """Draw x_0."""
        mean, scale = self.initial_moments()
        return mean + colour(scale, jax.random.normal(key, (1, *mean.shape), mean.dtype))[0]

    def emission_log_prob(self, x, y, inputs):
        """`log N(y; mean, scale^2)`, coordinate by coordinate."""
        return normal_log_prob(y, self.emission_mean(x, inputs), self.emission_scale(x, inputs))

    def emission_sample(self, key, x, inputs):
        """Draw y given x."""
        return draw_normal(key, self.emission_mean(x, inputs), self.emission_scale(x, inputs))

    def transition_jacobian(
        self, x_prev: Float[Array, "dx"], inputs: Inputs
    ) -> Float[Array, "dx dx"]:
        """Derivative of `transition_mean`."""
        return jax.jacfwd(self.transition_mean)(x_prev, inputs)

    def diagonals(
        self, dt: Float[Array, ""]
    ) -> tuple[Float[Array, "dx"], Float[Array, "dx"]] | None:
        """Slopes of x_t in x_{t-1} and of y_t in x_t, if all are linear and no coordinate of x or y
        depends on another; None otherwise. Filters are then cheap.
        """
        return None

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

    def transition_draws(self, key, x_prev, inputs):
        """One key for all, since the noise is additive."""
        noise = jax.random.normal(key, x_prev.shape, x_prev.dtype)
        mean = jax.vmap(self.transition_mean, (0, None))(x_prev, inputs)
        return mean + colour(self.transition_scale(inputs), noise)

    def expected_observation(self, xs, draws, inputs):
        """From the emission's mean: draws may have heavy tails."""
        return jnp.mean(jax.vmap(lambda x: self.emission_mean(x, inputs))(xs), 0)

    def transition_tilt(
        self, x_prev: Float[Array, "dx"], x: Float[Array, "dx"], inputs: Inputs
    ) -> Float[Array, ""]:
        """What `Tilted` adds to `log m`; nothing elsewhere."""
        return jnp.zeros(())

    def emission_tilt(
        self, x: Float[Array, "dx"], y: Float[Array, "dy"], inputs: Inputs
    ) -> Float[Array, ""]:
        """What `Tilted` adds to `log g`; nothing elsewhere."""
        return jnp.zeros(())

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
