"""Laws of one value given its predictor eta: counts by their log-mean, shares by their logit.

    count ~ Poisson(mean),    count ~ NegativeBinomial(mean, variance mean + mean^2 / size),
    mean = exp eta;    logit(share) = eta + width * logistic noise, seen to within half a cell.

All three are probabilities, never densities: a share is known to within its cell, and whatever
lies beyond the last cell at either end belongs to it.
"""

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.core.checks import check_real
from rmcvi.core.positive import positive, unconstrained
from rmcvi.models.zoo.counts import (
    MOST,
    bounded_mean,
    negative_binomial_log_prob,
    negative_binomial_sample,
    poisson_log_prob,
    poisson_sample,
)

STEPS = 160
"""Steps of a ladder: 1 for counts up to about a hundred, a hundredth of the width for shares."""
FAR = 10.0
"""Standard deviations that a ladder of counts spans on both sides, and counts besides."""
LEAST = 0.05
"""Least mean of counts that is told apart from none."""
PIECES = 16
"""Of the noise, behind the mean of a share."""
WIDEST = 20.0
"""Widths that a ladder of shares spans on both sides: 2e-9 of the law lie beyond."""


class Ladder(eqx.Module):
    """A distribution by its steps: P(Y <= value) and P(Y >= value) at values in order."""

    values: Float[Array, "n"]
    below: Float[Array, "n"]
    above: Float[Array, "n"]

    def tails(self, y: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """P(Y <= y) and P(Y >= y)."""
        return _between(y, self.values, self.below), _between(y, self.values, self.above)


class AbstractLaw(eqx.Module):
    """What a value may be, given eta; parameters of its own are learned."""

    @abc.abstractmethod
    def log_prob(self, y: Array, eta: Array, half: Array) -> Array:
        """Elementwise log-probability of the cell y +- half."""

    @abc.abstractmethod
    def mean(self, eta: Array) -> Array:
        """Elementwise mean."""

    @abc.abstractmethod
    def deviation(self, eta: Array) -> Array:
        """Elementwise standard deviation, about."""

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""], eta: Array) -> Array:
        """Elementwise draws."""

    @abc.abstractmethod
    def predictor(self, mean: Array, half: Array) -> Array:
        """The eta of a mean that somebody predicted, whatever it is."""

    @abc.abstractmethod
    def ladder(self, eta: Float[Array, "k"], weights: Float[Array, "k"]) -> Ladder:
        """Of the mixture of the laws at some eta."""

    def quantile(self, ladder: Ladder, probability: float) -> Float[Array, ""]:
        """Least value that is not exceeded with such a probability."""
        return _between(jnp.asarray(probability), ladder.below, ladder.values)

    def parameters(self) -> dict[str, Array]:
        """In their own units."""
        return {}


class AbstractCounts(AbstractLaw):
    """What laws of counts have in common: a log-mean."""

    def mean(self, eta: Array) -> Array:
        """`exp eta`."""
        return bounded_mean(eta)

    def predictor(self, mean: Array, half: Array) -> Array:
        """The logarithm, of nothing that is less than can be told from zero."""
        del half
        return jnp.log(jnp.clip(mean, LEAST, math.exp(MOST)))

    def ladder(self, eta: Float[Array, "k"], weights: Float[Array, "k"]) -> Ladder:
        """Count by count, or every so many counts if there are more than steps."""
        mean, deviation = self.mean(eta), self.deviation(eta)
        top = jnp.max(mean + FAR * deviation) + FAR
        bottom = jnp.floor(jnp.maximum(jnp.min(mean - FAR * deviation), 0.0))
        stride = jnp.ceil(jnp.maximum((top - bottom) / STEPS, 1.0))
        values = bottom + stride * jnp.arange(STEPS)
        log_prob = self.log_prob(values[:, None], eta[None], jnp.asarray(0.5))
        mass = jnp.sum(weights[None] * jnp.exp(log_prob), 1)
        mass = mass / jnp.sum(mass)
        return Ladder(values, jnp.cumsum(mass), jnp.cumsum(mass[::-1])[::-1])

    def quantile(self, ladder: Ladder, probability: float) -> Float[Array, ""]:
        """A count."""
        return jnp.ceil(super().quantile(ladder, probability) - 1e-6)


class Poisson(AbstractCounts):
    """Counts that scatter by chance alone."""

    def log_prob(self, y: Array, eta: Array, half: Array) -> Array:
        """Of the count."""
        del half
        return poisson_log_prob(y, self.mean(eta))

    def deviation(self, eta: Array) -> Array:
        """The mean's root."""
        return jnp.sqrt(self.mean(eta))

    def sample(self, key: Key[Array, ""], eta: Array) -> Array:
        """Draw counts."""
        return poisson_sample(key, self.mean(eta))


class NegativeBinomial(AbstractCounts):
    """Counts that scatter by more: those of `size` 20 and mean 20 by twice the variance."""

    raw_size: Float[Array, ""]

    def __init__(self, size: float = 20.0):
        """Set the law up: a larger `size` is nearer to Poisson."""
        self.raw_size = jnp.log(jnp.asarray(check_real("size", size, 0.0), float))

    @property
    def size(self) -> Float[Array, ""]:
        """Between 1/50, all or nothing, and 5 000, Poisson for all that data can tell."""
        return jnp.exp(jnp.clip(self.raw_size, -4.0, 8.5))

    def log_prob(self, y: Array, eta: Array, half: Array) -> Array:
        """Of the count."""
        del half
        return negative_binomial_log_prob(y, self.mean(eta), self.size)

    def deviation(self, eta: Array) -> Array:
        """The root of `mean + mean^2 / size`."""
        mean = self.mean(eta)
        return jnp.sqrt(mean + mean**2 / self.size)

    def sample(self, key: Key[Array, ""], eta: Array) -> Array:
        """Draw counts."""
        return negative_binomial_sample(key, self.mean(eta), self.size)

    def parameters(self) -> dict[str, Array]:
        """Its size."""
        return {"size": self.size}


class Share(AbstractLaw):
    """A quantity between 0 and 1 that may lie at either end."""

    raw_width: Float[Array, ""]

    def __init__(self, width: float = 0.3):
        """Set the law up: `width` is that of the noise, in logits.

        A start that is too narrow costs more than one that is too wide: bands of .1 where .3 is
        true hold 77 % of the first 500 values.
        """
        self.raw_width = unconstrained(jnp.asarray(check_real("width", width, 0.0), float))

    @property
    def width(self) -> Float[Array, ""]:
        """Positive."""
        return positive(self.raw_width)

    def log_prob(self, y: Array, eta: Array, half: Array) -> Array:
        """Of the cell: `F(b) - F(a) = (1 - e^(a - b)) F(b) F(-a)` for the logistic law F."""
        least = 1e-12
        low, high = y - half, y + half
        a = (_logit(jnp.maximum(low, least)) - eta) / self.width
        b = (_logit(jnp.minimum(high, 1.0 - least)) - eta) / self.width
        at_low, at_high = low <= 0.0, high >= 1.0
        inside = jnp.log1p(-jnp.exp(-jnp.maximum(b - a, least)))
        return (
            jnp.where(at_low | at_high, 0.0, inside)
            + jnp.where(at_high, 0.0, jax.nn.log_sigmoid(b))
            + jnp.where(at_low, 0.0, jax.nn.log_sigmoid(-a))
        )

    def mean(self, eta: Array) -> Array:
        """Over pieces of the noise that are equally likely."""
        pieces = _logit((jnp.arange(PIECES) + 0.5) / PIECES).astype(eta.dtype)
        blurred = jnp.expand_dims(eta, -1) + self.width * pieces.reshape((1,) * eta.ndim + (-1,))
        return jnp.mean(jax.nn.sigmoid(blurred), -1)

    def deviation(self, eta: Array) -> Array:
        """To first order."""
        share = jax.nn.sigmoid(eta)
        return math.pi / math.sqrt(3.0) * self.width * share * (1.0 - share) + 1e-6

    def sample(self, key: Key[Array, ""], eta: Array) -> Array:
        """Draw shares."""
        return jax.nn.sigmoid(eta + self.width * jax.random.logistic(key, eta.shape, eta.dtype))

    def predictor(self, mean: Array, half: Array) -> Array:
        """The logit, not beyond the last cell."""
        return _logit(jnp.clip(mean, half, 1.0 - half))

    def ladder(self, eta: Float[Array, "k"], weights: Float[Array, "k"]) -> Ladder:
        """At equal steps of the logit."""
        ends = jnp.min(eta) - WIDEST * self.width, jnp.max(eta) + WIDEST * self.width
        logits = jnp.linspace(*ends, STEPS)
        z = (logits[:, None] - eta[None]) / self.width
        below = jnp.sum(weights[None] * jax.nn.sigmoid(z), 1)
        above = jnp.sum(weights[None] * jax.nn.sigmoid(-z), 1)
        return Ladder(jax.nn.sigmoid(logits), below, above)

    def parameters(self) -> dict[str, Array]:
        """Its width."""
        return {"width": self.width}


def _between(x: Float[Array, ""], xs: Float[Array, "n"], ys: Float[Array, "n"]) -> Float[Array, ""]:
    """As `jnp.interp`, which looks for the place in a loop: so few are counted faster."""
    k = jnp.clip(jnp.sum(xs < x), 1, len(xs) - 1)
    share = (x - xs[k - 1]) / jnp.maximum(xs[k] - xs[k - 1], jnp.finfo(xs.dtype).tiny)
    return ys[k - 1] + jnp.clip(share, 0.0, 1.0) * (ys[k] - ys[k - 1])


def _logit(share: Array) -> Array:
    return jnp.log(share) - jnp.log1p(-share)
