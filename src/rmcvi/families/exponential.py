"""Exponential families in natural form: q(x) = exp(<eta, T(x)> - A(eta)).

A new family needs the sufficient statistic T, the log-normaliser A, the entropy and a sampler;
the recursion asks for nothing else. Natural parameters and statistics are pytrees of one structure.
"""

import abc
from collections.abc import Sequence
from typing import Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float, Key

from rmcvi.core import tree
from rmcvi.core.gaussian import LOG_2PI, inverse_spd, matched_normal, symmetric, whiten

Eta = TypeVar("Eta")


class AbstractExponentialFamily(eqx.Module, Generic[Eta]):
    """A parametric set of densities on R^dx that multiplies by adding natural parameters."""

    @abc.abstractmethod
    def statistic(self, x: Float[Array, "dx"]) -> Eta:
        """T(x)."""

    @abc.abstractmethod
    def log_normaliser(self, eta: Eta) -> Float[Array, ""]:
        """A(eta)."""

    @abc.abstractmethod
    def entropy(self, eta: Eta) -> Float[Array, ""]:
        """-E log q, in closed form."""

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""], eta: Eta, num: int) -> Float[Array, "{num} dx"]:
        """`num` independent draws."""

    def matched(self, key: Key[Array, ""], eta: Eta, num: int) -> Float[Array, "{num} dx"]:
        """`num` draws whose average of T is E T; independent ones unless a family knows better."""
        return self.sample(key, eta, num)

    def mean(self, eta: Eta) -> Float[Array, "dx"]:
        """E x; from a fixed sample unless a family knows better."""
        return jnp.mean(self.sample(jax.random.key(0), eta, 1000), 0)

    def covariance(self, eta: Eta) -> Float[Array, "dx dx"]:
        """Cov x; from a fixed sample unless a family knows better."""
        return jnp.atleast_2d(jnp.cov(self.sample(jax.random.key(0), eta, 1000).T))

    def relative(self, eta: Eta, origin: Float[Array, "dx"]) -> Eta:
        """Natural parameter of x - origin where the family is closed under translation.

        Statistics of particles near their own mean keep float32 exact; a family that cannot be
        translated leaves both alone (and then `statistic` is taken at the untranslated point).
        """
        del origin
        return eta

    def shift(self, x: Float[Array, "dx"], origin: Float[Array, "dx"]) -> Float[Array, "dx"]:
        """The point at which `statistic` is taken when parameters are `relative` to `origin`."""
        del origin
        return x

    def log_supremum(self, eta: Eta) -> Float[Array, ""]:
        """Supremum over x of <eta, T(x)>, infinity where unbounded or unknown (accept-reject)."""
        del eta
        return jnp.asarray(jnp.inf)

    def expectation(self, eta: Eta) -> Eta:
        """E T = grad A."""
        return jax.grad(self.log_normaliser)(eta)

    def response(self, eta: Eta, direction: Eta) -> Eta:
        """Cov(T, <direction, T>): the derivative of E T."""
        return jax.jvp(self.expectation, (eta,), (direction,))[1]

    def moments(self, eta: Eta) -> tuple[Sequence[int], ...]:
        """Sets of coordinates of T, ravelled, none of them repeated, the richest first.

        Weights are calibrated by as many of them as the particles can bear; `eta` tells the shape.
        """
        return (range(tree.ravel(eta).size),)

    def log_prob(self, eta: Eta, x: Float[Array, "dx"]) -> Float[Array, ""]:
        """`log q(x)`."""
        return tree.vdot(eta, self.statistic(x)) - self.log_normaliser(eta)


class Natural(eqx.Module):
    """Gaussian natural parameter: precision times mean, and precision (a vector if diagonal)."""

    linear: Float[Array, "*batch dx"]
    precision: Float[Array, "*batch dx"] | Float[Array, "*batch dx dx"]


class DiagonalGaussian(AbstractExponentialFamily[Natural]):
    """Independent coordinates: T(x) = (x, -x^2 / 2), eta = (precision * mean, precision)."""

    def statistic(self, x):
        """T(x) = (x, -x^2 / 2)."""
        return Natural(x, -0.5 * x**2)

    def log_normaliser(self, eta):
        """A(eta) = sum (linear^2 / precision - log precision + log 2 pi) / 2."""
        return 0.5 * jnp.sum(eta.linear**2 / eta.precision - jnp.log(eta.precision) + LOG_2PI)

    def entropy(self, eta):
        """`sum (1 + log 2 pi - log precision) / 2`."""
        return 0.5 * jnp.sum(1.0 + LOG_2PI - jnp.log(eta.precision))

    def sample(self, key, eta, num):
        """`mean + noise / sqrt(precision)`."""
        noise = jax.random.normal(key, (num, eta.linear.size), eta.linear.dtype)
        return self.mean(eta)[None] + noise * jax.lax.rsqrt(eta.precision)[None]

    def matched(self, key, eta, num):
        """The same, with noise whose means are 0 and variances 1 in the sample as well."""
        noise = matched_normal(key, num, eta.linear.size)
        return self.mean(eta)[None] + noise * jax.lax.rsqrt(eta.precision)[None]

    def mean(self, eta):
        """`linear / precision`."""
        return eta.linear / eta.precision

    def covariance(self, eta):
        """`diag(1 / precision)`."""
        return jnp.diag(1.0 / eta.precision)

    def moments(self, eta):
        """All of them."""
        return (range(2 * eta.linear.size),)

    def relative(self, eta, origin):
        """(linear - precision * origin, precision)."""
        return Natural(eta.linear - eta.precision * origin, eta.precision)

    def shift(self, x, origin):
        """`x - origin`."""
        return x - origin

    def log_supremum(self, eta):
        """`sum linear^2 / precision / 2` where all precisions are positive."""
        safe = jnp.where(eta.precision > 0.0, eta.precision, 1.0)
        return jnp.where(jnp.all(eta.precision > 0.0), 0.5 * jnp.sum(eta.linear**2 / safe), jnp.inf)

    def from_moments(self, mean: Float[Array, "dx"], precision: Float[Array, "dx dx"]) -> Natural:
        """The member with this mean that is closest to N(mean, precision^-1) in KL(q | .)."""
        diagonal = jnp.diagonal(precision)
        return Natural(diagonal * mean, diagonal)


class FullGaussian(AbstractExponentialFamily[Natural]):
    """Any covariance: T(x) = (x, -x x' / 2), eta = (precision @ mean, precision)."""

    def statistic(self, x):
        """T(x) = (x, -x x' / 2)."""
        return Natural(x, -0.5 * jnp.outer(x, x))

    def log_normaliser(self, eta):
        """A(eta) = (linear' precision^-1 linear - log det precision + dx log 2 pi) / 2."""
        chol = jnp.linalg.cholesky(eta.precision)
        white = solve_triangular(chol, eta.linear, lower=True)
        return 0.5 * (white @ white + eta.linear.size * LOG_2PI) - _half_log_det(chol)

    def entropy(self, eta):
        """(dx (1 + log 2 pi) - log det precision) / 2."""
        chol = jnp.linalg.cholesky(eta.precision)
        return 0.5 * eta.linear.size * (1.0 + LOG_2PI) - _half_log_det(chol)

    def sample(self, key, eta, num):
        """`mean + L'^-1 noise`, with precision = L L'."""
        return self._moved(eta, jax.random.normal(key, (num, eta.linear.size), eta.linear.dtype))

    def matched(self, key, eta, num):
        """The same, with noise whose covariance is I in the sample as well, if `num` allows it."""
        dim = eta.linear.size
        noise = matched_normal(key, num, dim)
        if num >= 2 * (dim + 1):
            noise = whiten(jnp.linalg.cholesky(noise.T @ noise / num), noise)
        return self._moved(eta, noise)

    def _moved(self, eta: Natural, noise: Float[Array, "n dx"]) -> Float[Array, "n dx"]:
        chol = jnp.linalg.cholesky(eta.precision)
        deviation = solve_triangular(chol, noise.T, lower=True, trans="T").T
        return cho_solve((chol, True), eta.linear)[None] + deviation

    def mean(self, eta):
        """`precision^-1 linear`."""
        return cho_solve((jnp.linalg.cholesky(eta.precision), True), eta.linear)

    def covariance(self, eta):
        """`precision^-1`."""
        chol = jnp.linalg.cholesky(eta.precision)
        return cho_solve((chol, True), jnp.eye(eta.linear.size, dtype=eta.linear.dtype))

    def expectation(self, eta):
        """(m, -(m m' + C) / 2)."""
        covariance = inverse_spd(eta.precision)
        mean = covariance @ eta.linear
        return Natural(mean, -0.5 * (jnp.outer(mean, mean) + covariance))

    def response(self, eta, direction):
        """Dm = C (b - B m), dC = -C B C."""
        covariance, slope = inverse_spd(eta.precision), symmetric(direction.precision)
        mean = covariance @ eta.linear
        moved = covariance @ (direction.linear - slope @ mean)
        both = jnp.outer(moved, mean)
        return Natural(moved, -0.5 * (both + both.T - covariance @ slope @ covariance))

    def moments(self, eta):
        """Means with all products, or with squares alone."""
        dim = eta.linear.size
        squares = [dim + k * (dim + 1) for k in range(dim)]
        products = [dim + j * dim + k for j in range(dim) for k in range(j, dim)]
        return [*range(dim), *products], [*range(dim), *squares]

    def relative(self, eta, origin):
        """(linear - precision @ origin, precision)."""
        return Natural(eta.linear - eta.precision @ origin, eta.precision)

    def shift(self, x, origin):
        """`x - origin`."""
        return x - origin

    def log_supremum(self, eta):
        """`linear' precision^-1 linear / 2` where the precision is positive definite."""
        chol = jnp.linalg.cholesky(eta.precision)
        white = solve_triangular(chol, eta.linear, lower=True)
        bound = 0.5 * white @ white
        return jnp.where(jnp.isfinite(bound), bound, jnp.inf)

    def from_moments(self, mean: Float[Array, "dx"], precision: Float[Array, "dx dx"]) -> Natural:
        """N(mean, precision^-1)."""
        return Natural(precision @ mean, precision)


def _half_log_det(chol: Float[Array, "dx dx"]) -> Float[Array, ""]:
    return jnp.sum(jnp.log(jnp.diagonal(chol)))
