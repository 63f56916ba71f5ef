"""What a model is on paper (dimensions, fields, shapes and types of its methods), and as a program.

The programs behind the other checks ran under jit and vmap; the plain calls are here: the same
numbers twice, under jit and vmap, and in float32.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from rmcvi.checks.laws import DENSITY, LAWS, SAMPLER, Seen, log_density, probe, sample
from rmcvi.checks.report import HINT, call
from rmcvi.checks.tools import close, default_dtype, paths, quick_jit, shown
from rmcvi.core.inputs import Inputs
from rmcvi.models import AbstractModel

Arguments = tuple[Any, ...]
Shape = tuple[int | None, ...]
"""None is any length."""


def dimensions(model: Any) -> str | None:
    """dim_state, dim_obs and dim_input are integers, fill_value is a number."""
    if not isinstance(model, AbstractModel):
        return f"got {type(model).__name__}, expected a subclass of rmcvi.models.AbstractModel"
    for name, least in (("dim_state", 1), ("dim_obs", 1), ("dim_input", 0)):
        value = call(f"model.{name}", lambda name=name: getattr(model, name))
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            return f"model.{name}: got {value!r}, expected a Python integer of at least {least}"
    fill = call("model.fill_value", lambda: model.fill_value)
    if not isinstance(fill, int | float) or not np.isfinite(fill):
        return f"model.fill_value: got {fill!r}, expected a number that y can take"
    return None


def methods(model: Any) -> dict[str, tuple[Arguments, list[Shape]]]:
    """Every method with arguments to try it on, and the shapes it may return."""
    x, y, key = jnp.zeros(model.dim_state), jnp.zeros(model.dim_obs), jax.random.key(0)
    inputs = Inputs(jnp.zeros(model.dim_input), jnp.ones(()))
    dx, dy = x.shape, y.shape
    pairs = jnp.zeros((3, *dx)), jnp.zeros((2, *dx))
    table: dict[str, tuple[Arguments, list[Shape]]] = {
        "initial_sample": ((key,), [dx]),
        "initial_log_prob": ((x,), [()]),
        "transition_sample": ((key, x, inputs), [dx]),
        "transition_log_prob": ((x, x, inputs), [()]),
        "emission_sample": ((key, x, inputs), [dy]),
        "emission_log_prob": ((x, y, inputs), [dy]),
        "observed_log_prob": ((x, y, inputs), [()]),
        "pairwise_log_prob": ((*pairs, inputs), [(2, 3)]),
    }
    if model.gaussian is not None:
        moments = (jnp.zeros(2), jnp.zeros(3), pairs[0])
        table |= {
            "transition_mean": ((x, inputs), [dx]),
            "transition_scale": ((inputs,), [dx, dx + dx]),
            "transition_jacobian": ((x, inputs), [dx + dx]),
            "emission_mean": ((x, inputs), [dy]),
            "emission_scale": ((x, inputs), [dy]),
            "emission_information": ((x, y, inputs), [(None, *dx)]),
            "moment_log_prob": ((*pairs, *moments, inputs), [()]),
        }
    return table


def shape(model: Any, name: str, arguments: Arguments, expected: list[Shape]) -> str | None:
    """One method returns one floating array of the right shape, also when traced."""
    function: Callable[..., Any] = getattr(model, name)
    got = call(f"model.{name}", lambda: eqx.filter_eval_shape(function, *arguments))
    if not isinstance(got, jax.ShapeDtypeStruct):
        return f"model.{name}: got {type(got).__name__}, expected one array"
    if not any(_fits(got.shape, wanted) for wanted in expected):
        wanted = " or ".join(map(str, expected)).replace("None", "any")
        advice = ""
        if name == "emission_log_prob" and got.shape == ():
            advice = ", one number per coordinate of y: do not sum over them"
        elif () in expected:
            advice = ", one number: sum over the coordinates"
        return f"model.{name}: got a result of shape {got.shape}, expected {wanted}{advice}"
    if got.dtype != default_dtype():
        return (
            f"model.{name}: got dtype {got.dtype}, expected {default_dtype()} (use .astype(float))"
        )
    return None


def _fits(got: tuple[int, ...], wanted: Shape) -> bool:
    return len(got) == len(wanted) and all(
        n is None or n == m for m, n in zip(got, wanted, strict=True)
    )


def fields(model: Any) -> str | None:
    """Numbers that look like parameters and are none."""
    found = [
        (path.lstrip("."), leaf)
        for path, leaf in paths(model)
        if isinstance(leaf, float | np.ndarray | np.floating)
        and np.issubdtype(np.asarray(leaf).dtype, np.floating)
    ]
    if not found:
        return None
    path, leaf = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    kind = "a Python float" if isinstance(leaf, float) else "a NumPy array"
    return (
        f"{HINT}the field {path}{more} is {kind}, which is never learned: use "
        "jnp.asarray(...) to learn it, eqx.field(static=True) to say that it is a constant"
    )


def idle(slopes: dict[str, list[Any]], dim_input: int, input_slope: float) -> str | None:
    """Parameters, or inputs, that no density depends on."""
    unused = [path for path, sizes in slopes.items() if not any(np.any(v != 0.0) for v in sizes)]
    if unused:
        names = ", ".join(unused[:3]) + (", ..." if len(unused) > 3 else "")
        return f"{HINT}no density depends on {names}: it will not be learned"
    if dim_input and input_slope == 0.0:
        return f"{HINT}dim_input is {dim_input}, but no density depends on inputs.u"
    return None


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
