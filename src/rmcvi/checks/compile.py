"""Programs that run once or twice: compiled in haste, with keys that cost no compilation."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

HASTE = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def quick_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """`eqx.filter_jit` without the compiler's expensive passes; the result holds arrays only."""

    def flat(arrays, constants, structure):
        leaves = [a if c is None else c[0] for a, c in zip(arrays, constants, strict=True)]
        return function(*jax.tree.unflatten(structure, leaves))

    program = jax.jit(flat, static_argnums=(1, 2), compiler_options=HASTE)

    def run(*arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        arrays = [v if eqx.is_array(v) else None for v in leaves]
        constants = tuple(None if eqx.is_array(v) else (v,) for v in leaves)
        return program(arrays, constants, structure)

    return run


def keys(seed: int, *shape: int, at: tuple[int, ...] = ()) -> Array:
    """Independent keys, drawn by NumPy; `at` picks one of them."""
    width = jax.random.key_data(jax.random.key(0)).shape
    numbers = np.random.default_rng(seed).integers(0, 2**32, (*shape, *width), dtype=np.uint32)
    return jax.random.wrap_key_data(numbers[at])


def normal(seed: int, *shape: int) -> np.ndarray:
    """Standard normal numbers in JAX's default precision."""
    dtype = jax.dtypes.canonicalize_dtype(float)
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)
