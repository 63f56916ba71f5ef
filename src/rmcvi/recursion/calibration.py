"""Averages calibrated by known moments: regress on T, whose mean under the kernel is known.

    f_j = a + <b, T_j> + r_j,    E[f | x_i] ~ a + <b, E[T | x_i]> + sum_j w_ij r_j

with b by least squares over the particles before. It is linear in f, hence again a matrix,

    w~_ij = w_ij + <E[T | x_i] - sum_j w_ij T_j, B_j>,    B = G^-1 (T - mean T),

with G the Gram matrix of T - mean T: rows sum to one and have the kernel's own moments
(docs/theory/calibrated.md).
"""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core.gaussian import inverse_spd

AMPLE = 2.5
"""Particles per moment below which a regression adds more noise than it takes away (measured:
docs/theory/calibrated.md)."""
LIMIT = 10.0
"""Ten times a row's own mass is the most that its absolute changes may add up to: a row that asks
for more extrapolates from particles that are all far from where its kernel looks."""


class Calibration(eqx.Module):
    """The regression on statistics of the particles before."""

    columns: tuple[int, ...] = eqx.field(static=True)
    """Which of the statistics are used."""
    centre: Float[Array, "p"]
    unit: Float[Array, "p"]
    standard: Float[Array, "m p"]
    """T, centred, in units of its deviation."""
    solution: Float[Array, "p m"]
    """B': coefficients are this matrix times values at the particles."""
    share: float = eqx.field(static=True)
    """That of the moments which are used."""

    def __init__(self, statistics: Float[Array, "m k"], choices: Sequence[Sequence[int]]):
        """The first of `choices` (columns of `statistics`, most first) with enough particles."""
        num = len(statistics)
        ample = [c for c in choices if num >= AMPLE * len(c)]
        self.columns = tuple(ample[0]) if ample else ()
        self.share = len(self.columns) / len(choices[0])
        chosen = statistics[:, jnp.asarray(self.columns, int)]
        self.centre = jnp.mean(chosen, 0)
        centred = chosen - self.centre[None]
        self.unit = jnp.sqrt(jnp.mean(centred**2, 0)) + jnp.finfo(chosen.dtype).tiny
        self.standard = centred / self.unit[None]
        # Columns that hardly differ share their coefficient; `correction` makes up for the rest.
        ridge = jnp.finfo(chosen.dtype).eps ** 0.5 * jnp.eye(len(self.columns), dtype=chosen.dtype)
        gram = self.standard.T @ self.standard / num + ridge
        self.solution = inverse_spd(gram) @ self.standard.T / num

    def coefficients(self, values: Float[Array, "m k"]) -> Float[Array, "p k"]:
        """Those of a regression of `values`, in the statistics' own units."""
        return self.solution @ values / self.unit[:, None]

    def correction(
        self, weights: Float[Array, "n m"], means: Float[Array, "n k"]
    ) -> tuple[Float[Array, "n m"], Float[Array, ""]]:
        """What weights lack to have these means of all statistics; and the share of the moments
        that they have once it is added, since fewer may be used, and changes are limited.
        """
        known = (means[:, jnp.asarray(self.columns, int)] - self.centre[None]) / self.unit[None]
        missing = known - weights @ self.standard
        # The ridge leaves a share of its own size: taken off by a second pass.
        missing = missing + (missing - missing @ (self.solution @ self.standard))
        change = missing @ self.solution
        size = jnp.sum(jnp.abs(change), 1)
        factor = LIMIT / jnp.maximum(size, LIMIT)
        return factor[:, None] * change, self.share * jnp.mean(size <= LIMIT, dtype=size.dtype)
