"""Parameters that enter linearly, as a model declares them.

target_b = offset_b + A_b' features_b + noise of covariance V_b,    b = 1, ..., B,

with blocks b of equally many coordinates: one block of all of them where they share their features
(then V may be full), one block per coordinate where each has its own (a diagonal matrix), or where
coordinates of y may be missing one by one. For the transition the target is x_t, features are those
of x_{t-1} and V is multiplied by dt; for the emission it is y_t given x_t.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core.gaussian import covariance_of
from rmcvi.core.inputs import Inputs
from rmcvi.core.positive import positive_scale, unconstrained_scale


class Held(NamedTuple):
    """Numbers of a regression, and the leaves of the model that hold them."""

    value: Array
    where: Callable[[Any], tuple[Any, ...]]
    """Model to leaves."""
    leaves: Callable[[Array], tuple[Array, ...]]
    """New numbers to new leaves."""


class LinearPart(NamedTuple):
    """A regression within a model: its features, and where its numbers are kept."""

    features: Callable[[Float[Array, "dx"], Inputs], Float[Array, "b k"]]
    offset: Callable[[Float[Array, "dx"], Inputs], Float[Array, "rows"]]
    """What the mean has besides the features, one number per coordinate of the target."""
    coefficients: Held
    """A, of shape (b, k, m)."""
    covariance: Held
    """V, of shape (b, m, m)."""
    tied: bool = False
    """Whether all blocks, of one coordinate each, have the same coefficients."""

    def pairs(
        self, x: Float[Array, "dx"], target: Float[Array, "rows"], inputs: Inputs
    ) -> Float[Array, "b km"]:
        """Features beside what they have to explain, block by block."""
        features = self.features(x, inputs)
        rest = (target - self.offset(x, inputs)).reshape(features.shape[0], -1)
        return jnp.concatenate([features, rest], 1)


class Statistics(eqx.Module):
    """Sums over rows of 1 and of v v', where v are features and targets; or what tilts them."""

    count: Float[Array, "b"]
    moments: Float[Array, "b km km"]

    @classmethod
    def zeros(cls, part: LinearPart) -> "Statistics":
        """Nothing seen."""
        blocks, features, targets = part.coefficients.value.shape
        size = features + targets
        return cls(jnp.zeros(blocks), jnp.zeros((blocks, size, size)))

    def tilt(self, v: Float[Array, "b km"]) -> Float[Array, "b"]:
        """The products <e, (1, v v')> of every block."""
        return self.count + jnp.einsum("bk,bkl,bl->b", v, self.moments, v)


Where = Callable[[Any], tuple[Any, ...]]


def row_features(
    matrix: Array, x: Float[Array, "dx"], inputs: Inputs, shared: bool
) -> Float[Array, "b k"]:
    """The state and the inputs, once or for each row of a matrix (a vector: a diagonal one)."""
    if shared:
        return jnp.concatenate([x, inputs.u])[None]
    num = matrix.shape[0]
    states = x[:, None] if matrix.ndim == 1 else jnp.broadcast_to(x, (num, x.size))
    return jnp.concatenate([states, jnp.broadcast_to(inputs.u, (num, inputs.u.size))], 1)


def held_rows(matrices: tuple[Array, ...], shared: bool, where: Where) -> Held:
    """Matrices side by side (a vector is a column) as coefficients: one block, or one per row."""
    columns = [v[:, None] if v.ndim == 1 else v for v in matrices]
    rows = jnp.concatenate(columns, 1)
    ends = list(itertools.accumulate(v.shape[1] for v in columns))

    def leaves(value):
        parts = jnp.split(value[0].T if shared else value[..., 0], ends[:-1], 1)
        return tuple(part.reshape(v.shape) for part, v in zip(parts, matrices, strict=True))

    return Held(rows.T[None] if shared else rows[..., None], where, leaves)


def held_noise(raw: Array, shared: bool, where: Where) -> Held:
    """The covariance behind `positive_scale(raw)`; a vector's is diagonal, block or no block."""
    scale = positive_scale(raw)

    def leaves(value):
        if raw.ndim == 1:
            return (unconstrained_scale(jnp.sqrt(jnp.diagonal(value, 0, 1, 2).ravel())),)
        return (unconstrained_scale(jnp.linalg.cholesky(value[0])),)

    value = covariance_of(scale)[None] if shared else (scale**2)[:, None, None]
    return Held(value, where, leaves)
