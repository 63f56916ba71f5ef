"""Laws N(m, B B'), and how one becomes the next: prediction from particles, posterior from a fit.

    m- = mean f(x_j),    L L' = P- = Cov f(x_j) + S S',    K = Cov(x_j, f(x_j)) L'^-1,

so that x_t = m- + L z with z ~ N(0, I) and E[x_{t-1} | z] = m + K z. For a linear f this is the
Kalman prediction and the gain of the smoother; otherwise statistical linearisation, in which what
is not linear adds to the noise. All is read off the QR factors of the deviations, stacked on S':
no product of deviations is formed, which would keep half of the digits, and nothing is inverted.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core.gaussian import colour, root_of, root_of_rows
from rmcvi.core.inputs import Inputs
from rmcvi.families.kalman import Moments, initial_moments
from rmcvi.recursion.gaussian_match import Match


class Law(eqx.Module):
    """N(mean, root root'); also the derivative of one in each of p parameters."""

    mean: Float[Array, "*p dx"]
    root: Float[Array, "*p dx dx"]

    def moments(self, fresh: Bool[Array, ""]) -> Moments:
        """Mean and covariance; `fresh` as in `Moments`."""
        return Moments(self.mean, self.root @ self.root.T, fresh.astype(self.mean.dtype))


class Prediction(eqx.Module):
    """x_t before y_t: m- + L z, and x_{t-1} given it."""

    mean: Float[Array, "dx"]
    root: Float[Array, "dx dx"]
    before: Float[Array, "dx"]
    """m."""
    gain: Float[Array, "dx dx"]
    """K."""
    rest: Float[Array, "dx dx"]
    """Root of the covariance of x_{t-1} given x_t."""

    @classmethod
    def at_start(cls, law: Law) -> "Prediction":
        """That of x_0, which has nothing before it."""
        nothing = jnp.zeros_like(law.root)
        return cls(law.mean, law.root, law.mean, nothing, nothing)

    def at(self, z: Float[Array, "dx"]) -> Float[Array, "dx"]:
        """The point x."""
        return self.mean + self.root @ z

    def back(self, z: Float[Array, "dx"], noise: Float[Array, "m dx"]) -> Float[Array, "m dx"]:
        """Draws of x_{t-1} given z."""
        return (self.before + self.gain @ z)[None] + colour(self.rest, noise)

    def posterior(self, z: Match) -> Law:
        """The law of x for that of z."""
        return Law(self.at(z.mean), self.root @ z.root)

    def posterior_tangent(
        self,
        z: Match,
        moved: Law,
        values: Float[Array, "k"],
        slopes: Float[Array, "n dx"],
    ) -> Law:
        """Its derivative, from those of the prediction, and of h and h' at the particles."""
        mean, root = z.tangent(values, slopes)
        return Law(
            moved.mean + moved.root @ z.mean + self.root @ mean,
            moved.root @ z.root + self.root @ root,
        )


def initial_law(model: Any) -> Law:
    """That of x_0."""
    moments = initial_moments(model)
    return Law(moments.mean, root_of(moments.covariance))


def predict(model: Any, law: Law, noise: Float[Array, "n dx"], inputs: Inputs) -> Prediction:
    """x_t from the particles of q_{t-1} that `noise` makes."""
    mean, root, turn = moved(model, law, noise, inputs)
    deviation = colour(law.root, noise) / len(noise) ** 0.5
    before = jnp.zeros_like(turn).at[: len(noise)].set(deviation)
    gain = before.T @ turn
    return Prediction(mean, root, law.mean, gain, root_of_rows(before - turn @ gain.T)[0])


def moved(
    model: Any, law: Law, noise: Float[Array, "n dx"], inputs: Inputs
) -> tuple[Float[Array, "dx"], Float[Array, "dx dx"], Float[Array, "k dx"]]:
    """m-, L, and Q: its first n rows are the moved particles in z, over the root of n."""
    points, num = law.mean[None] + colour(law.root, noise), len(noise)
    x = jax.vmap(model.transition_mean, (0, None))(points, inputs)
    known = jnp.all(jnp.isfinite(x), 1, keepdims=True)  # f may have a domain
    count = jnp.maximum(jnp.sum(known), 1)
    near = jax.lax.stop_gradient(jnp.sum(jnp.where(known, x, 0.0), 0) / count)
    away = jnp.where(known, x - near[None], 0.0)
    shift = jnp.sum(away, 0) / count  # sums of large numbers round: a second look
    away = jnp.where(known, away - shift[None], 0.0)
    scale = model.transition_scale(inputs)
    noises = jnp.diag(scale) if scale.ndim == 1 else scale.T
    return near + shift, *root_of_rows(jnp.concatenate([away / num**0.5, noises]))
