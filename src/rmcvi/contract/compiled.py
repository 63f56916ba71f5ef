"""One step of a learner, compiled: what does not change from row to row is looked at once."""

from functools import lru_cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from rmcvi.core.identity import Itself
from rmcvi.core.inputs import Inputs


class Parts:
    """A learner as its arrays and the rest, which is hashed once; equal ones share a program."""

    def __init__(self, learner: Any):
        arrays, static = eqx.partition(learner, _is_array)
        self.arrays, self._tree = jax.tree.flatten(arrays)
        self._static = static
        leaves, structure = jax.tree.flatten(static)
        self._key = (tuple(leaves), structure, self._tree)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Parts) and self._key == other._key)

    def learner(self, arrays: list[Array]) -> Any:
        """The whole, with these arrays."""
        return eqx.combine(jax.tree.unflatten(self._tree, arrays), self._static)


class _Traced(Exception):
    """A learner within somebody else's program, which is compiled as a whole."""


@lru_cache(maxsize=8)
def _parts(of: Itself) -> Parts:
    parts = Parts(of.value)
    if any(isinstance(leaf, Tracer) for leaf in parts.arrays):
        raise _Traced  # and is not remembered
    return parts


def step(
    learner: Any, state: PyTree, y: ArrayLike, u: ArrayLike, dt: ArrayLike
) -> tuple[PyTree, Any]:
    """`learner.step`, compiled; the old state stays as it is."""
    try:
        parts = _parts(Itself(learner))
    except _Traced:
        return learner.step(state, jnp.asarray(y, float), Inputs(jnp.asarray(u), jnp.asarray(dt)))
    return _step(parts, parts.arrays, state, y, u, dt)


@partial(jax.jit, static_argnums=0)
def _step(
    parts: Parts, arrays: list[Array], state: PyTree, y: Array, u: Array, dt: Array
) -> tuple[PyTree, Any]:
    return parts.learner(arrays).step(state, y, Inputs(u, dt))


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)
