"""Regressions with few coefficients, one a column, around a forecast that needs none.

    y = base + s (w' phi + noise),    phi and noise in units of a scale s

They are least squares: what a large error teaches is what squares are about. Inputs are bounded,
and a value far out teaches nothing.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core.regression import Regression

KEEP = 0.998
"""What is kept from one value to the next: they are there for what the long memory of the
components has not followed yet."""
BOUND = 100.0
"""Inputs lie within this many scales, and so do errors that teach: a beat of a heart has tens."""
SLOW = 0.002
"""Least rate of the noise: were it to follow bursts, their rows would count for little."""
LEAST, LARGEST = 0.0025, BOUND**2
"""Bounds of the noise, in squares of the scale of changes: a column that stands still does not make
it surer than the last value, whose width may shrink as far."""


class Outlook(eqx.Module):
    """What is said of a row, in scales beyond the base, and what learning from the row needs."""

    change: Float[Array, "dy"]
    variance: Float[Array, "dy"]
    white: Float[Array, "dy k"]
    usual: Bool[Array, "dy"]
    """Whether no input had to be bounded: one that is would outweigh all others together."""


class SmallRegression(eqx.Module):
    """Coefficients, and the variance of the noise in squares of the scale."""

    rows: Regression
    noise: Float[Array, "*m dy"]

    @classmethod
    def around(
        cls, weights: Float[Array, "*m dy k"], prior: tuple[float, ...]
    ) -> "SmallRegression":
        """Nothing seen; `prior` has the deviations of the coefficients around these."""
        rows = Regression.prior(weights, jnp.broadcast_to(jnp.asarray(prior), weights.shape))
        return cls(rows, jnp.ones(weights.shape[:-1]))

    def predict(self, features: Float[Array, "dy k"]) -> Outlook:
        """The next row; inputs that are missing are 0."""
        whole = jnp.nan_to_num(features)
        phi = jnp.clip(whole, -BOUND, BOUND)
        white, leverage = jax.vmap(Regression.leverage)(self.rows, phi)
        change = jnp.clip(jnp.sum(self.rows.weights * phi, 1), -BOUND, BOUND)
        return Outlook(change, self.noise + leverage, white, jnp.all(whole == phi, 1))

    def learn(
        self,
        outlook: Outlook,
        error: Float[Array, "dy"],
        teaches: Bool[Array, "dy"],
        count: Float[Array, "dy"],
        prior: Float[Array, "k"],
    ) -> "SmallRegression":
        """After a row.

        Args:
            outlook: what was said of the row.
            error: what came less that, in scales.
            teaches: columns whose value is neither missing, doubted nor stuck.
            count: values before it.
            prior: as in `around`; no coefficient becomes less certain.
        """
        # Of values this far out nothing is learned: among the first, none is doubted by others.
        taught = teaches & outlook.usual & (jnp.abs(error) <= BOUND)
        error = jnp.where(taught, error, 0.0)
        rows = jax.vmap(Regression.learn, (0, 0, 0, 0, 0, None))(
            self.rows,
            jnp.where(taught[:, None], outlook.white, 0.0),
            error,
            self.noise,
            jnp.where(taught, KEEP, 1.0),
            prior,
        )
        pace = jnp.where(taught, jnp.maximum(1.0 / (count + 6.0), SLOW), 0.0)
        noise = jnp.clip(self.noise + pace * (error**2 - self.noise), LEAST, LARGEST)
        return SmallRegression(rows, noise)
