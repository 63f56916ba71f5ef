"""Weighted particles, sum_i W_i delta(x_i): their resampling, and the laws that lead back.

Backward: Lambda_i(j) proportional to W_{t-1}^j m(x_{t-1}^j, x_t^i). An additive statistic moves as
tau_i = sum_j Lambda_i(j) {tau_j + h(x_j, x_i)} (Del Moral, Doucet and Singh), at a cost O(N^2), or
with M draws from Lambda_i in place of the sum (PaRIS, Olsson and Westerborn), at a cost O(N M):
j ~ W is accepted with probability m(x_j, x_i) / sup m.
"""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from rmcvi.contract import Filtered
from rmcvi.core.checks import check_int
from rmcvi.core.gaussian import whiten
from rmcvi.core.inputs import Inputs
from rmcvi.models import AbstractModel

BLOCK = 32  # rows of the exact fallback treated at once
PRICE = 20  # a try costs as much as this many weights of the fallback (measured)


class Cloud(eqx.Module):
    """Particles and the logarithms of their weights, which sum to one."""

    x: Float[Array, "n dx"]
    log_weight: Float[Array, "n"]

    @classmethod
    def empty(cls, num: int, dim: int) -> "Cloud":
        """Equal weights at the origin, to be overwritten at t = 0."""
        return cls(jnp.zeros((num, dim)), jnp.full(num, -jnp.log(float(num))))

    def moments(self) -> Filtered:
        """Weighted mean and covariance."""
        return moments(self.x, self.log_weight)

    def draw(self, key: Key[Array, ""], num: int) -> Float[Array, "{num} dx"]:
        """Draws with replacement, systematic."""
        return self.x[systematic(key, self.log_weight, num)]


def moments(x: Float[Array, "n dx"], log_weight: Float[Array, "n"]) -> Filtered:
    """Mean and covariance of weighted points."""
    w = jnp.exp(log_weight)
    mean = w @ x
    centred = x - mean[None]
    return Filtered(mean, (w[:, None] * centred).T @ centred)


def effective_size(log_weight: Float[Array, "n"]) -> Float[Array, ""]:
    """1 / sum W^2."""
    return 1.0 / jnp.sum(jnp.exp(2.0 * log_weight))


def normalised(log_weight: Float[Array, "n"]) -> tuple[Float[Array, "n"], Float[Array, ""]]:
    """Weights that sum to one, and the log of what they summed to."""
    total = jax.nn.logsumexp(log_weight)
    return log_weight - total, total


def systematic(key: Key[Array, ""], log_weight: Float[Array, "n"], num: int) -> Int[Array, "{num}"]:
    """Ascending indices, i about num W_i times: points (k + u) / num on the cumulative weights.

    Index k is the number of i with C_i below point k, counted by a histogram: O(n + num).
    """
    cumulative = jnp.cumsum(jnp.exp(log_weight))
    target = num * (cumulative / cumulative[-1]) - jax.random.uniform(key, (), log_weight.dtype)
    first_above = jnp.clip(jnp.ceil(target), 0, num).astype(jnp.int32)
    count = jnp.zeros(num + 1, jnp.int32).at[first_above].add(1, indices_are_sorted=True)
    return jnp.minimum(jnp.cumsum(count)[:num], log_weight.size - 1)


def resample(
    key: Key[Array, ""], log_weight: Float[Array, "n"], threshold: float
) -> tuple[Int[Array, "n"], Float[Array, "n"], Bool[Array, ""]]:
    """Ancestors, their weights, and whether the effective size was below `threshold` n."""
    num = log_weight.size
    poor = effective_size(log_weight) < threshold * num
    index, log_weight = jax.lax.cond(
        poor,
        lambda: (systematic(key, log_weight, num), jnp.full_like(log_weight, -jnp.log(num))),
        lambda: (jnp.arange(num, dtype=jnp.int32), log_weight),
    )
    return index, log_weight, poor


class Links(eqx.Module):
    """For each particle now, weighted particles before: those at `index`, or all if it is None."""

    weight: Float[Array, "n k"]
    index: Int[Array, "n k"] | None

    def average(self, values: PyTree) -> PyTree:
        """Row means of values (one per particle before), leaf by leaf."""
        if self.index is None:
            return jax.tree.map(lambda v: jnp.tensordot(self.weight, v, 1), values)
        at, w = self.index, self.weight
        return jax.tree.map(lambda v: jnp.einsum("ik,ik...->i...", w, v[at]), values)

    def rows(self, function: Callable, x_prev: Float[Array, "m dx"], x: Float[Array, "n dx"]):
        """function(points before (k dx), their weights (k), point now) for each row."""
        if self.index is None:
            return jax.vmap(function, (None, 0, 0))(x_prev, self.weight, x)
        return jax.vmap(function)(x_prev[self.index], self.weight, x)


class AbstractLinking(eqx.Module):
    """How backward expectations are taken."""

    @abc.abstractmethod
    def link(
        self,
        key: Key[Array, ""],
        model: AbstractModel,
        before: Cloud,
        x: Float[Array, "n dx"],
        inputs: Inputs,
    ) -> Links:
        """The particles before that each particle now averages over."""


class AllPairs(AbstractLinking):
    """All N x N weights."""

    def link(self, key, model, before, x, inputs):
        """A softmax over each row."""
        del key
        return Links(jax.nn.softmax(_logits(model, before, x, inputs), 1), None)


class Paris(AbstractLinking):
    """M draws per particle by accept-reject; what they leave is drawn from the exact law."""

    num: int = eqx.field(static=True)
    max_tries: int = eqx.field(static=True)

    def __init__(self, num: int = 2, max_tries: int = 200):
        """`num` = M draws; fewer tries than `max_tries` if too few of them are accepted."""
        self.num = check_int("num", num)
        self.max_tries = check_int("max_tries", max_tries)

    def link(self, key, model, before, x, inputs):
        """Equal weights on the drawn indices."""
        rows = jnp.repeat(x, self.num, 0, total_repeat_length=len(x) * self.num)
        index = draw_backward(key, model, before, rows, inputs, self.max_tries)
        shape = (len(x), self.num)
        return Links(jnp.full(shape, 1.0 / self.num, x.dtype), index.reshape(shape))


def draw_backward(
    key: Key[Array, ""],
    model: AbstractModel,
    before: Cloud,
    x: Float[Array, "n dx"],
    inputs: Inputs,
    max_tries: int = 200,
) -> Int[Array, "n"]:
    """One index from the backward law of each point; accept-reject where m has a known bound."""
    cumulative = jnp.cumsum(jnp.exp(before.log_weight))
    num, last = x.shape[0], len(cumulative) - 1
    gaussian = model.gaussian
    if gaussian is None:
        return _exact(
            key, model, before, x, inputs, jnp.zeros(num, jnp.int32), jnp.zeros(num, bool)
        )
    scale = gaussian.transition_scale(inputs)
    mu = whiten(scale, jax.vmap(gaussian.transition_mean, (0, None))(before.x, inputs))
    z = whiten(scale, x)

    def propose(loop):
        tries, index, done, _ = loop
        k1, k2 = jax.random.split(jax.random.fold_in(key, tries))
        target = jax.random.uniform(k1, (num,), x.dtype) * cumulative[-1]
        proposal = jnp.minimum(jnp.searchsorted(cumulative, target, side="right"), last)
        distance = jnp.sum((z - mu[proposal]) ** 2, 1)
        accept = jnp.log(jax.random.uniform(k2, (num,), x.dtype)) < -0.5 * distance
        index = jnp.where(~done & accept, proposal.astype(jnp.int32), index)
        return tries + 1, index, done | accept, jnp.sum(~done & accept)

    def worthwhile(loop):
        tries, _, done, saved = loop
        return (tries < max_tries) & ~jnp.all(done) & (saved * len(mu) > PRICE * num)

    start = (jnp.zeros((), int), jnp.zeros(num, jnp.int32), jnp.zeros(num, bool), jnp.array(num))
    _, index, done, _ = jax.lax.while_loop(worthwhile, propose, start)
    return _exact(jax.random.fold_in(key, max_tries), model, before, x, inputs, index, done)


def _exact(
    key: Key[Array, ""],
    model: AbstractModel,
    before: Cloud,
    x: Float[Array, "n dx"],
    inputs: Inputs,
    index: Int[Array, "n"],
    done: Bool[Array, "n"],
) -> Int[Array, "n"]:
    """Draw the rows that are not done by inverting their cumulative weights, block by block."""
    num = x.shape[0]
    uniform = jax.random.uniform(key, (num,), x.dtype)
    padded = jnp.concatenate([index, jnp.zeros(1, index.dtype)])

    def block(loop):
        padded, done = loop
        rows = jnp.nonzero(~done, size=BLOCK, fill_value=num)[0]
        at = jnp.minimum(rows, num - 1)
        drawn = _invert(jax.nn.softmax(_logits(model, before, x[at], inputs), 1), uniform[at])
        return padded.at[rows].set(drawn.astype(index.dtype)), done.at[rows].set(True, mode="drop")

    padded, _ = jax.lax.while_loop(lambda loop: ~jnp.all(loop[1]), block, (padded, done))
    return padded[:num]


def _invert(w: Float[Array, "b m"], share: Float[Array, "b"]) -> Int[Array, "b"]:
    """First index at which cumulative weights exceed a share of their total, in two stages."""
    rows, total = w.shape
    width = max(round(total**0.5), 1)
    parts = jnp.pad(w, ((0, 0), (0, -total % width))).reshape(rows, -1, width)
    coarse = jnp.cumsum(jnp.sum(parts, 2), 1)
    target = share * coarse[:, -1]
    part = jnp.sum(coarse <= target[:, None], 1).clip(0, parts.shape[1] - 1)
    take = jnp.arange(rows)
    fine = (
        jnp.cumsum(parts[take, part], 1)
        + (coarse[take, part] - jnp.sum(parts[take, part], 1))[:, None]
    )
    return (part * width + jnp.sum(fine <= target[:, None], 1)).clip(0, total - 1)


def _logits(
    model: AbstractModel, before: Cloud, x: Float[Array, "n dx"], inputs: Inputs
) -> Float[Array, "n m"]:
    return before.log_weight[None] + model.pairwise_log_prob(before.x, x, inputs)
