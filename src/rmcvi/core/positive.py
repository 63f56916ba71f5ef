"""Positive parameters: `floor + softplus(raw)`, never a signed square root (errata B10)."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

FLOOR = 1e-4
"""Least scale: far below any noise in standard units, far above rounding in single precision."""


def positive(raw: Array, floor: float = FLOOR) -> Array:
    """Map an unconstrained array into (floor, inf)."""
    return floor + jax.nn.softplus(raw)


def unconstrained(value: ArrayLike, floor: float = FLOOR) -> Array:
    """The inverse of `positive`; values at or below the floor land just above it."""
    excess = jnp.maximum(jnp.asarray(value, float) - floor, 1e-6 * floor)
    return excess + jnp.log(-jnp.expm1(-excess))


def positive_scale(raw: Array) -> Array:
    """Standard deviations of a vector, a lower Cholesky factor of a matrix."""
    if raw.ndim == 1:
        return positive(raw)
    return jnp.tril(raw, -1) + jnp.diag(positive(jnp.diagonal(raw)))


def unconstrained_scale(scale: Array) -> Array:
    """The inverse of `positive_scale`."""
    if scale.ndim == 1:
        return unconstrained(scale)
    return jnp.tril(scale, -1) + jnp.diag(unconstrained(jnp.diagonal(scale)))
