"""All N x N weights without ever holding them: rows in blocks, made again when they are needed.

w_ij = exp(<e_i, T(x_j)> - log Z_i). A step keeps e, T and log Z, which grow like N, where dense
weights grow like N^2; each use costs one more exponential.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from rmcvi.core import tree
from rmcvi.recursion.weights import AbstractWeights


class BlockedWeights(AbstractWeights):
    """`block` rows at a time; `still` marks the unit matrix."""

    tilt: PyTree
    statistics: PyTree
    log_total: Float[Array, "*batch n"]
    effective: Float[Array, "*batch"]
    still: Bool[Array, "*batch"]
    block: int = eqx.field(static=True)

    @classmethod
    def identity(cls, num: int, eta: PyTree, block: int) -> "BlockedWeights":
        """Each particle comes from itself; `eta` tells the shape of a tilt."""
        empty = tree.zeros(eta, num)
        return cls(empty, empty, jnp.zeros(num), jnp.ones(()), jnp.asarray(True), block)

    def _over_rows(self, function: Callable[..., Any], *rows: PyTree) -> Any:
        """`function(W_b, *rows_b)` for each block of rows, stacked."""

        def one(cut):
            tilt, log_total, rows = cut
            logits = tree.ravel(tilt, 1) @ tree.ravel(self.statistics, 1).T
            return function(jnp.exp(logits - log_total[:, None]), *rows)

        return jax.lax.map(one, in_blocks((self.tilt, self.log_total, rows), self.block))

    def average(self, v):
        """W v."""
        rows = self._over_rows(lambda w: jnp.tensordot(w, v, 1))
        return jnp.where(self.still, v, rows.reshape(v.shape))

    def push(self, v):
        """Row vectors times W."""
        parts = self._over_rows(lambda w, rows: rows.T @ w, v.T)
        return jnp.where(self.still, v, jnp.sum(parts, 0))

    def mean_transition(self, model, x_prev, x, inputs):
        """`sum_j w_ij log m(x_j, x_i)`, block by block, forwards and backwards."""

        @jax.checkpoint
        def rows(w, x):
            return jnp.einsum("ij,ij->i", w, model.pairwise_log_prob(x_prev, x, inputs))

        return self._over_rows(rows, x).reshape(-1)

    def ess(self):
        """As found when the weights were made."""
        return self.effective

    def _refuse(self) -> Any:
        raise NotImplementedError(
            "block: got a number, expected None: per-particle gradients and additive functionals "
            "need all weights at once"
        )

    def pairs(self, function, x_prev, x):
        """Needs all weights at once."""
        self._refuse()

    def transition(self, model, x_prev, x, inputs):
        """Needs all weights at once."""
        return self._refuse()

    def gather(self, v):
        """Needs all weights at once."""
        return self._refuse()

    def expect(self, f):
        """Needs all weights at once."""
        return self._refuse()

    def pairs_average(self, f, v):
        """Needs all weights at once."""
        self._refuse()

    def rows(self):
        """Needs all weights at once."""
        return self._refuse()

    def log_density(self):
        """Needs all weights at once."""
        return self._refuse()

    def correction(self):
        """Needs all weights at once."""
        return self._refuse()


def in_blocks(rows: PyTree, block: int) -> PyTree:
    """Leaves (N, ...) as (N / block, block, ...)."""
    return jax.tree.map(lambda v: v.reshape(-1, block, *v.shape[1:]), rows)
