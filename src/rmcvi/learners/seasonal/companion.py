"""The Kalman filter of (x_t, x_{t-1}, .., x_{t-own}), observed without noise where seen.

    C- = [F C F' + Q, F C; C F', C],    G = C- H' (H C- H' + R)^{-1},
    m = m- + G (z - H m-),    C = C- - G H C-.

H picks the columns seen: an unseen one gets a unit row and no gain, so that shapes are constant.
R is 0 but for values far out, which the state follows less. Seen exactly means known exactly: their
rows of C are set to 0, not left to rounding.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core.gaussian import symmetric

LARGEST = 9.0
"""No variance above that of 3 standard units: an unstable F in a long gap."""
RIDGE = 100.0
"""Roundings that are added to the diagonal before innovations are solved for."""
FEW = 8
"""Columns whose innovations are solved for by elimination: its program grows with their number."""
FILLED = 4.0
"""A value that was not seen lies within this many standard deviations."""


class Companion(eqx.Module):
    """Mean and covariance of the last rows, in standard units."""

    mean: Float[Array, "n"]
    covariance: Float[Array, "n n"]

    def past(self, size: int) -> Float[Array, "rows size"]:
        """The mean without its oldest row: the lags of the next one, latest first."""
        return self.mean.reshape(-1, size)[:-1]

    def predict(
        self,
        mu: Float[Array, "dy"],
        transition: Float[Array, "dy lags"],
        noise: Float[Array, "dy dy"],
    ) -> "Companion":
        """One row on, whose mean is `mu`."""
        lags = transition.shape[1]
        old = self.covariance[:lags, :lags]
        side = transition @ old
        new = side @ transition.T
        # Mirroring `side` amplifies asymmetry in gaps, unless it is removed at each step.
        new = symmetric(new) + noise
        joint = jnp.block([[new, side], [side.T, old]])
        size = jnp.maximum(jnp.diagonal(joint), 1e-9)
        shrink = jnp.sqrt(jnp.minimum(1.0, LARGEST / size))
        mean = jnp.concatenate([mu, self.mean[:lags]])
        return Companion(mean, joint * shrink[:, None] * shrink[None])

    def condition(
        self, error: Float[Array, "dy"], extra: Float[Array, "dy"], seen: Bool[Array, "dy"]
    ) -> "Companion":
        """The law given the values seen; `extra` is R, `error` is z - H m-."""
        gain, _ = self.gain(extra, seen)
        size, rest = seen.shape[0], self.mean.shape[0] - seen.shape[0]
        mean = self.mean + gain @ jnp.where(seen, error, 0.0)
        filled = jnp.where(seen, mean[:size], jnp.clip(mean[:size], -FILLED, FILLED))
        less = self.covariance - gain @ self.covariance[:size]
        exact = jnp.concatenate([seen & (extra <= 0.0), jnp.zeros(rest, bool)])
        less = jnp.where(exact[:, None] | exact[None], 0.0, symmetric(less))
        return Companion(jnp.concatenate([filled, mean[size:]]), less)

    def unseen(self, size: int) -> "Companion":
        """As `condition` without a value; nothing is solved."""
        bounded = jnp.clip(self.mean[:size], -FILLED, FILLED)
        return Companion(jnp.concatenate([bounded, self.mean[size:]]), symmetric(self.covariance))

    def gain(
        self, extra: Float[Array, "dy"], seen: Bool[Array, "dy"]
    ) -> tuple[Float[Array, "n dy"], Float[Array, "dy dy"]]:
        """G (zeros for the unseen) and the innovations' covariance (unit rows for them)."""
        size = seen.shape[0]
        both = seen[:, None] & seen[None]
        inner = self.covariance[:size, :size] + jnp.diag(extra)
        inner = jnp.where(both, inner, jnp.eye(size))
        rows = jnp.where(seen[:, None], self.covariance[:size], 0.0)
        # Solved in units of its diagonal: columns may differ by orders of magnitude.
        unit = 1.0 / jnp.sqrt(jnp.maximum(jnp.diagonal(inner), 1e-12))
        ridge = RIDGE * jnp.finfo(inner.dtype).eps * jnp.eye(size)
        scaled = inner * unit[:, None] * unit[None] + ridge
        return (solved(scaled, rows * unit[:, None]) * unit[:, None]).T, inner


def solved(matrix: Float[Array, "d d"], right: Float[Array, "d n"]) -> Float[Array, "d n"]:
    """The solution of matrix x = right, for a positive definite matrix.

    A small one by elimination in plain operations, which many streams share; solvers of the
    library are called once for each of them, and keep a loop from being one piece (`compiling`).
    """
    size = matrix.shape[0]
    if size > FEW:
        return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(matrix, lower=True), right)
    both = jnp.concatenate([matrix, right], 1)
    for j in range(size):
        row = both[j] / both[j, j]
        both = (both - both[:, j, None] * row[None]).at[j].set(row)
    return both[:, size:]
