"""One Bayesian linear regression that slowly forgets, in square-root form.

    y = w' phi + noise of variance v,    w ~ N(m, S S'),    f = S' phi,    a = keep v + f' f,
    m <- m + S f e / a,    S <- (S - S f f' / (a + sqrt(a keep v))) / sqrt(keep),    e = y - m' phi.

This is Potter's update: S S' is a covariance whatever rounding does, in float32 and over millions
of rows. With keep = 1 it is the exact posterior. With forgetting, S grows where nothing is learned;
it is held back, row by row, so that no coefficient is ever less certain than at first.
Written for one regression; `jax.vmap` makes many.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

PIECE = 32
"""Numbers that are summed at once: of longer sums the compiler makes windows, at twice the cost."""


class Regression(eqx.Module):
    """The law N(weights, root root') of the coefficients."""

    weights: Float[Array, "*batch k"]
    root: Float[Array, "*batch k k"]

    @classmethod
    def prior(
        cls, mean: Float[Array, "*batch k"], deviation: Float[Array, "*batch k"]
    ) -> "Regression":
        """Independent coefficients."""
        eye = jnp.eye(mean.shape[-1], dtype=deviation.dtype)
        return cls(mean, deviation[..., None] * jnp.broadcast_to(eye, (*mean.shape, len(eye))))

    @property
    def covariance(self) -> Float[Array, "*batch k k"]:
        """The product S S'."""
        return self.root @ jnp.swapaxes(self.root, -1, -2)

    def leverage(self, phi: Float[Array, "k"]) -> tuple[Float[Array, "k"], Float[Array, ""]]:
        """The vector f = S' phi, and the variance f' f of the mean."""
        white = phi @ self.root
        return white, jnp.sum(white**2)

    def learn(
        self,
        white: Float[Array, "k"],
        error: Float[Array, ""],
        noise: Float[Array, ""],
        keep: Float[Array, ""] | float,
        most: Float[Array, "k"],
    ) -> "Regression":
        """The law after one value.

        Args:
            white: f, from `leverage`.
            error: e, the value less its prediction.
            noise: v > 0, variance of the value around its mean.
            keep: what is kept of the past, in (0, 1].
            most: largest standard deviation of each coefficient, usually the prior's.
        """
        total = keep * noise + jnp.sum(white**2)
        moved, root = narrowed(self.root, white, noise, keep, most)
        return Regression(self.weights + moved * (error / total), root)


def narrowed(
    root: Float[Array, "k k"],
    white: Float[Array, "k"],
    noise: Float[Array, ""],
    keep: Float[Array, ""] | float,
    most: Float[Array, "k"],
) -> tuple[Float[Array, "k"], Float[Array, "k k"]]:
    """The vector S f, and S after a value; arguments as those of `Regression.learn`."""
    rest = keep * noise
    total = rest + jnp.sum(white**2)
    moved = root @ white
    share = 1.0 / (total + jnp.sqrt(total * rest))
    # Squared lengths of the new rows, without making them first: a pass less over the matrix.
    less = moved**2 * share * (2.0 - share * (total - rest))
    pieces = (jnp.sum(root[:, i : i + PIECE] ** 2, 1) for i in range(0, len(most), PIECE))
    square = jnp.maximum(sum(pieces, jnp.zeros_like(most)) - less, 0.0) / keep
    held = jnp.minimum(1.0, most / jnp.sqrt(jnp.maximum(square, 1e-30))) / jnp.sqrt(keep)
    return moved, (root - jnp.outer(moved, white * share)) * held[:, None]
