"""A velocity driven by white noise, and the position that integrates it.

Over a step d the pair (position, velocity) gets noise of covariance q^2 [[d^3/3, d^2/2], [d^2/2,
d]], whose Cholesky factor is q sqrt(d) [[d / sqrt 3, 0], [sqrt 3 / 2, 1 / 2]].
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def integrated_scale(noise: Array, step: Array, axes: int) -> Float[Array, "dx dx"]:
    """The factor for all positions, then all velocities, of `axes` independent axes."""
    root = 3.0**0.5
    zero, one = jnp.zeros_like(step), jnp.ones_like(step)
    pair = jnp.stack([jnp.stack([step / root, zero]), jnp.stack([0.5 * root * one, 0.5 * one])])
    return noise * jnp.sqrt(step) * jnp.kron(pair, jnp.eye(axes, dtype=pair.dtype))
