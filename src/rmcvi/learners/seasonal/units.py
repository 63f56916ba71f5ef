"""Units: z = (g(y) - a) / b, with g(y) = y or s asinh(y / s), and running a and b.

a' = a + w e,    b'^2 = (1 - w) (b^2 + w e^2),    e = g(y) - a within 6 b,    w = max(1/n, 1/memory)
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core.moments import move

FAR = 1e8
"""Standard units beyond this all count as this: their squares must not overflow."""
WINSOR = 6.0
"""Deviations beyond which a value does not move the units further."""
MAX_ASINH = 20.0
"""Largest argument of sinh, which is 2e8 there."""
FINEST = 1e-6
"""Least deviation relative to the centre: what single precision can tell apart."""
Asinh = bool | Bool[Array, "..."]
"""Whether values are in asinh units: one answer for all, or each value's own."""


def to_asinh(
    y: Float[Array, "*rows dy"], scale: Float[Array, "*rows dy"], asinh: Asinh
) -> Float[Array, "*rows dy"]:
    """The transformed value g(y)."""
    return jnp.where(asinh, scale * jnp.arcsinh(y / scale), y)


def from_asinh(
    g: Float[Array, "*rows dy"], scale: Float[Array, "*rows dy"], asinh: Asinh
) -> Float[Array, "*rows dy"]:
    """The inverse of g."""
    return jnp.where(asinh, scale * jnp.sinh(jnp.clip(g / scale, -MAX_ASINH, MAX_ASINH)), g)


def log_slope(
    y: Float[Array, "*rows dy"], scale: Float[Array, "*rows dy"], asinh: Asinh
) -> Float[Array, "*rows dy"]:
    """The logarithm of g'(y)."""
    ratio = jnp.abs(y / scale)
    return jnp.where(asinh, -jnp.log(jnp.hypot(1.0, ratio)), 0.0)


class LocationScale(eqx.Module):
    """Location and scale of g(y)."""

    location: Float[Array, "*m dy"]
    deviation: Float[Array, "*m dy"]


class Units(eqx.Module):
    """Centre a and variance b^2 of g(y)."""

    centre: Float[Array, "dy"]
    variance: Float[Array, "dy"]

    @property
    def deviation(self) -> Float[Array, "dy"]:
        """The scale b."""
        return jnp.sqrt(self.variance)

    def standard(self, g: Float[Array, "dy"]) -> Float[Array, "dy"]:
        """The value z, bounded."""
        return jnp.clip((g - self.centre) / self.deviation, -FAR, FAR)

    def location_scale(
        self, mean: Float[Array, "dy"], variance: Float[Array, "dy"]
    ) -> LocationScale:
        """The law of g(y) for that of z."""
        root = jnp.sqrt(jnp.maximum(variance, 0.0))
        return LocationScale(self.centre + self.deviation * mean, self.deviation * root)

    def learn(self, z: Float[Array, "dy"], weight: Float[Array, "dy"]) -> "Units":
        """After one value each; `weight` is 0 where none was seen."""
        error = jnp.where(weight > 0.0, jnp.clip(z, -WINSOR, WINSOR) * self.deviation, 0.0)
        centre, variance = move(self.centre, self.variance, error, weight)
        return Units(centre, _floored(centre, variance))

    def moved(
        self, by: Float[Array, "dy"], wider: Float[Array, "dy"], which: Bool[Array, "dy"]
    ) -> "Units":
        """Centre moved `by` deviations, deviation `wider` times itself, in some columns."""
        centre = jnp.where(which, self.centre + by * self.deviation, self.centre)
        variance = jnp.where(which, self.variance * wider**2, self.variance)
        return Units(centre, _floored(centre, variance))

    def change(self, new: "Units") -> tuple[Float[Array, "dy"], Float[Array, "dy"]]:
        """(r, f): what was z is r z + f in the new units."""
        return self.deviation / new.deviation, (self.centre - new.centre) / new.deviation


def _floored(centre: Float[Array, "dy"], variance: Float[Array, "dy"]) -> Float[Array, "dy"]:
    return jnp.maximum(variance, FINEST**2 * centre**2 + 1e-30)
