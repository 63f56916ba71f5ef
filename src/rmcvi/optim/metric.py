"""The metric of Fisher steps: the information in one row, and how long a step shall be.

The equations are those of `fisher.py`. Far from the optimum gradients agree with each other, which
a test on their running sum finds out: as long as they do, n stands still and a gain grows.
"""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Bool, Float, Int

MEMORY = 0.7
"""Power of w_n: J forgets the way to the optimum, and its error still vanishes."""
WARM_UP = 20
"""Rows before a parameter moves: a metric from fewer may be off tenfold."""
LIMIT = 10.0
"""Longest gradient in its own metric, per root of the number of parameters: scores of variances
have heavy tails, and a shorter limit would bias what they estimate."""
SETTLING = 100
"""Rows in which J changes fast, so that its inverse is always fresh."""
RECENT = 0.02
"""Weight of the last gradient in the test of agreement: some tens of rows decide."""
DOUBT = 2.0
"""Minus the log of the test's error in the first rows (14 %); later it falls like 1 / n^2,
so that false alarms come to an end."""
GROWTH = 0.2
"""Of the log gain, in one row: tenfold in 12 rows, and back as soon."""
TINY = 1e-30
"""Instead of a division by zero."""
STRIDE = 0.02
"""Longest step with a gain, in standard deviations of the prior: a brisk rate for Adam."""
LEAP = 0.2
"""Longest step of all: off a plateau the information of earlier rows is far too small."""
WIDEST = 100.0
"""Of a prior, where steps are limited by it, in units of the parameters: with none, a gain that has
overshot once may run away (of 200 streams 5 did at 1e6, of 400 none at 100)."""


class FisherBlock(eqx.Module):
    """Some of the parameters, in b independent groups of m."""

    information: Float[Array, "*b m m"]
    """J."""
    inverse: Float[Array, "*b m m"]
    """Inverse of J + prior as a correlation matrix, shrunk."""
    rows: Int[Array, "*b m"]
    """n."""
    prior: Float[Array, "*b m"]
    """Prior precision."""
    start: Float[Array, "*b m"]
    """Its mean: where the parameters were."""
    path: Float[Array, "*b m"]
    """Running sum of gradients over their scale, of variance one if they are independent."""


class FisherState(eqx.Module):
    """What is known of the information."""

    count: Int[Array, ""]
    gain: Float[Array, ""]
    """Log of what lengthens the steps far from the optimum."""
    spread: Float[Array, ""]
    """Mean square of recent gradients in the metric, per parameter: 1 when J is right."""
    blocks: tuple[FisherBlock, ...]


class Measured(eqx.Module):
    """A gradient in the metric of its group."""

    unit: Float[Array, "*b m"]
    """Its entries over their scale."""
    step: Float[Array, "*b m"]
    squared: Float[Array, "*b"]
    """Its squared length."""
    path: Float[Array, "*b"]
    """That of the running sum."""
    stride: Float[Array, "*b"]
    """Longest step of a parameter, in standard deviations of the prior."""


class Length(eqx.Module):
    """What is done to the length of a step."""

    cut: Float[Array, ""]
    """Factor that keeps it within the trust region."""
    agree: Bool[Array, ""]
    """Whether recent gradients point the same way."""
    spread: Float[Array, ""]
    log_gain: Float[Array, ""]
    gain: Float[Array, ""]
    """Factor far from the optimum; below 1 for a leap."""


class Metric(eqx.Module):
    """How one group of parameters is measured; each method takes one group."""

    power: float
    delay: float
    floor: float
    region: float = 1.0
    """Standard deviations of the prior that count as one in the longest steps."""

    def weight(self, rows: Int[Array, "m"], dtype: jnp.dtype) -> Float[Array, "m"]:
        """w_n."""
        return jnp.maximum((rows + 1.0) ** -MEMORY, self.floor).astype(dtype)

    def pace(self, rows: Int[Array, "*m"] | Float[Array, "*m"]) -> Float[Array, "*m"]:
        """a_n."""
        return jnp.maximum((rows + self.delay) ** -self.power, self.floor)

    def fading(self, block: FisherBlock) -> Float[Array, "m"]:
        """What one row counts of the prior."""
        return block.prior / jnp.maximum(block.rows, 1).astype(block.prior.dtype)

    def scale(self, block: FisherBlock) -> Float[Array, "m"]:
        """Root of the information in one row, prior included."""
        return jnp.sqrt(jnp.diagonal(block.information) + self.fading(block))

    def fresh(self, block: FisherBlock, free: Bool[Array, "m"]) -> Float[Array, "m m"]:
        """Inverse of the correlation matrix of the free parameters.

        From few rows it is shrunk to the identity, by about the number of parameters over rows.
        """
        dtype, size = block.information.dtype, free.size
        noise = size * self.weight(block.rows, dtype)
        shrink = jnp.maximum(noise / (1.0 + noise), jnp.sqrt(jnp.finfo(dtype).eps))
        unit = jnp.sqrt(jnp.where(free, 1.0 - shrink, 0.0)) / self.scale(block)
        eye = jnp.eye(size, dtype=dtype)
        correlation = jnp.where(eye > 0.0, eye, jnp.outer(unit, unit) * block.information)
        return cho_solve((jnp.linalg.cholesky(correlation), True), eye)

    def measured(
        self,
        block: FisherBlock,
        g: Float[Array, "m"],
        pull: Float[Array, "m"],
        free: Bool[Array, "m"],
    ) -> Measured:
        """Step and lengths; what has no scale yet has no length, and the prior's pull none."""
        scale = self.scale(block)
        unit = jnp.where(block.rows > 0, g / scale, 0.0)
        side = jnp.where(free, jnp.sqrt(self.pace(block.rows)), 0.0).astype(g.dtype)
        back = pull * self.fading(block) / scale**3
        step = side * _times(block.inverse, side * (unit + back)) / scale
        stride = jnp.max(jnp.abs(step) * jnp.sqrt(block.prior))
        squared, path = (
            jnp.maximum(jnp.sum(v * _times(block.inverse, v)), 0.0) for v in (unit, block.path)
        )
        return Measured(unit, step, squared, path, stride)

    def length(self, state: FisherState, views: Sequence[Measured]) -> "Length":
        """How long the step shall be, from all groups."""
        number = _sum([b.rows > 0 for b in state.blocks])
        n = _largest([b.rows for b in state.blocks])
        squared = _sum([v.squared for v in views])
        cut = jnp.minimum(1.0, LIMIT * jnp.sqrt(number / jnp.maximum(squared, TINY)))
        cut = jnp.where(number > 0.0, cut, 1.0)
        recent = cut**2 * squared / jnp.maximum(number, 1.0)
        spread = jnp.where(number > 0.0, state.spread + RECENT * (recent - state.spread), 1.0)
        sure = DOUBT + 2.0 * jnp.log1p(n / SETTLING)
        bound = number + 2.0 * jnp.sqrt(number * sure) + 2.0 * sure  # Laurent and Massart's
        agree = _sum([v.path for v in views]) > state.spread * bound
        log_gain = jnp.maximum(state.gain + jnp.where(agree, GROWTH, -GROWTH), 0.0)
        reach = self.region * STRIDE * self.pace(n) / self.pace(jnp.zeros_like(n))
        stride = jnp.maximum(cut * _largest([v.stride for v in views]), TINY)
        gain = jnp.clip(reach / stride, 1.0, jnp.exp(log_gain))
        gain = jnp.minimum(gain, self.region * LEAP / stride)
        return Length(cut, agree, spread, log_gain, gain)

    def learn(
        self,
        block: FisherBlock,
        g: Float[Array, "m"],
        unit: Float[Array, "m"],
        agree: Bool[Array, ""],
    ) -> FisherBlock:
        """Take g into the information; roots of the weights keep J positive semi-definite."""
        weight = self.weight(block.rows, g.dtype)
        old, new = jnp.sqrt(1.0 - weight), jnp.sqrt(weight) * g
        information = jnp.outer(old, old) * block.information + jnp.outer(new, new)
        waiting = agree & (block.rows >= WARM_UP)
        rows = block.rows + (((block.rows > 0) | (g != 0.0)) & ~waiting)
        path = (1.0 - RECENT) * block.path + (RECENT * (2.0 - RECENT)) ** 0.5 * unit
        return FisherBlock(information, block.inverse, rows, block.prior, block.start, path)


def _times(matrix: Float[Array, "m m"], vector: Float[Array, "m"]) -> Float[Array, "m"]:
    """Their product as a sum, which XLA fuses; a batch of matrix products wakes its threads."""
    return jnp.sum(matrix * vector[None], 1)


def _sum(parts: Sequence[Array]) -> Float[Array, ""]:
    return sum((jnp.sum(v).astype(float) for v in parts), jnp.zeros(()))


def _largest(parts: Sequence[Array]) -> Float[Array, ""]:
    return jnp.stack([jnp.zeros(()), *(jnp.max(v, initial=0).astype(float) for v in parts)]).max()
