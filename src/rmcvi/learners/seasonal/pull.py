"""Log scores are blind to a few large errors, squares are not: the mean yields to simple experts.

    m + sum_k b_k (l_k - m),    b = argmin of the discounted squared errors, b >= 0, sum b <= 1,

with l the short regression and the last value, and a prior that counts for `RELUCTANT` squares.
Errors are in units of the last value's root mean square error over a thousand values: in units that
follow every change of scale, rare large errors would count for little, and they are what squares
are about. One b for each horizon and column.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

SIMPLE = 2
"""Experts to which the mean is pulled: the last two."""
KEEP = 0.9995
"""Discount of the sums, per value at horizon 1."""
RELUCTANT = 20.0
"""What the sums must outweigh: shares start at 0."""
LOUDEST = 20.0
"""The largest error that counts, in those units."""
SLOW, CLIP = 1e-3, 10.0
"""Least rate of the units; a square counts for at most so many mean ones."""
FEW = 24.0
"""Values before the shares move: nothing is doubted yet, and one absurd value would decide them."""


class Pull(eqx.Module):
    """Sums of products of (l - m) with each other and with y - m, discounted."""

    squares: Float[Array, "2 2 *bins dy"]
    products: Float[Array, "2 *bins dy"]
    square: Float[Array, "*bins dy"]
    """Mean squared error of the last value."""

    @classmethod
    def unknown(cls, *shape: int) -> "Pull":
        """Nothing seen."""
        nothing = jnp.zeros((SIMPLE, SIMPLE, *shape))
        return cls(nothing, nothing[0], nothing[0, 0])

    def shares(self) -> Float[Array, "2 *bins dy"]:
        """The shares b."""
        (a, c), (_, d) = self.squares
        a, d = a + RELUCTANT, d + RELUCTANT
        p, q = self.products
        zero, det = jnp.zeros_like(p), a * d - c * c
        first, second = (d * p - c * q) / det, (a * q - c * p) / det
        along = jnp.clip((p - q - c + d) / (a - 2.0 * c + d), 0.0, 1.0)
        inside = (first >= 0.0) & (second >= 0.0) & (first + second <= 1.0)
        x = jnp.stack([jnp.clip(p / a, 0.0, 1.0), zero, along, jnp.where(inside, first, 0.0)])
        y = jnp.stack(
            [zero, jnp.clip(q / d, 0.0, 1.0), 1.0 - along, jnp.where(inside, second, 0.0)]
        )
        # On an edge of the triangle, or inside it: a point that is feasible and has the least loss.
        a, c, d, p, q = (v[None] for v in (a, c, d, p, q))
        loss = 0.5 * (a * x**2 + 2.0 * c * x * y + d * y**2) - p * x - q * y
        best = jnp.argmin(loss, 0)[None]
        return jnp.stack([jnp.take_along_axis(v, best, 0)[0] for v in (x, y)])

    def learn(
        self,
        error: Float[Array, "*bins dy"],
        away: Float[Array, "2 *bins dy"],
        count: Float[Array, "*bins dy"],
        share: Float[Array, "*bins dy"],
    ) -> "Pull":
        """After a value.

        Args:
            error: y - m.
            away: l - m of the two experts.
            count: values before this one.
            share: by which the value counts.
        """
        unit = jnp.sqrt(jnp.where(self.square > 0.0, self.square, jnp.inf))  # at first, nothing
        x = jnp.clip(away / unit[None], -LOUDEST, LOUDEST)
        e = jnp.clip(error / unit, -LOUDEST, LOUDEST)
        pace = jnp.maximum(1.0 / (count + 1.0), SLOW * share)
        share = jnp.where(count >= FEW, share, 0.0)
        keep = 1.0 - (1.0 - KEEP) * share
        new = (error - away[-1]) ** 2
        # One absurd value among the first must not be the unit of the next thousand.
        new = jnp.where(self.square > 0.0, jnp.minimum(new, CLIP * self.square), new)
        return Pull(
            keep[None, None] * self.squares + share[None, None] * x[:, None] * x[None],
            keep[None] * self.products + share[None] * x * e[None],
            self.square + pace * (new - self.square),
        )
