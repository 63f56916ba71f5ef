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
from jaxtyping import Array, Bool, Float, PyTree

from rmcvi.core.checks import check_int, check_real
from rmcvi.optim.metric import SETTLING, WARM_UP, WIDEST, FisherBlock, FisherState, Metric
from rmcvi.optim.schedules import robbins_monro


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
            root mean square of its leaf or 1, whichever is larger. It counts as one row in n. A
            step is limited in these units, too, as if `scale` were at most 100.
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
    metric = Metric(power, delay, floor, min(1.0, WIDEST / scale))

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
