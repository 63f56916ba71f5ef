"""A Gaussian is cut into narrower ones where one Gaussian would not do.

N(m, B B') is cut along B v, |v| = 1. With nodes xi_s and weights w_s of Gauss-Hermite quadrature,

    N(m, B B') ~ sum_s w_s N(m + r xi_s B v, B (I - r^2 v v') B'),    0 <= r < 1,

which keeps its moments up to order 2 S - 1, and with r = 0 is the law itself, S times. How far a
cut goes, r^2, grows with how much goes wrong without it, from nothing at all: before a transition,
with the share of the prediction's variance that f adds by not being linear; before an observation,
with the share of the posterior that its Gaussian leaves out (distance in total variation).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float

from rmcvi.core.gaussian import colour
from rmcvi.core.inputs import Inputs
from rmcvi.recursion.gaussian_fit import Fit
from rmcvi.recursion.gaussian_law import Law, Prediction, predict

PIECES = 3
"""Of a cut: it keeps moments up to order five, and the middle one stays where the mode was."""
LARGEST = 0.8
"""Of r^2: neighbours still overlap."""
BENT, LEFT_OUT = 0.05, 0.1
"""Shares, of variance and of probability, with which a cut goes as far as it can."""
NOISE = 1e-3
"""Of either share's bound: rounding."""
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(PIECES)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class Cut(eqx.Module):
    """Where the pieces go, and the matrix that makes each narrower."""

    shift: Float[Array, "s dx"]
    narrow: Float[Array, "dx dx"]

    @classmethod
    def along(
        cls, points: Float[Array, "n dx"], departure: Float[Array, "n"], wrong: Float[Array, ""]
    ) -> "Cut":
        """In the direction in which points that depart lie.

        Args:
            points: deviations in coordinates in which the law is N(0, I).
            departure: of each, not negative.
            wrong: what goes wrong, as a share of what makes a cut go as far as it can.
        """
        square = LARGEST * jnp.clip(wrong - NOISE, 0.0, 1.0)
        lean = (points.T * departure[None]) @ points
        direction = jnp.linalg.eigh(lean)[1][:, -1]
        nodes = jnp.asarray(NODES, points.dtype)
        eye = jnp.eye(direction.size, dtype=points.dtype)
        return cls(
            jnp.sqrt(square) * nodes[:, None] * direction[None],
            eye - (1.0 - jnp.sqrt(1.0 - square)) * jnp.outer(direction, direction),
        )

    def law(self, law: Law) -> Law:
        """The pieces of a law."""
        root = jnp.broadcast_to(law.root @ self.narrow, (PIECES, *law.root.shape))
        return Law(law.mean[None] + colour(law.root, self.shift), root)

    def prediction(self, prior: Prediction) -> Prediction:
        """The pieces of a prediction, each with its way back."""

        def each(v):
            return jnp.broadcast_to(v, (PIECES, *v.shape))

        return Prediction(
            prior.mean[None] + colour(prior.root, self.shift),
            each(prior.root @ self.narrow),
            prior.before[None] + colour(prior.gain, self.shift),
            each(prior.gain @ self.narrow),
            each(prior.rest),
        )


def cut_weights(weight: Float[Array, "k"]) -> Float[Array, "c"]:
    """Weights of the pieces of every component."""
    return (weight[:, None] * jnp.asarray(WEIGHTS, weight.dtype)[None]).reshape(-1)


def cut_law(
    model: Any, law: Law, noise: Float[Array, "n dx"], inputs: Inputs, moves: Bool[Array, ""]
) -> Cut:
    """Before f moves it.

    Args:
        model: has f.
        law: of x_{t-1}.
        noise: particles of N(0, I).
        inputs: of this step.
        moves: whether it moves at all.
    """
    x = law.mean[None] + colour(law.root, noise)
    moved = jax.vmap(model.transition_mean, (0, None))(x, inputs)
    moved = moved - jnp.mean(moved, 0)[None]
    bent = moved - noise @ (noise.T @ moved) / len(noise)
    root = predict(model, law, noise, inputs).root
    bent = jnp.sum(solve_triangular(root, bent.T, lower=True) ** 2, 0)
    wrong = jnp.where(moves, jnp.mean(bent) / BENT, 0.0)
    return Cut.along(noise, bent, wrong)


def cut_prediction(target: Callable[[Array], Array], fit: Fit) -> Cut:
    """Before it sees y_t; particles of the prediction find what those of the fit may miss."""
    noise, num = fit.noise, len(fit.noise)
    squares = 0.5 * jnp.sum(noise**2, 1)
    volume = jnp.sum(jnp.log(jnp.diagonal(fit.factor)))
    u = fit.unexplained - volume
    log_z = jax.nn.logsumexp(u) - jnp.log(num)
    ratio = jnp.abs(jnp.exp(u - log_z) - 1.0)
    log_p = jax.vmap(target)(noise) + squares - log_z
    log_q = volume - 0.5 * jnp.sum(((noise - fit.mean[None]) @ fit.factor) ** 2, 1) + squares
    most = jnp.log(jnp.asarray(float(num), noise.dtype))
    missed = jnp.exp(jnp.minimum(log_p, most)) - jnp.exp(jnp.minimum(log_q, most))
    missed = jnp.maximum(missed, 0.0)
    wrong = jnp.maximum(0.5 * jnp.mean(ratio), jnp.mean(missed)) / LEFT_OUT
    points = jnp.concatenate([fit.z, noise]) - fit.mean[None]
    return Cut.along(points, jnp.concatenate([ratio, missed]), wrong)
