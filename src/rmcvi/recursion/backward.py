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
from jaxtyping import Array, Float, Key, PyTree

from rmcvi.core import tree
from rmcvi.core.checks import check_int
from rmcvi.families import AbstractExponentialFamily
from rmcvi.recursion.blocked import BlockedWeights, in_blocks
from rmcvi.recursion.calibration import Calibration
from rmcvi.recursion.weights import AbstractWeights, DenseWeights


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
        return DenseWeights(softmax(tilts))

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
        plain, flat = softmax(tilts), tree.ravel(tilts.statistics, 1)
        one = jax.tree.map(lambda v: v[0], tilts.statistics)
        means = jax.vmap(lambda x: tree.ravel(distribution.expectation(tilts.kernel(x))))(tilts.x)
        change, share = Calibration(flat, distribution.moments(one)).correction(plain, means)
        return DenseWeights(plain + change, share)

    def plain(self, tilts, weights):
        """The softmax."""
        del weights
        return DenseWeights(softmax(tilts))

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


def softmax(tilts: Tilts) -> Float[Array, "n m"]:
    """Self-normalised weights."""
    return jax.nn.softmax(tilts.logits(), 1)


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
