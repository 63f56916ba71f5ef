"""States in a row, cut into blocks; each block sees its neighbours up to a radius away.

A window is a block with `radius` states on either side. What acts over no more than `radius` is
read off a few directional derivatives: seeds of one colour are further apart than they reach.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Neighbours(NamedTuple):
    """k windows of w states each, of d; all arrays are constants."""

    window: np.ndarray
    """Indices of the states, (k, w)."""
    block: np.ndarray
    """In whose block a state is, (d,)."""
    place: np.ndarray
    """Where it stands in the window of that block, (d,)."""
    before: np.ndarray
    """Where in its window a block begins, (k,)."""
    near: np.ndarray
    """Whether two states of a window are within the radius, (k, w, w)."""
    source: tuple[np.ndarray, ...]
    """Of each pair: the window in whose middle it lies, and its places there, each (k, w, w)."""
    colour: np.ndarray
    """Of each state, (d,)."""

    def own(self, values: Float[Array, "k w"]) -> Float[Array, "d"]:
        """Each state's value, as its own block has it."""
        return values[self.block, self.place]

    def jacobian(self, push: Callable[[Array], Array]) -> Float[Array, "k w w"]:
        """Derivatives of each window's rows in its states, from those along a direction."""
        columns = jax.vmap(push)(jnp.asarray(np.eye(self.colour.max() + 1)[self.colour].T, float))
        colours = self.colour[self.window]
        return jnp.where(self.near, columns[colours[:, None, :], self.window[:, :, None]], 0.0)


@lru_cache
def neighbours(dim: int, radius: int, ring: bool) -> Neighbours:
    """Blocks of `radius` states or a few more; one, if three do not fit."""
    count = dim // radius
    if count < 4:
        edges, width, left = np.array([0, dim]), dim, np.zeros(1, int)
    else:
        edges = np.linspace(0, dim, count + 1).round().astype(int)
        width = int(np.diff(edges).max()) + 2 * radius
        left = edges[:-1] - radius
        left = left if ring else np.clip(left, 0, dim - width)
    line = left[:, None] + np.arange(width)
    window = line % dim
    block = np.repeat(np.arange(len(left)), np.diff(edges))
    where = np.full((len(left), dim), -1)
    np.put_along_axis(where, window, np.broadcast_to(np.arange(width), window.shape), 1)
    one, other = window[:, :, None], window[:, None, :]
    apart = np.abs(one - other)
    apart = np.minimum(apart, dim - apart) if ring else apart
    middle = block[(line[:, :, None] + line[:, None, :]) // 2 % dim]
    places = where[middle, one], where[middle, other]
    known = (places[0] >= 0) & (places[1] >= 0)
    here = (np.arange(len(left))[:, None, None], *np.ogrid[:width, :width])
    periods = max(dim // (2 * radius + 1), 1) if len(left) > 1 else 1
    starts = np.linspace(0, dim, periods + 1).round().astype(int)
    return Neighbours(
        window=window,
        block=block,
        place=where[block, np.arange(dim)],
        before=where[np.arange(len(left)), edges[:-1]],
        near=(apart <= radius) | (len(left) == 1),
        source=tuple(np.where(known, v, w) for v, w in zip((middle, *places), here, strict=True)),
        colour=np.concatenate([np.arange(n) for n in np.diff(starts)]),
    )
