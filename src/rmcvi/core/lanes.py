"""Branches and loops that stay cheap when many lanes are vectorised.

Under `jax.vmap` a `cond` works out both sides of every lane, and a loop whose bounds differ between
lanes chooses between its old and new carry by a batched condition. Here all lanes ask together
whether anything rare is to be done, and count their rounds together. Without `vmap` they are
`lax.cond` and `lax.fori_loop`, to the bit. What they need is given as arguments, not closed over.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Int, PyTree

from rmcvi.core import tree


def rarely(
    asked: Bool[Array, ""],
    wanted: Callable[..., PyTree],
    usual: Callable[..., PyTree],
    *operands: PyTree,
) -> PyTree:
    """`wanted(*operands)` if it is asked for, else `usual(*operands)`; both give the same shapes.

    Args:
        asked: seldom true, of any lane.
        wanted: dear.
        usual: cheap, and of the same result.
        operands: what both need.
    """

    @custom_vmap
    def choose(asked: Array, operands: tuple[PyTree, ...]) -> PyTree:
        return jax.lax.cond(asked, wanted, usual, *operands)

    @choose.def_vmap
    def _(size: int, batched: Any, asked: Array, operands: tuple[PyTree, ...]) -> Any:
        asked, operands = _spread(size, batched, (asked, operands))

        def mixed(*operands: PyTree) -> PyTree:
            both = jax.vmap(wanted)(*operands), jax.vmap(usual)(*operands)
            return jax.vmap(tree.where)(asked, *both)

        found = jax.lax.cond(jnp.any(asked), mixed, jax.vmap(usual), *operands)
        return found, jax.tree.map(lambda _: True, found)

    return choose(asked, operands)


def loop_from(
    first: Int[Array, ""], end: int, body: Callable[..., PyTree], carry: PyTree, *operands: PyTree
) -> PyTree:
    """`carry = body(i, carry, *operands)` for i from `first` to `end - 1`.

    Args:
        first: of each lane its own; all of them are at the same i together.
        end: the same for all.
        body: one round.
        carry: what it changes.
        operands: what it needs besides.
    """

    @custom_vmap
    def loop(first: Array, carry: PyTree, operands: tuple[PyTree, ...]) -> PyTree:
        return jax.lax.fori_loop(first, end, lambda i, c: body(i, c, *operands), carry)

    @loop.def_vmap
    def _(size: int, batched: Any, *given: Any) -> Any:
        first, carry, operands = _spread(size, batched, given)

        def together(i: Array, carry: PyTree) -> PyTree:
            new = jax.vmap(lambda c, o: body(i, c, *o))(carry, operands)
            return jax.vmap(tree.where)(i >= first, new, carry)

        found = jax.lax.fori_loop(jnp.min(first), end, together, carry)
        return found, jax.tree.map(lambda _: True, found)

    return loop(first, carry, operands)


def _spread(size: int, batched: Any, values: Any) -> Any:
    """All with an axis of lanes."""
    leaves, structure = jax.tree.flatten(values)
    spread = [
        value if has else jnp.broadcast_to(value, (size, *jnp.shape(value)))
        for has, value in zip(jax.tree.leaves(batched), leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, spread)
