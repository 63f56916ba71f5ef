"""The same numbers twice, under jit and vmap, and in float32.

The programs behind the other checks ran under jit and vmap; here are the plain calls.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from rmcvi.checks.compile import quick_jit
from rmcvi.checks.laws import DENSITY, LAWS, SAMPLER, Seen, log_density, probe, sample
from rmcvi.checks.numbers import close, default_dtype, shown


def plain(model: Any, law: str, seen: Seen) -> dict[str, list[np.ndarray]]:
    """Sampler and density at the first point: each called twice, outside of jit."""
    inputs, key = probe(seen.inputs), seen.key
    given, value = (jnp.asarray(v, float) for v in (seen.given[0], seen.draws[0, 0]))

    def twice(function, *arguments):
        return [np.asarray(function(model, law, *arguments)) for _ in range(2)]

    return {
        SAMPLER[law]: twice(sample, key, given, inputs),
        DENSITY[law]: twice(log_density, given, value, inputs),
    }


def pure(name: str, values: list[np.ndarray]) -> str | None:
    """Two calls, one answer."""
    first, second = values
    if np.array_equal(first, second, equal_nan=True):
        return None
    return (
        f"model.{name} returned {shown(first)} and then {shown(second)} for the same arguments: "
        "use the key for randomness and keep nothing between calls"
    )


def same_under_jit(name: str, value: Any, fast: Any) -> str | None:
    """Plain call against jit and vmap."""
    if close(value, fast):
        return None
    return (
        f"model.{name} returns {shown(value)} when called and {shown(fast)} under jax.jit and "
        "jax.vmap: it must depend on its arguments only, and treat them as one point"
    )


def in_float32(model: Any, seen: dict[str, Seen]) -> str | None:
    """Densities in float32, which is what users run."""
    if default_dtype() == np.float32:
        return None  # everything else was computed in it

    def single(tree):
        inexact, rest = eqx.partition(tree, eqx.is_inexact_array_like)
        return eqx.combine(jax.tree.map(lambda v: np.asarray(v, np.float32), inexact), rest)

    fields, constants = eqx.partition(model, eqx.is_inexact_array)
    rows = {law: (v.given, v.draws[:, 0], v.inputs) for law, v in seen.items()}
    with jax.enable_x64(False):
        fields, rows = jax.tree.map(jnp.asarray, single((fields, rows)))
        found = jax.tree.map(np.asarray, _densities(fields, constants, rows))
    for law in found:
        if not close(found[law], seen[law].log_prob[:, 0], 1e-2):
            return (
                f"model.{DENSITY[law]} is {shown(found[law])} in float32 and "
                f"{shown(seen[law].log_prob[:, 0])} in float64: it overflows or cancels"
            )
    return None


@quick_jit
def _densities(fields: Any, constants: Any, rows: dict[str, Any]) -> dict[str, Array]:
    model = eqx.combine(fields, constants)
    return {
        law: jax.vmap(lambda *row, law=law: log_density(model, law, *row))(*rows[law])
        for law in LAWS
        if law in rows
    }
