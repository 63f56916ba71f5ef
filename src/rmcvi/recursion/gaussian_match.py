"""Moments of the target around its fit, and how they move with a parameter.

In e, where q = N(0, I), the target is proportional to q exp u. Weights w_i of exp u give

    delta = E[e],    M = Cov(e),    d delta = Cov(e, dh),    d M = Cov(e e', dh),

averages over particles in which everything that is known of a quadratic dh = b'e + e'Ce / 2 is
put in: Cov(e, b'e) = M b, Cov(e e', e'Ce / 2) = M C M up to the weights' own deviations. b and C
come from slopes at the particles, which may be wild where h is (a bearing close to the sensor);
they are control variates, so any share of them will do: the one that explains dh best.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from rmcvi.core.gaussian import bounded, symmetric
from rmcvi.recursion.gaussian_fit import Fit


class Match(eqx.Module):
    """z is N(mean, root root'): the fit, or the moments of its target."""

    fit: Fit
    weights: Float[Array, "n"]
    """Importance weights of the particles."""
    shift: Float[Array, "dx"]
    """delta."""
    inner: Float[Array, "dx dx"]
    """Root of M."""

    @classmethod
    def of(cls, fit: Fit, corrected: bool) -> "Match":
        """The moments of the target if `corrected`, else those of q.

        Log-weights u are shrunk to a standard deviation of 1: about a third of the particles stays
        in play, and where the target is far from Gaussian, q takes over. At the optimum u is
        uncorrelated with e and e e' under q: terms of first order in u are noise and left out.
        """
        u = shrunken(fit.unexplained)
        weights, eye = jax.nn.softmax(u), jnp.eye(fit.mean.size, dtype=u.dtype)
        if not corrected:
            return cls(fit, weights, jnp.zeros_like(fit.mean), eye)
        second = weights - u / len(u)
        shift = second @ fit.noise
        square = symmetric((fit.noise.T * second[None]) @ fit.noise) - jnp.outer(shift, shift)
        return cls(fit, weights, shift, jnp.linalg.cholesky(bounded(square)))

    @property
    def log_evidence(self) -> Float[Array, ""]:
        """Log of the target's mass, by the same shrunken weights; never below the ELBO."""
        u = shrunken(self.fit.unexplained)
        return self.fit.elbo + jax.nn.logsumexp(u) - jnp.log(len(u))

    @property
    def mean(self) -> Float[Array, "dx"]:
        """E z."""
        return self.fit.mean + self.fit.spread @ self.shift

    @property
    def root(self) -> Float[Array, "dx dx"]:
        """Of the covariance of z."""
        return self.fit.spread @ self.inner

    def tangent(
        self, values: Float[Array, "n"], slopes: Float[Array, "n dx"]
    ) -> tuple[Float[Array, "dx"], Float[Array, "dx dx"]]:
        """Derivatives of mean and root, from those of h and h' at the particles."""
        fit, weights, square = self.fit, self.weights, self.inner @ self.inner.T
        noise, spread = fit.noise, fit.spread
        slope = spread.T @ jnp.mean(slopes, 0)
        bent = -spread.T @ fit.curvature(slopes) @ spread
        linear, quadratic = noise @ slope, 0.5 * jnp.sum((noise @ bent) * noise, 1)
        share = _explained(weights, values, linear + quadratic)
        slope, bent, linear, quadratic = (share * v for v in (slope, bent, linear, quadratic))
        deviation = noise - self.shift[None]
        mean = square @ slope + deviation.T @ _centred(weights, values - linear)
        uneven = (weights - 1.0 / len(weights)) * (quadratic - jnp.mean(quadratic))
        pairs = _centred(weights, values - quadratic) + uneven
        moved = square @ bent @ square + (deviation.T * pairs[None]) @ deviation
        moved = symmetric(moved) - jnp.sum(uneven) * square
        half = solve_triangular(self.inner, moved, lower=True).T
        half = 0.5 * solve_triangular(self.inner, half, lower=True)
        return spread @ mean, self.root @ half


def shrunken(u: Float[Array, "n"]) -> Float[Array, "n"]:
    """Centred, with a standard deviation of at most 1."""
    return (u - jnp.mean(u)) / jnp.maximum(1.0, jnp.std(u))


def _centred(weights: Float[Array, "n"], values: Float[Array, "n"]) -> Float[Array, "n"]:
    """Weighted deviations from the weighted mean."""
    return weights * (values - weights @ values)


def _explained(
    weights: Float[Array, "n"], values: Float[Array, "n"], fit: Float[Array, "n"]
) -> Float[Array, ""]:
    """The regression coefficient of values on their fit, between 0 and 1: 1 if it is exact."""
    deviation, tiny = _centred(weights, fit), jnp.finfo(fit.dtype).tiny
    return jnp.clip((deviation @ values + tiny) / (deviation @ fit + tiny), 0.0, 1.0)
