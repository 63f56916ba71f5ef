"""Backward expectations over particles: E[f(X_{t-1}) | x_t = x_i] ~ sum_j w_ij f_j.

w_ij is proportional to exp<e_i, T(x_j)> with e_i = eta~(x_i) + eta_{t-1} - eta_{t-1}^{proposal}
(errata A5). Two representations share one interface, so that every statistic uses the same choice
(errata A10): all N x N weights, or M indices per particle.
"""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
from rmcvi.models import AbstractModel

DOMINANCE = 0.2
"""Floor of 1 - sum w^2: one weight may not inflate its correction more than fivefold."""


class AbstractWeights(eqx.Module):
    """A row-stochastic matrix: rows are particles now, columns particles before."""

    @abc.abstractmethod
    def pairs(self, function: Callable, x_prev: PyTree, x: PyTree) -> PyTree:
        """function(x_prev[j], x[i]) at the pairs that carry weight."""

    @abc.abstractmethod
    def transition(
        self,
        model: AbstractModel,
        x_prev: Float[Array, "n dx"],
        x: Float[Array, "n dx"],
        inputs: Inputs,
    ) -> Float[Array, "n m"]:
        """`log m` at those pairs."""

    @abc.abstractmethod
    def gather(self, v: Float[Array, "n"]) -> Float[Array, "..."]:
        """v[j] at those pairs (broadcastable)."""

    @abc.abstractmethod
    def expect(self, f: Float[Array, "n m ..."]) -> Float[Array, "n ..."]:
        """Row means of values at the pairs."""

    @abc.abstractmethod
    def pairs_average(self, f: Float[Array, "n m"], v: PyTree) -> PyTree:
        """Row means of f_ij v[j], leaf by leaf."""

    @abc.abstractmethod
    def average(self, v: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """Row means of v[j]."""

    @abc.abstractmethod
    def push(self, v: Float[Array, "k n"]) -> Float[Array, "k m"]:
        """The adjoint of `average`: v W, for some row vectors v."""

    def mean_transition(
        self,
        model: AbstractModel,
        x_prev: Float[Array, "n dx"],
        x: Float[Array, "n dx"],
        inputs: Inputs,
    ) -> Float[Array, "n"]:
        """Row means of `log m`."""
        return self.expect(self.transition(model, x_prev, x, inputs))

    @abc.abstractmethod
    def rows(self) -> "AbstractWeights":
        """The same weights with a leading axis of one-row matrices, to vectorise over."""

    @abc.abstractmethod
    def log_density(self) -> Float[Array, "n m"]:
        """Log of N w: density of the weighted particles relative to the unweighted ones."""

    @abc.abstractmethod
    def correction(self) -> Float[Array, "n"]:
        """Factor that makes an in-sample centred covariance unbiased (errata A3)."""

    @abc.abstractmethod
    def ess(self) -> Float[Array, ""]:
        """Effective number of columns per row."""

    def contraction(self) -> Float[Array, ""]:
        """Mean distance in total variation of neighbouring rows; NaN if weights are not there."""
        return jnp.asarray(jnp.nan)

    def calibrated(self) -> Float[Array, ""]:
        """Share of the kernels' moments that rows reproduce; NaN if that was not asked for."""
        return jnp.asarray(jnp.nan)


class DenseWeights(AbstractWeights):
    """All weights."""

    w: Float[Array, "*batch n m"]
    share: Float[Array, "*batch"] | None = None
    """Share of the kernels' moments that rows reproduce, if they were calibrated."""

    def pairs(self, function, x_prev, x):
        """All pairs."""
        return jax.vmap(lambda x_i: jax.vmap(lambda x_j: function(x_j, x_i))(x_prev))(x)

    def transition(self, model, x_prev, x, inputs):
        """The model's pairwise path."""
        return model.pairwise_log_prob(x_prev, x, inputs)

    def gather(self, v):
        """One row for all."""
        return v[None]

    def expect(self, f):
        """sum_j w_ij f_ij."""
        if f.ndim == 2:
            return jnp.sum(self.w * f, 1)
        return jnp.einsum("ij,ij...->i...", self.w, f)

    def pairs_average(self, f, v):
        """(W * f) v."""
        return tree.unravel((self.w * f) @ tree.ravel(v, 1), v, 1)

    def average(self, v):
        """W v."""
        return jnp.tensordot(self.w, v, 1)

    def push(self, v):
        """Row vectors times W."""
        return v @ self.w

    def log_density(self):
        """`log N w_ij`, floored where a weight underflows."""
        tiny = jnp.finfo(self.w.dtype).tiny
        return jnp.log(jnp.maximum(self.w, tiny) * self.w.shape[1])

    def rows(self):
        """(n, 1, m)."""
        return DenseWeights(self.w[:, None])

    def correction(self):
        """1 / (1 - sum_j w_ij^2), capped when one weight dominates."""
        return 1.0 / jnp.maximum(1.0 - jnp.sum(self.w**2, 1), DOMINANCE)

    def ess(self):
        """Mean over rows of 1 / sum_j w_ij^2."""
        return jnp.mean(1.0 / jnp.sum(self.w**2, 1))

    def contraction(self):
        """Half the mean absolute difference."""
        return jnp.mean(0.5 * jnp.sum(jnp.abs(self.w - jnp.roll(self.w, 1, 0)), 1))

    def calibrated(self):
        """As it was found when the weights were made."""
        return super().calibrated() if self.share is None else self.share


class SampledWeights(AbstractWeights):
    """M indices per row, each with weight 1 / M."""

    index: Int[Array, "*batch n m"]
    inflation: Float[Array, "*batch n"]
    """The full weights' own correction, 1 where they were not computed."""
    ess_estimate: Float[Array, "*batch"]

    def pairs(self, function, x_prev, x):
        """The drawn pairs."""
        drawn = jax.tree.map(lambda v: v[self.index], x_prev)
        return jax.vmap(lambda before, x_i: jax.vmap(lambda x_j: function(x_j, x_i))(before))(
            drawn, x
        )

    def transition(self, model, x_prev, x, inputs):
        """`log m`, point by point."""
        return self.pairs(lambda a, b: model.transition_log_prob(a, b, inputs), x_prev, x)

    def gather(self, v):
        """`v` at the drawn indices."""
        return v[self.index]

    def expect(self, f):
        """Mean over the draws."""
        return jnp.mean(f, 1)

    def pairs_average(self, f, v):
        """Mean over the draws of f v."""
        num = self.index.shape[1]
        return jax.tree.map(lambda leaf: jnp.einsum("im,im...->i...", f, leaf[self.index]) / num, v)

    def average(self, v):
        """Mean of v over the draws."""
        return jnp.mean(v[self.index], 1)

    def push(self, v):
        """Add each row's share to its columns."""
        share = jnp.broadcast_to(v[..., None] / self.index.shape[1], (len(v), *self.index.shape))
        return jnp.zeros_like(v).at[:, self.index].add(share)

    def log_density(self):
        """Unknown: draws do not tell their probabilities."""
        raise NotImplementedError("entropy='empirical' needs FullWeights")

    def rows(self):
        """(n, 1, M)."""
        ess = jnp.broadcast_to(self.ess_estimate, self.index.shape[:1])
        return SampledWeights(self.index[:, None], self.inflation[:, None], ess)

    def correction(self):
        """M / (M - 1), times the correction of the weights drawn from."""
        num = self.index.shape[1]
        return self.inflation * (num / max(num - 1, 1))

    def ess(self):
        """As estimated when the indices were drawn."""
        return self.ess_estimate
