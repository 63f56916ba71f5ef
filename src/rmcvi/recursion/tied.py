"""Backward kernels whose law is known, natural-gradient steps, and averages adjusted by moments."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.core.gaussian import colour, log_density
from rmcvi.core.inputs import Inputs
from rmcvi.families import LinearGaussianFamily
from rmcvi.families.kalman import Moments
from rmcvi.recursion.value import Cloud

LEAST, MOST = 0.5, 1e6
"""Precisions of q_t stay between these, in units of the prediction's: observations inform."""
REACH = 3.0
"""A step of the mean is no longer than this many standard deviations of the prediction."""


class Kernel(eqx.Module):
    """q_{t-1|t}(x, .) = N(conditional(x), diag(scale^2)), and the particles it weighs."""

    family: LinearGaussianFamily
    model: Any
    before: Moments
    inputs: Inputs
    scale: Float[Array, "dx"]
    x: Float[Array, "n dx"]
    log_before: Float[Array, "n"]
    """Log q_{t-1} at the particles."""
    unexplained: Float[Array, "n"]
    """h_{t-1} - log q_{t-1} at the particles, up to a constant."""

    @classmethod
    def of(
        cls,
        family: LinearGaussianFamily,
        model: Any,
        before: Moments,
        cloud: Cloud,
        inputs: Inputs,
    ) -> "Kernel":
        """The kernel from x_t back to the particles of `cloud`, whose law is `before`."""
        prior = family.marginal(before)
        potential = family.potential(model, before, before.mean, inputs)
        old = jnp.sqrt(jnp.diagonal(before.covariance))
        log_before = log_density(old, cloud.x - before.mean[None])
        return cls(
            family=family,
            model=model,
            before=before,
            inputs=inputs,
            scale=(prior.precision + potential.precision) ** -0.5,
            x=cloud.x,
            log_before=log_before,
            unexplained=cloud.h - log_before,
        )

    def conditional(self, x: Float[Array, "dx"]) -> Float[Array, "dx"]:
        """E[x_{t-1}] given x_t = x."""
        potential = self.family.potential(self.model, self.before, x, self.inputs)
        return self.scale**2 * (self.family.marginal(self.before).linear + potential.linear)

    def weights(self, x: Float[Array, "dx"]) -> Float[Array, "n"]:
        """Self-normalised weights of the particles."""
        log_now = log_density(self.scale, self.x - self.conditional(x)[None])
        return jax.nn.softmax(log_now - self.log_before)

    def corrected(self, x: Float[Array, "n dx"]) -> Float[Array, "n m"]:
        """Weights by the model's own density instead of the kernel's: those of the posterior."""
        log_m = self.model.pairwise_log_prob(self.x, x, self.inputs)
        return jax.nn.softmax(log_m + self.unexplained[None], 1)

    def terms(
        self, x: Float[Array, "dx"], noise: Float[Array, "m dx"]
    ) -> tuple[Float[Array, ""], Float[Array, "m dx"]]:
        """E[h_{t-1} - log q_{t-1|t}] given x_t = x, and draws of x_{t-1} made from `noise`.

        The weights see only what log q_{t-1} leaves unexplained; the rest is averaged over draws.
        """
        mean, old = self.conditional(x), jnp.sqrt(jnp.diagonal(self.before.covariance))
        draws = mean[None] + colour(self.scale, noise)
        known = log_density(old, draws - self.before.mean[None])
        known = known - log_density(self.scale, draws - mean[None])
        return self.weights(x) @ self.unexplained + jnp.mean(known), draws


def natural_ascent(
    h: Callable[[Float[Array, "dx"]], Float[Array, ""]],
    mean: Float[Array, "dx"],
    unit: Float[Array, "dx"],
    noise: Float[Array, "n dx"],
    num_steps: int,
    rate: float,
) -> tuple[Float[Array, "dx"], Float[Array, "dx"]]:
    """Mean and scale of q_t after `num_steps` steps from the prediction N(mean, unit^2)."""
    slopes_at = jax.vmap(jax.grad(h))

    def step(_, now):
        mean, precision = now
        scale = precision**-0.5
        slopes = slopes_at(mean[None] + colour(scale, noise))
        curvature = -jnp.mean(slopes * noise, 0) / scale
        target = jnp.clip(curvature, LEAST * unit**-2, MOST * unit**-2)
        new = (1.0 - rate) * precision + rate * target
        move = jnp.clip(rate * jnp.mean(slopes, 0) / new, -REACH * unit, REACH * unit)
        sound = jnp.all(jnp.isfinite(move) & jnp.isfinite(new))
        return jnp.where(sound, mean + move, mean), jnp.where(sound, new, precision)

    mean, precision = jax.lax.fori_loop(0, num_steps, step, (mean, unit**-2))
    return mean, precision**-0.5


def adjusted_average(
    weights: Float[Array, "n m"],
    values: Float[Array, "m ..."],
    x: Float[Array, "m dx"],
    error: Float[Array, "n dx"],
) -> Float[Array, "n ..."]:
    """Weighted averages of values at x, less what the weights' known `error` in x accounts for.

    A regression on x explains most of what varies slowly, and the kernel's mean of x is known: how
    far the weights miss it tells how far they miss the rest. Too few particles: plain averages.
    """
    num, dim = x.shape
    flat = values.reshape(num, math.prod(values.shape[1:]))
    average = weights @ flat
    if num >= 4 * dim:
        centred = x - jnp.mean(x, 0)[None]
        gram = centred.T @ centred
        ridge = 1e-4 * jnp.trace(gram) / dim * jnp.eye(dim)
        average = average - error @ jnp.linalg.solve(gram + ridge, centred.T @ flat)
    return average.reshape(weights.shape[0], *values.shape[1:])


def matched_normal(key: Key[Array, ""], num: int, dim: int) -> Float[Array, "{num} {dim}"]:
    """Normal draws whose mean is 0 and whose variances are 1 in the sample as well."""
    half = jax.random.normal(key, (num // 2, dim))
    draws = jnp.concatenate([half, -half, jnp.zeros((num % 2, dim))])
    return draws / jnp.sqrt(jnp.mean(draws**2, 0))[None]
