"""Which of two predictors is better? Paired differences of their log scores, in blocks.

Differences of single rows are skewed and correlated; means over blocks of rows are neither much.
Their running mean and variance, over a bounded memory, give Student's t of the mean difference.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

LARGEST = 5.0
"""Largest difference, in nats, that one row may contribute: a single row decides nothing."""
BLOCK = 16
"""Scored rows in a block."""
FEWEST = 16
"""Blocks before anything is decided."""
MEMORY = 256.0
"""Blocks that the running mean remembers."""
SURE = 4.0
"""Standard errors: one wrong decision in 1 700 looks with 16 blocks, in 20 000 with 100."""


class PairedState(eqx.Module):
    """Sums of the present block, and moments of the blocks before."""

    total: Float[Array, ""]
    rows: Int[Array, ""]
    blocks: Float[Array, ""]
    mean: Float[Array, ""]
    variance: Float[Array, ""]

    @classmethod
    def fresh(cls) -> "PairedState":
        """Nothing seen."""
        zero = jnp.zeros(())
        return cls(zero, jnp.zeros((), int), zero, zero, zero)

    def add(self, difference: Float[Array, ""], seen: Bool[Array, ""]) -> "PairedState":
        """Take in one row's difference, if it was `seen` and is a number."""
        known = seen & jnp.isfinite(difference)
        total = self.total + jnp.where(known, jnp.clip(difference, -LARGEST, LARGEST), 0.0)
        rows = self.rows + known
        full = rows >= BLOCK
        weight = 1.0 / jnp.minimum(self.blocks + 1.0, MEMORY)
        away = total / BLOCK - self.mean
        return PairedState(
            total=jnp.where(full, 0.0, total),
            rows=jnp.where(full, 0, rows),
            blocks=self.blocks + full,
            mean=jnp.where(full, self.mean + weight * away, self.mean),
            variance=jnp.where(
                full, (1.0 - weight) * (self.variance + weight * away**2), self.variance
            ),
        )

    @property
    def error(self) -> Float[Array, ""]:
        """Standard error of the mean difference."""
        count = jnp.clip(self.blocks, 2.0, MEMORY)
        return jnp.sqrt(self.variance / (count - 1.0))

    def beyond(self, least: float) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        """Whether the first is surely worse, or surely better, by `least` nats a row."""
        ready = (self.blocks >= FEWEST) & (self.rows == 0)
        sure = jnp.abs(self.mean) > jnp.maximum(SURE * self.error, least)
        return ready & sure & (self.mean < 0.0), ready & sure & (self.mean > 0.0)
