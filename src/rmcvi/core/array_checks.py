"""Wrong arrays become a ValueError that names the argument, what it got and what it expected."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array


def check_array(name: str, value: Any, shape: Sequence[int | None]) -> None:
    """Raise unless `value` is a real floating array of `shape` (None = any length)."""
    got = getattr(value, "shape", None)
    expected = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
    if got is None:
        raise ValueError(f"{name}: got {type(value).__name__}, expected an array of {expected}")
    fits = len(got) == len(shape) and all(
        want is None or n == want for n, want in zip(got, shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{name}: got an array of shape {tuple(got)}, expected {expected}")
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise ValueError(f"{name}: got dtype {value.dtype}, expected a floating dtype")


def check_key(name: str, value: Any) -> None:
    """Raise unless `value` is one typed random key."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key) or value.shape != ():
        what = type(value).__name__ if dtype is None else f"{dtype} of shape {value.shape}"
        raise ValueError(f"{name}: got {what}, expected a key such as jax.random.key(0)")


def check_positive(name: str, value: Array) -> None:
    """Raise unless every entry is positive; traced values cannot be looked at and pass."""
    if not isinstance(value, Tracer) and not bool(jnp.all(value > 0.0)):
        raise ValueError(f"{name}: got {value}, expected positive numbers")


def as_real(name: str, value: Any) -> Array:
    """Return `value` as an array in JAX's default precision, or say why it is not real."""
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError):
        got = type(value).__name__
        raise ValueError(f"{name}: got {got}, expected an array of real numbers") from None
    if not any(jnp.issubdtype(array.dtype, kind) for kind in (jnp.floating, jnp.integer)):
        raise ValueError(f"{name}: got dtype {array.dtype}, expected an array of real numbers")
    return array.astype(float)
