"""Gradients of sums over the window's particles, block by block.

All L x N particles at once would need arrays of points times hidden units, which leave the cache at
a few hundred particles and fill the memory at a few thousand. Each block is differentiated and
forgotten; nothing is kept but the sum. A window that fits into one block takes no loop.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from rmcvi.core import tree

POINTS = 512  # particles whose hidden units fit into a core's own cache


def summed_gradient(
    score: Callable[..., Array],
    parameters: PyTree,
    carry: PyTree,
    slots: PyTree,
    points: PyTree,
    active: Bool[Array, "lags"],
    *,
    whole: bool = False,
) -> tuple[PyTree, PyTree]:
    """Gradient of sum_s score(parameters, carry_s, slots_s, points_s) in the first two arguments.

    Leaves of `carry` and `slots` have a leading axis (L,), those of `points` (L, N). Unless a slot
    must stay `whole`, its particles may be shared out: `score` is a sum over them. Blocks without
    an `active` slot have no gradient, and are passed over.
    """

    def total(parameters, carry, slots, points):
        return jnp.sum(jax.vmap(score, (None, 0, 0, 0))(parameters, carry, slots, points))

    gradient = jax.grad(total, (0, 1))
    length, num = jax.tree.leaves(points)[0].shape[:2]
    together, parts = block_shape(length, num)
    parts = 1 if whole else parts
    if together == length:
        return gradient(parameters, carry, slots, points)
    blocks = length // together * parts

    def cut_slots(v):
        return jnp.repeat(v, parts, 0).reshape(blocks, together, *v.shape[1:])

    def cut_points(v):
        return v.reshape(blocks, together, v.shape[1] // parts, *v.shape[2:])

    def add(sum_so_far, rows):
        some, block = rows

        def work():
            new, per_slot = gradient(parameters, *block)
            return tree.add(sum_so_far, new), per_slot

        return jax.lax.cond(some, work, lambda: (sum_so_far, tree.zeros(block[0])))

    cut = (*jax.tree.map(cut_slots, (carry, slots)), jax.tree.map(cut_points, points))
    some = jnp.any(cut_slots(active), 1)
    result, per_slot = jax.lax.scan(add, tree.zeros(parameters), (some, cut))
    return result, jax.tree.map(
        lambda v: jnp.sum(v.reshape(length, parts, *v.shape[2:]), 1), per_slot
    )


def block_shape(length: int, num: int) -> tuple[int, int]:
    """Slots per block and parts per slot, one of which is 1, for blocks of about `POINTS`."""
    if num <= POINTS:
        return max(k for k in range(1, length + 1) if length % k == 0 and k * num <= POINTS), 1
    fitting = (k for k in range(1, 4 * num // POINTS + 1) if num % k == 0 and num // k <= POINTS)
    return 1, next(fitting, 1)
