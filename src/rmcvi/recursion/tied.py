"""Backward kernels whose law is known, and natural-gradient steps."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core import tree
from rmcvi.core.gaussian import colour, log_density
from rmcvi.core.inputs import Inputs
from rmcvi.families import FullGaussian, LinearGaussianFamily, Natural
from rmcvi.families.kalman import Moments
from rmcvi.recursion.calibration import Calibration
from rmcvi.recursion.cloud import Cloud

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

    def draws(self, mean: Float[Array, "dx"], noise: Float[Array, "m dx"]) -> Float[Array, "m dx"]:
        """Draws from the kernel with this mean."""
        return mean[None] + colour(self.scale, noise)

    def weights(self, x: Float[Array, "dx"]) -> Float[Array, "n"]:
        """Self-normalised weights of the particles."""
        log_now = log_density(self.scale, self.x - self.conditional(x)[None])
        return jax.nn.softmax(log_now - self.log_before)

    def corrected(self, x: Float[Array, "n dx"]) -> Float[Array, "n m"]:
        """Weights by the model's own density instead of the kernel's: those of the posterior."""
        log_m = self.model.pairwise_log_prob(self.x, x, self.inputs)
        return jax.nn.softmax(log_m + self.unexplained[None], 1)

    def calibration(self) -> Calibration:
        """The regression on means and products of the particles, or on less if they are few."""
        origin, products = jnp.mean(self.x, 0), FullGaussian()
        choices = products.moments(Natural(origin, jnp.eye(origin.size)))
        statistics = jax.vmap(products.statistic)(self.x - origin[None])
        return Calibration(tree.ravel(statistics, 1), (*choices, range(origin.size)))

    def moments(self, conditional: Float[Array, "n dx"]) -> Float[Array, "n k"]:
        """E of the same statistics, given the kernels' means."""
        means = jax.vmap(FullGaussian().statistic)(conditional - jnp.mean(self.x, 0)[None])
        spread = -0.5 * jnp.diag(self.scale**2)
        return tree.ravel(Natural(means.linear, means.precision + spread[None]), 1)

    def terms(
        self, x: Float[Array, "dx"], noise: Float[Array, "m dx"]
    ) -> tuple[Float[Array, ""], Float[Array, "m dx"]]:
        """E[h_{t-1} - log q_{t-1|t}] given x_t = x, and draws of x_{t-1} made from `noise`.

        The weights see only what log q_{t-1} leaves unexplained; the rest is averaged over draws.
        """
        mean, old = self.conditional(x), jnp.sqrt(jnp.diagonal(self.before.covariance))
        draws = self.draws(mean, noise)
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
