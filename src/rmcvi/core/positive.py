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
