"""Backward expectations from indices drawn: M for each particle, as in PaRIS."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from rmcvi.core import tree
from rmcvi.core.checks import check_int
from rmcvi.recursion.backward import AbstractBackward, softmax
from rmcvi.recursion.weights import DenseWeights, SampledWeights


class SampledIndices(AbstractBackward):
    """M draws per particle from the exact categorical law (PaRIS-like; the paper uses M = 2)."""

    num: int = eqx.field(static=True)

    def __init__(self, num: int = 2):
        """`num` = M."""
        self.num = check_int("num", num)

    @property
    def draws(self) -> int:
        """M."""
        return self.num

    def weigh(self, key, distribution, tilts):
        """Invert each row's cumulative sum."""
        del distribution
        weights = DenseWeights(softmax(tilts))
        index = draw_rows(key, weights.w, self.num)
        return SampledWeights(index, weights.correction(), weights.ess())

    def identity(self, num, eta):
        """Every draw of row i is i."""
        del eta
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

    @property
    def draws(self) -> int:
        """M."""
        return self.num

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
            drawn = draw_rows(jax.random.fold_in(key, self.max_tries), softmax(tilts), self.num)
            return jnp.where(done, index, drawn)

        index = jax.lax.cond(jnp.all(done), lambda: index, exact)
        return SampledWeights(index, jnp.ones(size[0]), collision_ess(index, total))

    def identity(self, num, eta):
        """Every draw of row i is i."""
        del eta
        return own_draws(num, self.num)


def own_draws(rows: int, num: int) -> SampledWeights:
    """Row i draws i, always."""
    index = jnp.broadcast_to(jnp.arange(rows, dtype=jnp.int32)[:, None], (rows, num))
    return SampledWeights(index, jnp.ones(rows), jnp.ones(()))


def draw_rows(key: Key[Array, ""], w: Float[Array, "n m"], num: int) -> Int[Array, "n {num}"]:
    """`num` independent column indices per row, with probabilities w."""
    cumulative = jnp.cumsum(w, 1)
    target = jax.random.uniform(key, (w.shape[0], num), w.dtype) * cumulative[:, -1:]
    below = cumulative[:, None] <= target[:, :, None]
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
