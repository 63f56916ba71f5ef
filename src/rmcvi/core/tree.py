"""Vector-space operations on pytrees: natural parameters, gradients, per-particle statistics."""

import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


def add(a: PyTree, b: PyTree) -> PyTree:
    """Leafwise sum."""
    return jax.tree.map(jnp.add, a, b)


def sub(a: PyTree, b: PyTree) -> PyTree:
    """Leafwise difference."""
    return jax.tree.map(jnp.subtract, a, b)


def vdot(a: PyTree, b: PyTree) -> Array:
    """Inner product: a matrix product once vectorised over either side."""
    products = jax.tree.map(lambda v, w: jnp.dot(v.ravel(), w.ravel()), a, b)
    return jax.tree.reduce(jnp.add, products)


def ravel(values: PyTree, lead: int = 0) -> Array:
    """All leaves side by side behind their `lead` leading axes."""
    flat = [v.reshape(*v.shape[:lead], -1) for v in jax.tree.leaves(values)]
    return jnp.concatenate(flat, -1)


def unravel(flat: Array, like: PyTree, lead: int = 0) -> PyTree:
    """The inverse of `ravel`: leaves shaped like those of `like`, whose leading axes may differ."""
    leaves, structure = jax.tree.flatten(like)
    ends = list(itertools.accumulate(math.prod(v.shape[lead:]) for v in leaves))
    parts = jnp.split(flat, ends[:-1], -1)
    shaped = [
        part.reshape(*flat.shape[:-1], *v.shape[lead:])
        for part, v in zip(parts, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, shaped)


def where(condition: Array, a: PyTree, b: PyTree) -> PyTree:
    """Leafwise `jnp.where` for one condition."""
    return jax.tree.map(lambda v, w: jnp.where(condition, v, w), a, b)


def zeros(like: PyTree, *lead: int) -> PyTree:
    """Zeros shaped like the array leaves of `like`, with leading axes `lead`."""
    return jax.tree.map(lambda v: jnp.zeros((*lead, *v.shape), v.dtype), like)


def centre(values: PyTree) -> tuple[PyTree, PyTree]:
    """Split values with a leading particle axis into deviations and their mean."""
    mean = jax.tree.map(lambda v: jnp.mean(v, 0), values)
    return jax.tree.map(lambda v, m: v - m[None], values, mean), mean


def all_finite(tree: PyTree) -> Array:
    """Whether every number is finite."""
    finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]
    return jnp.all(jnp.stack(finite)) if finite else jnp.asarray(True)


def has_arrays(tree: PyTree) -> bool:
    """Whether any array leaf is left."""
    return any(eqx.is_array(leaf) for leaf in jax.tree.leaves(tree))


def only(tree: PyTree, where: Any) -> PyTree:
    """A filter that is True at the floating leaves of what `where(tree)` picks, False elsewhere.

    `rmcvi.only(model, lambda m: (m.log_rho, m.log_gamma))` trains those two alone.
    """
    nothing = jax.tree.map(lambda _: False, tree)
    picked = where(tree)
    try:
        return eqx.tree_at(where, nothing, jax.tree.map(eqx.is_inexact_array, picked))
    except TypeError:
        message = f"where: got {picked!r}, expected leaves or subtrees of {type(tree).__name__}"
        raise ValueError(message) from None
