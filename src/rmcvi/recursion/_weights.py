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
from jaxtyping import Array, Float, Int, Key, PyTree

from rmcvi._core import tree
from rmcvi._core.checks import check_int
from rmcvi._core.inputs import Inputs
from rmcvi.families import AbstractExponentialFamily
from rmcvi.models import AbstractModel

DOMINANCE = (
    0.2  # floor of 1 - sum w^2: one weight may not inflate its correction more than fivefold
)


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
    def push(self, v: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """The adjoint of `average`: W' v."""

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


class DenseWeights(AbstractWeights):
    """All weights."""

    w: Float[Array, "*batch n m"]

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
        return jnp.einsum("ij,ij...->i...", self.w, f)

    def pairs_average(self, f, v):
        """(W * f) v."""
        weighted = self.w * f
        return jax.tree.map(lambda leaf: jnp.tensordot(weighted, leaf, 1), v)

    def average(self, v):
        """W v."""
        return jnp.tensordot(self.w, v, 1)

    def push(self, v):
        """W' v."""
        return self.w.T @ v

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
        share = jnp.broadcast_to(v[:, None] / self.index.shape[1], (*self.index.shape, v.shape[1]))
        return jnp.zeros_like(v).at[self.index].add(share)

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


class Tilts(eqx.Module):
    """What decides the weights: e_i and T(x_j), and the function that pairs them."""

    tilt: Callable[[Array], PyTree]
    x: Float[Array, "n dx"]
    statistics: PyTree

    def logits(self) -> Float[Array, "n m"]:
        """<e_i, T(x_j)> for all pairs: matrix products, by vectorising the inner product."""

        def row(x_i):
            return jax.vmap(lambda s: tree.vdot(self.tilt(x_i), s))(self.statistics)

        return jax.vmap(row)(self.x)


class AbstractBackward(eqx.Module):
    """How backward expectations are taken."""

    @abc.abstractmethod
    def weigh(
        self, key: Key[Array, ""], distribution: AbstractExponentialFamily, tilts: Tilts
    ) -> AbstractWeights:
        """Weights of the previous particles for each particle now."""

    @abc.abstractmethod
    def identity(self, num: int) -> AbstractWeights:
        """Each particle comes from itself."""


class FullWeights(AbstractBackward):
    """All N x N self-normalised weights: exact given the particles."""

    def weigh(self, key, distribution, tilts):
        """A softmax over each row."""
        del key, distribution
        return DenseWeights(jax.nn.softmax(tilts.logits(), 1))

    def identity(self, num):
        """The unit matrix."""
        return DenseWeights(jnp.eye(num))


class SampledIndices(AbstractBackward):
    """M draws per particle from the exact categorical law (PaRIS-like; the paper uses M = 2)."""

    num: int = eqx.field(static=True)

    def __init__(self, num: int = 2):
        """`num` = M."""
        self.num = check_int("num", num)

    def weigh(self, key, distribution, tilts):
        """Invert each row's cumulative sum."""
        del distribution
        weights = DenseWeights(jax.nn.softmax(tilts.logits(), 1))
        index = draw_rows(key, weights.w, self.num)
        return SampledWeights(index, weights.correction(), weights.ess())

    def identity(self, num):
        """Every draw of row i is i."""
        return own_draws(num, self.num)


class AcceptReject(AbstractBackward):
    """M draws per particle without normalising constants.

    Propose j uniformly, accept with probability exp(<e_i, T(x_j)> - sup). Where the supremum is
    infinite, or after `max_tries`, the exact categorical law is used.
    """

    num: int = eqx.field(static=True)
    max_tries: int = eqx.field(static=True)

    def __init__(self, num: int = 2, max_tries: int = 100):
        """`num` = M; `max_tries` proposals per draw before the exact fallback."""
        self.num = check_int("num", num)
        self.max_tries = check_int("max_tries", max_tries)

    def weigh(self, key, distribution, tilts):
        """Rejection rounds for all draws at once, then the fallback if any is left."""
        tilt = jax.vmap(tilts.tilt)(tilts.x)
        bound = jax.vmap(distribution.log_supremum)(tilt)
        size, total = (tilts.x.shape[0], self.num), jax.tree.leaves(tilts.statistics)[0].shape[0]

        def log_weight(index):
            drawn = jax.tree.map(lambda v: v[index], tilts.statistics)
            return jax.vmap(lambda e, s: jax.vmap(lambda one: tree.vdot(e, one))(s))(tilt, drawn)

        def propose(loop):
            tries, index, done = loop
            k1, k2 = jax.random.split(jax.random.fold_in(key, tries))
            proposal = jax.random.randint(k1, size, 0, total, jnp.int32)
            ratio = jnp.exp(log_weight(proposal) - bound[:, None])
            accept = jax.random.uniform(k2, size, ratio.dtype) < ratio
            return (
                tries + 1,
                jnp.where(done, index, jnp.where(accept, proposal, index)),
                (done | accept),
            )

        def unfinished(loop):
            tries, _, done = loop
            return (tries < self.max_tries) & ~jnp.all(done | ~jnp.isfinite(bound)[:, None])

        start = (jnp.zeros((), int), jnp.zeros(size, jnp.int32), jnp.zeros(size, bool))
        _, index, done = jax.lax.while_loop(unfinished, propose, start)

        def exact():
            rows = jax.nn.softmax(tilts.logits(), 1)
            drawn = draw_rows(jax.random.fold_in(key, self.max_tries), rows, self.num)
            return jnp.where(done, index, drawn)

        index = jax.lax.cond(jnp.all(done), lambda: index, exact)
        return SampledWeights(index, jnp.ones(size[0]), collision_ess(index, total))

    def identity(self, num):
        """Every draw of row i is i."""
        return own_draws(num, self.num)


def own_draws(rows: int, num: int) -> SampledWeights:
    """Row i draws i, always."""
    index = jnp.broadcast_to(jnp.arange(rows, dtype=jnp.int32)[:, None], (rows, num))
    return SampledWeights(index, jnp.ones(rows), jnp.ones(()))


def draw_rows(key: Key[Array, ""], w: Float[Array, "n m"], num: int) -> Int[Array, "n {num}"]:
    """`num` independent column indices per row, with probabilities w."""
    cumulative = jnp.cumsum(w, 1)
    level = jax.random.uniform(key, (w.shape[0], num), w.dtype) * cumulative[:, -1:]
    below = cumulative[:, None] <= level[:, :, None]
    return jnp.sum(below, 2, dtype=jnp.int32).clip(0, w.shape[1] - 1)


def collision_ess(index: Int[Array, "n m"], total: int) -> Float[Array, ""]:
    """1 / P(two draws agree) = 1 / E sum w^2, estimated from the draws; NaN for one draw."""
    num = index.shape[1]
    if num == 1:
        return jnp.asarray(jnp.nan)
    agree = index[:, :, None] == index[:, None, :]
    same = jnp.mean(agree, dtype=float) * num**2 - num
    rate = same / (num * (num - 1))
    return jnp.minimum(1.0 / jnp.maximum(rate, 1.0 / total), total)


def check_control(backward: AbstractBackward, control: str) -> None:
    """Refuse a control variate that one index per particle cannot have."""
    if getattr(backward, "num", 2) == 1 and control != "none":
        raise ValueError(
            "backward: got one index per particle, expected at least 2, since a single draw "
            "leaves nothing to centre by (or set control='none')"
        )
