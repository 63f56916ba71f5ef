"""What all checks use: programs compiled in haste, numbers compared, short streams with everything.

A mean is called wrong when |mean - expected| > 5 standard errors (plus rounding).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from rmcvi.checks.report import call
from rmcvi.core.inputs import Inputs
from rmcvi.models import AbstractModel

HASTE = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
SIGMAS = 5.0
"""Standard errors that a Monte Carlo mean may be off: one false alarm in a million."""
ABSURD = 1e6


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


def default_dtype() -> np.dtype:
    """float32, or float64 where JAX was told so."""
    return np.dtype(jnp.zeros(()).dtype)


def rounding() -> float:
    """Relative difference that reordered sums may make."""
    return 1e-3 if default_dtype() == np.float32 else 1e-8


def standard_error(mean: Any, square: Any, num: int) -> np.ndarray:
    """Standard error of a mean of `num` draws, given their mean square."""
    mean, square = np.asarray(mean, float), np.asarray(square, float)
    return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0) / num))


def excess(mean: Any, square: Any, num: int, expected: Any = 0.0) -> np.ndarray:
    """How many times the tolerance a mean is off (above 1: wrong)."""
    size = np.sqrt(np.asarray(square, float)) + np.abs(expected)
    tolerance = SIGMAS * standard_error(mean, square, num) + rounding() * size + 1e-12
    return np.asarray(np.abs(np.asarray(mean, float) - expected) / tolerance)


def sample_excess(values: Any, expected: Any = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean, standard error, excess) over the first axis."""
    shifted, num = np.asarray(values, float) - expected, len(values)
    mean, square = shifted.mean(0), (shifted**2).mean(0)
    return (
        np.asarray(mean + expected),
        standard_error(mean, square, num),
        excess(mean, square, num),
    )


def worst(values: np.ndarray) -> tuple[int, ...]:
    """Index of the largest entry (NaN counts as largest)."""
    flat = np.where(np.isnan(values), np.inf, values)
    return tuple(int(i) for i in np.unravel_index(np.argmax(flat), values.shape))


def close(a: Any, b: Any, rtol: float | None = None) -> bool:
    """Equal up to rounding; NaN equals NaN."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if a.shape != b.shape:
        return False
    rtol = rounding() if rtol is None else rtol
    finite = np.abs(b[np.isfinite(b)])
    size = float(finite.max()) if finite.size else 1.0
    return bool(np.allclose(a, b, rtol=rtol, atol=rtol * max(size, 1.0), equal_nan=True))


def trees_close(a: PyTree, b: PyTree, rtol: float | None = None) -> bool:
    """The same for all leaves of two trees."""
    first, second = jax.tree.leaves(a), jax.tree.leaves(b)
    pairs = zip(first, second, strict=False)
    return len(first) == len(second) and all(close(raw(v), raw(w), rtol) for v, w in pairs)


def raw(leaf: Any) -> np.ndarray:
    """The numbers of an array, also of random keys."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf)


def different_leaf(a: PyTree, b: PyTree) -> str | None:
    """Path of the first leaf in which two trees differ by a bit."""
    for (path, v), w in zip(paths(a), jax.tree.leaves(b), strict=True):
        if not np.array_equal(raw(v), raw(w), equal_nan=raw(v).dtype.kind == "f"):
            return path
    return None


def paths(tree: PyTree) -> list[tuple[str, Any]]:
    """Leaves with their paths, as one would write them after the tree's name."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def not_finite(tree: PyTree) -> str | None:
    """Path of the first leaf with a number that is not finite."""
    for path, leaf in paths(tree):
        if not np.all(np.isfinite(raw(leaf))):
            return path or "the value"
    return None


def not_arrays(state: PyTree) -> str | None:
    """A sentence about the first leaf that is not a JAX array."""
    for path, leaf in paths(state):
        if not isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
            return f"holds {leaf!r} at {path or 'its root'}, expected JAX arrays only"
    return None


def changed_structure(before: PyTree, after: PyTree) -> str | None:
    """How the types of two trees differ: tree, shape, dtype (of arrays or of their shapes)."""
    if jax.tree.structure(before) != jax.tree.structure(after):
        names, others = dict(paths(before)), dict(paths(after))
        extra = [f"{name} is new" for name in others if name not in names]
        gone = [f"{name} is gone" for name in names if name not in others]
        return "another tree" + (f" ({', '.join((extra + gone)[:3])})" if extra + gone else "")
    for (path, v), w in zip(paths(before), jax.tree.leaves(after), strict=True):
        if v.shape != w.shape:
            return f"{path or 'it'} had shape {v.shape} and now has {w.shape}"
        if v.dtype != w.dtype:
            return f"{path or 'it'} had dtype {v.dtype} and now has {w.dtype}"
    return None


def shown(value: Any) -> str:
    """A number or a short vector for a sentence."""
    array = np.asarray(value, float)
    if array.ndim == 0:
        return f"{float(array):.3g}"
    parts = [f"{v:.3g}" for v in array.ravel()[:4]]
    return "[" + ", ".join(parts) + (", ..." if array.size > 4 else "") + "]"


def simulated(model: AbstractModel, length: int, seed: int) -> np.ndarray:
    """Observations of the model's own, with usual steps and without inputs."""
    return np.asarray(_simulated(model, keys(seed, 2 * length)))


@quick_jit
def _simulated(model: AbstractModel, keys: Any) -> Any:
    inputs = Inputs(jnp.zeros(model.dim_input), jnp.ones(()))

    def step(x, pair):
        y = call("model.emission_sample", model.emission_sample, pair[0], x, inputs)
        return call("model.transition_sample", model.transition_sample, pair[1], x, inputs), y

    start = call("model.initial_sample", model.initial_sample, keys[0])
    return jax.lax.scan(step, start, keys.reshape(-1, 2))[1]


def wandering(dim: int, length: int, seed: int) -> np.ndarray:
    """Observations for a learner without a model: y_t = .8 y_{t-1} + noise."""
    noise = np.random.default_rng(seed).normal(size=(length, dim))
    for t in range(1, length):
        noise[t] += 0.8 * noise[t - 1]
    return noise


def with_gaps(ys: np.ndarray) -> np.ndarray:
    """Row 2 lacks its first coordinate, row 3 all of them."""
    ys = np.array(ys, float)
    ys[2, 0] = np.nan
    ys[3] = np.nan
    return ys
