"""Units: z = (g(y) - a) / b, with g(y) = y or s asinh(y / s), and running a and b.

a' = a + w e,    b'^2 = (1 - w) (b^2 + w e^2),    e = g(y) - a within 6 b,    w = max(1/n, 1/memory)
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

FAR = 1e4
"""Standard units beyond this are not told apart."""
WINSOR = 6.0
MAX_ASINH = 20.0


def bend(
    y: Float[Array, "*rows dy"], scale: Float[Array, "*rows dy"], bent: Bool[Array, ""]
) -> Float[Array, "*rows dy"]:
    """g(y)."""
    return jnp.where(bent, scale * jnp.arcsinh(y / scale), y)


def unbend(
    g: Float[Array, "*rows dy"], scale: Float[Array, "*rows dy"], bent: Bool[Array, ""]
) -> Float[Array, "*rows dy"]:
    """The inverse of g."""
    return jnp.where(bent, scale * jnp.sinh(jnp.clip(g / scale, -MAX_ASINH, MAX_ASINH)), g)


def log_slope(
    y: Float[Array, "dy"], scale: Float[Array, "dy"], bent: Bool[Array, ""]
) -> Float[Array, "dy"]:
    """The logarithm of g'(y)."""
    ratio = jnp.abs(y / scale)
    return jnp.where(bent, -jnp.log(jnp.hypot(1.0, ratio)), 0.0)


class Located(eqx.Module):
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

    def located(self, mean: Float[Array, "dy"], variance: Float[Array, "dy"]) -> Located:
        """The law of g(y) for that of z."""
        root = jnp.sqrt(jnp.maximum(variance, 0.0))
        return Located(self.centre + self.deviation * mean, self.deviation * root)

    def learn(self, z: Float[Array, "dy"], weight: Float[Array, "dy"]) -> "Units":
        """After one value each; `weight` is 0 where none was seen."""
        error = jnp.where(weight > 0.0, jnp.clip(z, -WINSOR, WINSOR) * self.deviation, 0.0)
        centre = self.centre + weight * error
        variance = (1.0 - weight) * (self.variance + weight * error**2)
        return Units(centre, jnp.maximum(variance, 1e-12 * (1e-12 + centre**2)))

    def change(self, new: "Units") -> tuple[Float[Array, "dy"], Float[Array, "dy"]]:
        """(r, f): what was z is r z + f in the new units."""
        return self.deviation / new.deviation, (self.centre - new.centre) / new.deviation
