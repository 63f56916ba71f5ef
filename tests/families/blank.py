"""Families whose parameters are given numbers, without compiling an initialiser."""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

Tree = TypeVar("Tree")


def blank(build: Callable[[], Tree], scale: float = 0.0, seed: int = 0) -> Tree:
    """What `build` returns, its arrays replaced by normal noise of the given scale."""
    rng = np.random.default_rng(seed)

    def fill(leaf):
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        return jnp.asarray(scale * rng.normal(size=leaf.shape), leaf.dtype)

    return jax.tree.map(fill, eqx.filter_eval_shape(build))
