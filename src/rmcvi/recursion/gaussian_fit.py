"""A full Gaussian fitted to prior times likelihood, in coordinates in which the prior is N(0, I).

x = m + L z with N(m, L L') the prediction, h(z) = log N(z; 0, I) + log g(m + L z), and
q = N(mu, Lambda^-1). A step of length r uses derivatives at particles z_i = mu + B e_i, where
B B' = Lambda^-1 and the e_i have mean 0 and covariance I in the sample,

    Lambda <- (1 - r) Lambda + r C,    C = -E_q[h''] = -sym E[h'(z_i) e_i'] B^-1,
    mu     <- mu + r Lambda^-1 E_q[h'],

by the theorems of Bonnet and Price. Nothing is ever divided by the prediction's covariance, which
may be singular (docs/theory/natural.md).
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from rmcvi.core.gaussian import bounded, symmetric

REACH = 3.0
"""A step of the mean is no longer than this many standard deviations of the prediction."""
NOTHING = 10.0
"""Times q that the target is where q has as good as nothing: few particles tell that safely."""
SLACK = 1e-4
"""Of the objective, in nats: what rounding may seem to lose."""
OUTSIDE = 10.0
"""Nats by which particles at which h is no number count as worse than the worst of the others."""


class Fit(eqx.Module):
    """q, its particles, and h at them."""

    mean: Float[Array, "dx"]
    factor: Float[Array, "dx dx"]
    """Lower triangular, Lambda = factor factor'."""
    noise: Float[Array, "n dx"]
    z: Float[Array, "n dx"]
    values: Float[Array, "n"]
    slopes: Float[Array, "n dx"]

    @property
    def objective(self) -> Float[Array, ""]:
        """E_q[h - log q], up to a constant."""
        return jnp.mean(self.values) - self.volume

    @property
    def volume(self) -> Float[Array, ""]:
        """Log of q over N(0, I), both at their means."""
        return jnp.sum(jnp.log(jnp.diagonal(self.factor)))

    @property
    def spread(self) -> Float[Array, "dx dx"]:
        """B."""
        eye = jnp.eye(self.mean.size, dtype=self.mean.dtype)
        return solve_triangular(self.factor, eye, lower=True, trans="T")

    @property
    def elbo(self) -> Float[Array, ""]:
        """E_q[h - log q]."""
        return self.objective + 0.5 * self.mean.size

    @property
    def unexplained(self) -> Float[Array, "n"]:
        """Log of target over q at the particles, up to a constant."""
        return self.values + 0.5 * jnp.sum(self.noise**2, 1)

    @property
    def ess(self) -> Float[Array, ""]:
        """Effective number of particles in importance weights: all if the target is Gaussian."""
        return 1.0 / jnp.sum(jax.nn.softmax(self.unexplained) ** 2)

    def departures(
        self, log_g: Float[Array, "n"], beyond: float = 1.0
    ) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
        """|p / q - 1| at q's particles; p - q over the prior, where p > `beyond` q, at the prior's.

        p is the target, with q's own estimate of its mass; `log_g` is h - log N(z; 0, I) at the
        noise, which are particles of the prior: they find what q may have missed.
        """
        volume = self.volume
        u, most = self.unexplained - volume, jnp.log(float(len(log_g)))
        mass = jax.nn.logsumexp(u) - most
        away = (self.noise - self.mean[None]) @ self.factor
        log_q = volume + 0.5 * jnp.sum(self.noise**2 - away**2, 1)
        p, q = (jnp.exp(jnp.minimum(v, most)) for v in (log_g - mass, log_q))
        return jnp.abs(jnp.exp(u - mass) - 1.0), jnp.where(p > beyond * q, p - q, 0.0)

    def left_out(self, log_g: Float[Array, "n"]) -> Float[Array, ""]:
        """Distance of p and q in total variation, in [0, 1]: around q, or where q has nothing."""
        ratio, missed = self.departures(log_g, NOTHING)
        return jnp.minimum(jnp.maximum(0.5 * jnp.mean(ratio), jnp.mean(missed)), 1.0)

    def curvature(self, slopes: Float[Array, "n dx"]) -> Float[Array, "dx dx"]:
        """-E_q of the second derivatives of what has these slopes at the particles."""
        return -symmetric(slopes.T @ self.noise @ self.factor.T / len(slopes))


Target = Callable[[Float[Array, "dx"]], Float[Array, ""]]


def ascend(target: Target, noise: Float[Array, "n dx"], num_steps: int, rate: float) -> Fit:
    """The fit after `num_steps` steps from the prior; one that loses is taken back and halved."""

    def evaluate(mean, factor):
        z = mean[None] + solve_triangular(factor, noise.T, lower=True, trans="T").T
        return Fit(mean, factor, noise, z, *inside(*jax.vmap(jax.value_and_grad(target))(z)))

    def step(_, now):
        fit, rate = now
        precision = fit.factor @ fit.factor.T
        moved = (1.0 - rate) * precision + rate * bounded(fit.curvature(fit.slopes))
        factor = jnp.linalg.cholesky(moved)
        move = rate * cho_solve((factor, True), jnp.mean(fit.slopes, 0))
        move = move * REACH / jnp.maximum(jnp.sqrt(move @ move), REACH)
        new = evaluate(fit.mean + move, factor)
        better = new.objective >= fit.objective - SLACK
        fit = jax.tree.map(lambda a, b: jnp.where(better, a, b), new, fit)
        return fit, jnp.where(better, rate, 0.5 * rate)

    dim = noise.shape[1]
    start = evaluate(jnp.zeros(dim, noise.dtype), jnp.eye(dim, dtype=noise.dtype))
    return jax.lax.fori_loop(0, num_steps, step, (start, jnp.asarray(rate, noise.dtype)))[0]


def inside(
    values: Float[Array, "n"], slopes: Float[Array, "n dx"]
) -> tuple[Float[Array, "n"], Float[Array, "n dx"]]:
    """Values and slopes that are numbers also beyond the model's support, or its arithmetic."""
    known = jnp.isfinite(values) & jnp.all(jnp.isfinite(slopes), 1)
    worst = jnp.where(jnp.any(known), jnp.min(jnp.where(known, values, jnp.inf)), -jnp.inf)
    return jnp.where(known, values, worst - OUTSIDE), jnp.where(known[:, None], slopes, 0.0)
