"""How backward weights are made: all of them, calibrated or not, or M draws from them.

e_i = eta~(x_i) + eta_{t-1} - eta_{t-1}^{proposal} (errata A5) tilts the particles before towards
x_i; every choice turns tilts into `AbstractWeights`.
"""

import abc
import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from rmcvi.core import tree
from rmcvi.core.checks import check_int
from rmcvi.families import AbstractExponentialFamily
from rmcvi.recursion.blocked import BlockedWeights, in_blocks
from rmcvi.recursion.calibration import Calibration
from rmcvi.recursion.weights import AbstractWeights, DenseWeights, SampledWeights


class Tilts(eqx.Module):
    """What decides the weights: e_i and T(x_j), and the function that pairs them."""

    tilt: Callable[[Array], PyTree]
    x: Float[Array, "n dx"]
    statistics: PyTree
    kernel: Callable[[Array], PyTree]
    """Natural parameter of q_{t-1|t}(x, .)."""

    def logits(self) -> Float[Array, "n m"]:
        """<e_i, T(x_j)> for all pairs: one matrix product."""
        tilts = jax.vmap(self.tilt)(self.x)
        return tree.ravel(tilts, 1) @ tree.ravel(self.statistics, 1).T


class AbstractBackward(eqx.Module):
    """How backward expectations are taken."""

    @property
    def every_weight(self) -> bool:
        """Whether all weights are there as the kernels give them, with density and derivative."""
        return False

    @property
    def rows_at_once(self) -> int | None:
        """Rows of weights that are held at a time; None: all of them."""
        return None

    @property
    def draws(self) -> int | None:
        """Indices drawn for each particle; None: weights are used as they are."""
        return None

    @abc.abstractmethod
    def weigh(
        self, key: Key[Array, ""], distribution: AbstractExponentialFamily, tilts: Tilts
    ) -> AbstractWeights:
        """Weights of the previous particles for each particle now."""

    def draw(
        self, key: Key[Array, ""], distribution: AbstractExponentialFamily, eta: PyTree, num: int
    ) -> Float[Array, "{num} dx"]:
        """The particles of q_t."""
        return distribution.sample(key, eta, num)

    def plain(self, tilts: Tilts, weights: AbstractWeights) -> AbstractWeights:
        """The weights without what may have been added to them: a law, fit for covariances."""
        del tilts
        return weights

    def explain(
        self,
        distribution: AbstractExponentialFamily,
        statistics: PyTree,
        eta: PyTree,
        f: Float[Array, "n m"],
    ) -> tuple[PyTree, Float[Array, "n m"]]:
        """What is known of Cov(T, f_i) under q(eta_i) from f at the particles, and the rest of f.

        `eta` has n rows, `statistics` are T at the m particles.
        """
        del distribution, statistics
        return tree.zeros(eta), f

    def compress(self, tilts: Tilts, effective: Float[Array, ""]) -> AbstractWeights:
        """All weights by what they are made of, with their effective number, if in blocks."""
        raise NotImplementedError(f"{type(self).__name__} holds all rows at once")

    @abc.abstractmethod
    def identity(self, num: int, eta: PyTree) -> AbstractWeights:
        """Each particle comes from itself; `eta` is some natural parameter."""


class FullWeights(AbstractBackward):
    """All N x N self-normalised weights: exact given the particles.

    With `block`, a divisor of N, that many rows are held at a time, and made again when they are
    needed: memory grows like N instead of N^2, for very many particles.
    """

    block: int | None = eqx.field(static=True)

    def __init__(self, block: int | None = None):
        """`block` rows at a time (default: all of them)."""
        self.block = None if block is None else check_int("block", block)

    @property
    def every_weight(self) -> bool:
        """Yes."""
        return True

    @property
    def rows_at_once(self) -> int | None:
        """A block."""
        return self.block

    def weigh(self, key, distribution, tilts):
        """A softmax over each row."""
        del key, distribution
        return DenseWeights(_softmax(tilts))

    def compress(self, tilts, effective):
        """The logs of their totals."""
        block = check_int("block", self.block)

        def log_total(x):
            return jax.nn.logsumexp(dataclasses.replace(tilts, x=x).logits(), 1)

        totals = jax.lax.map(log_total, in_blocks(tilts.x, block)).reshape(-1)
        tilt, still = jax.vmap(tilts.tilt)(tilts.x), jnp.asarray(False)
        return BlockedWeights(tilt, tilts.statistics, totals, effective, still, block)

    def identity(self, num, eta):
        """The unit matrix."""
        if self.block is not None:
            return BlockedWeights.identity(num, eta, self.block)
        return DenseWeights(jnp.eye(num))


class CalibratedWeights(AbstractBackward):
    """All weights, changed as little as makes each row reproduce the kernel's moments of T.

    Where what is averaged lies in the span of T, as in linear-Gaussian models, averages are exact.
    With fewer than 2.5 particles per moment, fewer moments are reproduced (`Info.calibrated`).
    """

    def draw(self, key, distribution, eta, num):
        """Particles whose equal weights are calibrated, too."""
        return distribution.matched(key, eta, num)

    def weigh(self, key, distribution, tilts):
        """A softmax over each row, then its correction."""
        del key
        plain, flat = _softmax(tilts), tree.ravel(tilts.statistics, 1)
        one = jax.tree.map(lambda v: v[0], tilts.statistics)
        means = jax.vmap(lambda x: tree.ravel(distribution.expectation(tilts.kernel(x))))(tilts.x)
        change, share = Calibration(flat, distribution.moments(one)).correction(plain, means)
        return DenseWeights(plain + change, share)

    def plain(self, tilts, weights):
        """The softmax."""
        del weights
        return DenseWeights(_softmax(tilts))

    def explain(self, distribution, statistics, eta, f):
        """The covariance of T with <b, T> is the derivative of its mean in the direction of b."""
        flat, one = tree.ravel(statistics, 1), jax.tree.map(lambda v: v[0], statistics)
        calibration = Calibration(flat, distribution.moments(one))
        columns = jnp.asarray(calibration.columns, int)
        found = calibration.coefficients(f.T).T
        slopes = jnp.zeros((len(f), flat.shape[1]), f.dtype).at[:, columns].set(found)

        def covariance(eta, slope):
            return distribution.response(eta, tree.unravel(slope, one))

        return jax.vmap(covariance)(eta, slopes), f - found @ flat[:, columns].T

    def identity(self, num, eta):
        """The unit matrix."""
        del eta
        return DenseWeights(jnp.eye(num), jnp.ones(()))


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
        weights = DenseWeights(_softmax(tilts))
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
            drawn = draw_rows(jax.random.fold_in(key, self.max_tries), _softmax(tilts), self.num)
            return jnp.where(done, index, drawn)

        index = jax.lax.cond(jnp.all(done), lambda: index, exact)
        return SampledWeights(index, jnp.ones(size[0]), collision_ess(index, total))

    def identity(self, num, eta):
        """Every draw of row i is i."""
        del eta
        return own_draws(num, self.num)


def _softmax(tilts: Tilts) -> Float[Array, "n m"]:
    """Self-normalised weights."""
    return jax.nn.softmax(tilts.logits(), 1)


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


def check_control(backward: AbstractBackward, control: str) -> None:
    """Refuse a control variate that one index per particle cannot have."""
    if backward.draws == 1 and control != "none":
        raise ValueError(
            "backward: got one index per particle, expected at least 2, since a single draw "
            "leaves nothing to centre by (or set control='none')"
        )


def check_block(backward: AbstractBackward, num: int, gradient: str, functional: object) -> None:
    """Refuse blocks of rows where they do not fit, or where all weights are needed at once."""
    block = backward.rows_at_once
    if block is None:
        return
    if num % block != 0:
        raise ValueError(f"block: got {block}, expected a divisor of num_particles = {num}")
    if gradient == "forward" or functional is not None:
        raise ValueError(
            f"block: got {block}, expected None with gradient='forward' or a functional, which "
            "need all weights at once"
        )
