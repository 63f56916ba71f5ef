"""A Gaussian is cut into narrower ones where one Gaussian would not do.

N(m, B B') is cut along B v, |v| = 1. With nodes xi_s and weights w_s of Gauss-Hermite quadrature,

    N(m, B B') ~ sum_s w_s N(m + r xi_s B v, B (I - r^2 v v') B'),    0 <= r < 1,

which keeps its moments up to order 2 S - 1, and with r = 0 is the law itself, S times. How far a
cut goes, r^2, grows with how much goes wrong without it, from nothing at all: before a transition,
with the share of the prediction's variance that f adds by not being linear; before an observation,
with the share of the posterior that its Gaussian leaves out (distance in total variation).

Derivatives are those of densities: of d log N(x), which is quadratic, every piece takes its mean as
the derivative of its log-weight, and its covariances with x and x x' as those of its moments. What
the pieces of a wide law do is then to change weights, not to move across where f is steep.
"""

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
from rmcvi.recursion.gaussian_law import Law, Prediction, moved

PIECES = 4
"""Of a cut: it keeps moments up to order seven, and no piece sits between two modes."""
LARGEST = 0.8
"""Of r^2: neighbours still overlap."""
BENT, LEFT_OUT = 0.01, 0.02
"""Shares, of variance and of probability, with which a cut goes as far as it can."""
NOISE = 1e-3
"""Of either share's bound: rounding."""
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(PIECES)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class Cut(eqx.Module):
    """v, and r."""

    direction: Float[Array, "dx"]
    reach: Float[Array, ""]

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
        lean = (points.T * departure[None]) @ points
        square = LARGEST * jnp.clip(wrong - NOISE, 0.0, 1.0)
        return cls(jnp.linalg.eigh(lean)[1][:, -1], jnp.sqrt(square))

    @property
    def shift(self) -> Float[Array, "s dx"]:
        """Centres of the pieces in those coordinates."""
        return self.reach * jnp.asarray(NODES, self.reach.dtype)[:, None] * self.direction[None]

    @property
    def narrow(self) -> Float[Array, "dx dx"]:
        """Root of the covariance of each piece in those coordinates."""
        kept = jnp.sqrt(1.0 - self.reach**2)
        eye = jnp.eye(self.direction.size, dtype=self.reach.dtype)
        return eye - (1.0 - kept) * jnp.outer(self.direction, self.direction)

    def prediction(self, prior: Prediction) -> tuple[Float[Array, "s"], Prediction]:
        """The pieces of a prediction, each with its way back, and their weights."""
        weight, mean, root = pieces(prior.mean, prior.root, self)
        before = prior.before[None] + colour(prior.gain, self.shift)
        gain, rest = prior.gain @ self.narrow, prior.rest

        def piece(mean, root, before):
            return Prediction(mean, root, before, gain, rest)

        return weight, jax.vmap(piece)(mean, root, before)


@jax.custom_jvp
def pieces(
    mean: Float[Array, "dx"], root: Float[Array, "dx dx"], cut: Cut
) -> tuple[Float[Array, "s"], Float[Array, "s dx"], Float[Array, "s dx dx"]]:
    """Weights, means and roots of the pieces of N(mean, root root'), `root` lower triangular."""
    narrow = root @ cut.narrow
    weight = jnp.asarray(WEIGHTS, mean.dtype)
    centres = mean[None] + colour(root, cut.shift)
    return weight, centres, jnp.broadcast_to(narrow, (PIECES, *root.shape))


@pieces.defjvp
def _pieces_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """How the density changes, as every piece sees it; the cut holds still (theory, N12)."""
    (mean, root, cut), (d_mean, d_root, _) = primals, tangents
    v, r = cut.direction, cut.reach
    diagonal = jnp.diagonal(root)
    regular = root + jnp.diag(jnp.where(diagonal == 0.0, 1.0, 0.0))
    u = solve_triangular(regular, v, lower=True, trans="T")
    p, slope, along = d_root.T @ u, u @ d_mean, root @ v
    bent, moved = 2.0 * p @ v, d_root @ v + root @ p
    nodes = jnp.asarray(NODES, mean.dtype)
    weight = jnp.asarray(WEIGHTS, mean.dtype)
    d_weight = weight * (r * nodes * slope + 0.5 * bent * r**2 * (nodes**2 - 1.0))
    back = r**2 * (slope + r * nodes * bent)
    d_means = d_mean[None] + r * nodes[:, None] * moved[None] - back[:, None] * along[None]
    less = 0.5 * r**4 * bent * v - r**2 * p
    less = less + (1.0 / jnp.sqrt(1.0 - r**2) - 1.0) * (v @ less) * v
    d_roots = d_root @ cut.narrow + jnp.outer(along, less)
    told = (d_weight, d_means, jnp.broadcast_to(d_roots, (PIECES, *root.shape)))
    return pieces(mean, root, cut), told


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
    turn = moved(model, law, noise, inputs)[2][: len(noise)]
    bent = turn - noise @ (noise.T @ turn) / len(noise)
    bent = len(noise) * jnp.sum(bent**2, 1)
    wrong = jnp.where(moves, jnp.mean(bent) / BENT, 0.0)
    return Cut.along(noise, bent, wrong)


def cut_prediction(log_g: Float[Array, "n"], fit: Fit) -> Cut:
    """Before it sees y_t; `log_g` as in `Fit.departures`."""
    points = jnp.concatenate([fit.z, fit.noise]) - fit.mean[None]
    ratio, missed = fit.departures(log_g)
    wrong = jnp.maximum(0.5 * jnp.mean(ratio), jnp.mean(missed)) / LEFT_OUT
    return Cut.along(points, jnp.concatenate([ratio, missed]), wrong)
