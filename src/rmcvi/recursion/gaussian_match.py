"""Moments of the target around its fit, and how they move with a parameter.

In e, where q = N(0, I), the target is proportional to q exp u. Particles of q know its middle,
those of the prediction what q may have missed: a second mode, or a heavy tail. With n b =
q / (q + prior) at all 2 n particles, weights w = 1 / n at q's + b (exp u - 1) give

    delta = E[e],    M = Cov(e),    d delta = Cov(e, dh),    d M = Cov(e e', dh),

so that q's own moments are exact and only what the target differs from q is sampled. Everything
that is known of a quadratic dh = b'e + e'Ce / 2 is put in: Cov(e, b'e) = M b,
Cov(e e', e'Ce / 2) = M C M up to the weights' own deviations. b and C come from slopes at q's
particles, which may be wild where h is (a bearing close to the sensor); they are control variates,
so any share of them will do: the one that explains dh best.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from rmcvi.core.gaussian import bounded, symmetric
from rmcvi.recursion.gaussian_fit import Fit

LEAST_MASS = 0.1
"""Of the target over q's: it is at least 1, but estimated, and could seem to be negative."""


class Match(eqx.Module):
    """z is N(mean, root root'): the fit, or the moments of its target."""

    fit: Fit
    weights: Float[Array, "k"]
    """Of the fit's particles, then of the prediction's: averages over the target."""
    plain: Float[Array, "k"]
    """Averages over q: one over their number for the fit's particles, nothing for the others."""
    noise: Float[Array, "k dx"]
    """All particles in coordinates in which q is N(0, I)."""
    log_mass: Float[Array, ""]
    """Log of the target's mass over q's."""
    shift: Float[Array, "dx"]
    """delta."""
    inner: Float[Array, "dx dx"]
    """Root of M."""

    @classmethod
    def of(cls, fit: Fit, log_g: Float[Array, "n"], corrected: bool) -> "Match":
        """The moments of the target if `corrected`, else those of q.

        Log-weights u are shrunken to a standard deviation of 1 around q: about a third of its
        particles stays in play, and where the target is far from Gaussian, q takes over. At the
        optimum u is uncorrelated with e and e e' under q: terms of first order in u are noise and
        left out.

        Args:
            fit: q, with its particles.
            log_g: h - log N(z; 0, I) at particles of the prediction, which have the same noise.
            corrected: as said.
        """
        num, dim = fit.noise.shape
        noise = jnp.concatenate([fit.noise, (fit.noise - fit.mean[None]) @ fit.factor])
        square = 0.5 * jnp.sum(fit.noise**2, 1)
        log_prior = -jnp.concatenate([0.5 * jnp.sum(fit.z**2, 1), square])
        log_q = fit.volume - 0.5 * jnp.sum(noise**2, 1)
        u = jnp.concatenate([fit.values, log_g - square]) - log_q
        u = (u - jnp.mean(u[:num])) / jnp.maximum(1.0, jnp.std(u[:num]))
        share = jax.nn.log_sigmoid(log_q - log_prior) - jnp.log(float(num))
        target = jnp.exp(jnp.minimum(u + share, 0.0))  # no particle counts for more than all
        share = jnp.exp(share)
        mass = jnp.maximum(1.0 + jnp.sum(target - share), LEAST_MASS)
        plain = jnp.zeros(2 * num, u.dtype).at[:num].set(1.0 / num)
        weights, eye = (plain + target - share) / mass, jnp.eye(dim, dtype=u.dtype)
        shift, inner = jnp.zeros_like(fit.mean), eye
        if corrected:
            second = weights - share * u
            shift = second @ noise
            moment = symmetric((noise.T * second[None]) @ noise) - jnp.outer(shift, shift)
            inner = jnp.linalg.cholesky(bounded(moment))
        return cls(fit, weights, plain, noise, jnp.log(mass), shift, inner)

    @property
    def log_evidence(self) -> Float[Array, ""]:
        """Log of the target's mass, by the same shrunken weights."""
        return self.fit.elbo + self.log_mass

    @property
    def mean(self) -> Float[Array, "dx"]:
        """E z."""
        return self.fit.mean + self.fit.spread @ self.shift

    @property
    def root(self) -> Float[Array, "dx dx"]:
        """Of the covariance of z."""
        return self.fit.spread @ self.inner

    def tangent(
        self, values: Float[Array, "k"], slopes: Float[Array, "n dx"]
    ) -> tuple[Float[Array, "dx"], Float[Array, "dx dx"]]:
        """Derivatives of mean and root, from those of h at all particles and h' at the fit's."""
        fit, weights, square = self.fit, self.weights, self.inner @ self.inner.T
        noise, spread = self.noise, fit.spread
        slope = spread.T @ jnp.mean(slopes, 0)
        bent = -spread.T @ fit.curvature(slopes) @ spread
        linear, quadratic = noise @ slope, 0.5 * jnp.sum((noise @ bent) * noise, 1)
        share = _explained(jnp.maximum(weights, 0.0), values, linear + quadratic)
        slope, bent, linear, quadratic = (share * v for v in (slope, bent, linear, quadratic))
        deviation = noise - self.shift[None]
        mean = square @ slope + deviation.T @ _centred(weights, values - linear)
        uneven = (weights - self.plain) * (quadratic - self.plain @ quadratic)
        pairs = _centred(weights, values - quadratic) + uneven
        moved = square @ bent @ square + (deviation.T * pairs[None]) @ deviation
        moved = symmetric(moved) - jnp.sum(uneven) * square
        half = solve_triangular(self.inner, moved, lower=True).T
        half = 0.5 * solve_triangular(self.inner, half, lower=True)
        return spread @ mean, self.root @ half


def _centred(weights: Float[Array, "n"], values: Float[Array, "n"]) -> Float[Array, "n"]:
    """Weighted deviations from the weighted mean."""
    return weights * (values - weights @ values)


def _explained(
    weights: Float[Array, "n"], values: Float[Array, "n"], fit: Float[Array, "n"]
) -> Float[Array, ""]:
    """The regression coefficient of values on their fit, between 0 and 1: 1 if it is exact."""
    deviation, tiny = _centred(weights, fit), jnp.finfo(fit.dtype).tiny
    return jnp.clip((deviation @ values + tiny) / (deviation @ fit + tiny), 0.0, 1.0)
