"""Steps in the metric of the observed information (docs/theory/fisher.md).

Increments g_t of the score are martingale differences at the optimum, so that the running mean J
of g g' is the information in one observation. With a prior around the start, which fades, the step
uphill at row t is

    theta += a_n (J + prior / n)^-1 (g - r (theta - start) / t),    a_n = (n + delay)^-power,
    J     += w_n (g g' - J),                                        w_n = (n + 1)^-.7,

in this order: the metric knows earlier rows only, so the step is a martingale difference, too. n
counts rows for each parameter, from its first gradient that is not zero. r is the prior's precision
times its share in the metric: it leads back to the start where the data say next to nothing, as on
the way to a persistence of 1, and nowhere else.

Far from the optimum g g' is mostly the square of its mean, and these steps are too short. There the
gradients agree with each other, which a test on their running sum finds out: as long as they do, n
stands still and a gain grows.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Bool, Float, Int, PyTree

from rmcvi.core.checks import check_int, check_real
from rmcvi.optim.schedules import robbins_monro

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


class _Metric(eqx.Module):
    """How one group of parameters is measured; each method takes one group."""

    power: float
    delay: float
    floor: float

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
        reach = STRIDE * self.pace(n) / self.pace(jnp.zeros_like(n))
        stride = jnp.maximum(cut * _largest([v.stride for v in views]), TINY)
        gain = jnp.clip(reach / stride, 1.0, jnp.exp(log_gain))
        gain = jnp.minimum(gain, LEAP / stride)
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


def fisher(
    *,
    power: float = 0.75,
    delay: float = 20.0,
    floor: float = 0.0,
    scale: float = 1.0,
    refresh: int | None = None,
    largest: int = 300,
) -> optax.GradientTransformationExtraArgs:
    """Steps of maximum likelihood, from increments of the score; there is no rate to set.

    Its path does not depend on the units of the parameters beyond the prior, nor on the scale of
    the gradients at all. Average the iterates (`average` of `OnlineEstimator`) for estimates as
    good as those of maximum likelihood. It relies on a model whose noise is learned, too: see
    docs/theory/fisher.md. Memory and, at each refresh, time grow with the size of the blocks.

    Args:
        power: decay of the steps, above 1/2 and at most 1.
        delay: rows after which the decay begins to bite.
        floor: smallest step; above 0, the learner remembers about 1 / floor rows and can follow
            parameters that drift.
        scale: standard deviation of the prior around the start, per parameter, in units of the
            root mean square of its leaf or 1, whichever is larger. It counts as one row in n.
        refresh: rows between factorisations of J (default: the size of the largest, at least 10).
        largest: parameters with a common J; with more, each leaf has its own, and a larger leaf
            one for each entry of its leading axes.
    """
    robbins_monro(1.0, power=power, delay=delay, floor=min(floor, 1.0))
    if not 0.0 <= floor < 1.0:
        raise ValueError(f"floor: got {floor}, expected a number from 0 to below 1")
    check_real("scale", scale, 0.0)
    if refresh is not None:
        check_int("refresh", refresh)
    check_int("largest", largest)
    metric = _Metric(power, delay, floor)

    def init(params: PyTree) -> Any:
        leaves = jax.tree.leaves(params)
        units = [jnp.full_like(v, scale) * jnp.maximum(1.0, _rms(v)) for v in leaves]
        pairs = zip(_grouped(units, largest), _grouped(leaves, largest), strict=True)
        blocks = tuple(_new(unit**-2, start) for unit, start in pairs)
        return FisherState(jnp.zeros((), int), jnp.zeros(()), jnp.ones(()), blocks)

    def update(
        updates: PyTree,
        state: Any,
        params: PyTree | None = None,
        *,
        gate: PyTree | None = None,
        seen: Bool[Array, ""] | bool = True,
        **extra: object,
    ) -> tuple[PyTree, Any]:
        """`gate` is 0 at frozen leaves; of a row that was not `seen` nothing is learned."""
        del extra
        leaves, structure = jax.tree.flatten(updates)
        gates = [jnp.ones(())] * len(leaves) if gate is None else jax.tree.leaves(gate)
        opened = [jnp.full(v.shape, g > 0.0) for v, g in zip(leaves, gates, strict=True)]
        gs = _grouped(leaves, largest)
        total = sum((jnp.sum(g**2) for g in gs), jnp.zeros(()))
        informed = seen & (total > 0.0) & jnp.isfinite(total)
        gs = [jnp.where(informed, g, 0.0) for g in gs]
        pause = refresh or max([10, *(b.rows.shape[-1] for b in state.blocks)])
        now = informed & ((state.count % pause == 0) | (state.count < SETTLING))
        pulls = _pulls(
            state, None if params is None else _grouped(jax.tree.leaves(params), largest)
        )
        blocks, views = [], []
        groups = zip(state.blocks, gs, pulls, _grouped(opened, largest), strict=True)
        for block, g, pull, gate_of in groups:
            free = gate_of & (block.rows >= WARM_UP)
            inverse = jax.lax.cond(now, jax.vmap(metric.fresh), lambda b, _: b.inverse, block, free)
            blocks.append(eqx.tree_at(lambda b: b.inverse, block, inverse))
            views.append(
                jax.vmap(metric.measured)(blocks[-1], g, jnp.where(informed, pull, 0.0), free)
            )
        length = metric.length(state, views)
        steps = [-(length.cut * length.gain).astype(v.step.dtype) * v.step for v in views]
        learned = tuple(
            jax.vmap(metric.learn, (0, 0, 0, None))(b, cut * g, cut * v.unit, length.agree)
            for b, g, v in zip(blocks, gs, views, strict=True)
            for cut in [length.cut.astype(g.dtype)]
        )
        new = FisherState(state.count + 1, length.log_gain, length.spread, learned)
        new = jax.tree.map(lambda a, b: jnp.where(informed, a, b), new, state)
        return jax.tree.unflatten(structure, _ungrouped(steps, leaves)), new

    return optax.GradientTransformationExtraArgs(init, update)


def _pulls(state: FisherState, groups: Sequence[Array] | None) -> list[Array]:
    """The prior's gradient downhill, its share in one row; none if nobody says where we are."""
    at = [b.start for b in state.blocks] if groups is None else groups
    rows = jnp.maximum(state.count, 1)
    pairs = zip(at, state.blocks, strict=True)
    return [b.prior * (v - b.start) / rows.astype(v.dtype) for v, b in pairs]


def _times(matrix: Float[Array, "m m"], vector: Float[Array, "m"]) -> Float[Array, "m"]:
    """Their product as a sum, which XLA fuses; a batch of matrix products wakes its threads."""
    return jnp.sum(matrix * vector[None], 1)


def _sum(parts: Sequence[Array]) -> Float[Array, ""]:
    return sum((jnp.sum(v).astype(float) for v in parts), jnp.zeros(()))


def _largest(parts: Sequence[Array]) -> Float[Array, ""]:
    return jnp.stack([jnp.zeros(()), *(jnp.max(v, initial=0).astype(float) for v in parts)]).max()


def _rms(leaf: Float[Array, "..."]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.mean(leaf**2)) if leaf.size else jnp.ones((), leaf.dtype)


def _new(prior: Float[Array, "b m"], start: Float[Array, "b m"]) -> FisherBlock:
    """Nothing seen."""
    groups, size = prior.shape
    zeros = jnp.zeros((groups, size, size), prior.dtype)
    inverse = zeros + jnp.eye(size, dtype=prior.dtype)[None]
    rows, path = jnp.zeros((groups, size), int), jnp.zeros_like(prior)
    return FisherBlock(zeros, inverse, rows, prior, start, path)


def _grouped(leaves: Sequence[Array], largest: int) -> list[Array]:
    """All parameters as one group, or else the groups of each leaf; (b, m) each."""
    if 0 < sum(v.size for v in leaves) <= largest:
        return [jnp.concatenate([v.ravel() for v in leaves])[None]]
    return [v.reshape(_groups(v, largest)) for v in leaves]


def _groups(leaf: Array, largest: int) -> tuple[int, int]:
    width = 1
    for axis in reversed(leaf.shape):
        if not 0 < width * axis <= largest:
            break
        width *= axis
    return leaf.size // width, width


def _ungrouped(groups: Sequence[Array], likes: Sequence[Array]) -> list[Array]:
    """The inverse of `_grouped`."""
    flat = [v.ravel() for v in groups]
    if len(groups) == 1:
        ends = [sum(v.size for v in likes[:i]) for i in range(1, len(likes))]
        flat = jnp.split(flat[0], ends)
    return [v.reshape(like.shape).astype(like.dtype) for v, like in zip(flat, likes, strict=True)]
