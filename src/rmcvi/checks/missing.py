"""Missing coordinates of y: integrate them out.

    integral of exp(observed_log_prob(x, y)) dy_k = exp(observed_log_prob(x, y with y_k = NaN)),

by the trapezoidal rule in s, y_k = centre + spread sinh(s), which heavy tails cannot escape; angles
over one turn.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from rmcvi.checks.agreement import bounded, discrete
from rmcvi.checks.laws import Seen, log_density, probe
from rmcvi.checks.report import SKIPPED, call
from rmcvi.checks.tools import close, not_finite, quick_jit, shown
from rmcvi.core.inputs import Inputs

GRID = np.linspace(-12.0, 12.0, 801)


class Gaps(eqx.Module):
    """Values and gradients with nothing, one coordinate (axis 0) and everything missing."""

    full: Array
    terms: Array
    moved: Array
    """`emission_log_prob` with coordinate k changed (row k)."""
    one: Array
    one_slope: PyTree
    none: Array
    none_slope: PyTree
    conditional: Array
    """log p(y_k | the others) on the grid, times the grid's spacing: row k."""


def gaps(model: Any, trained: PyTree, seen: Seen) -> Gaps:
    """Everything at the first point."""
    theta, rest = eqx.partition(model, trained)
    spread = np.maximum(seen.spread[0], 1e-6)
    x, y, centre, spread = (
        jnp.asarray(v, float) for v in (seen.given[0], seen.draws[0, 0], seen.centre[0], spread)
    )
    turn = jnp.asarray(seen.period, float)
    return _gaps(theta, rest, x, y, probe(seen.inputs), (centre, spread, turn))


@quick_jit
def _gaps(
    theta: PyTree, rest: PyTree, x: Array, y: Array, inputs: Inputs, places: tuple[Array, ...]
) -> Gaps:
    centre, spread, turn = places

    def observed(parts, y):
        theta, x = parts
        return log_density(eqx.combine(theta, rest), "emission", x, y, inputs)

    def terms(y):
        method = eqx.combine(theta, rest).emission_log_prob
        return call("model.emission_log_prob", method, x, y, inputs)

    eye = jnp.eye(y.size, dtype=bool)
    holed = jnp.where(eye, jnp.nan, y[None])
    grid = jnp.asarray(GRID, y.dtype)

    def along(k):
        angle, round_trip = jnp.isfinite(turn[k]), grid / (grid[-1] - grid[0])
        away = jnp.where(angle, turn[k] * round_trip, spread[k] * jnp.sinh(grid))
        slope = jnp.where(angle, turn[k] / (grid[-1] - grid[0]), spread[k] * jnp.cosh(grid))
        values = centre[k] + away
        log_prob = jax.vmap(lambda v: observed((theta, x), y.at[k].set(v)))(values)
        return log_prob + jnp.log(slope)

    both = jax.value_and_grad(observed)
    one, one_slope = jax.vmap(both, (None, 0))((theta, x), holed)
    none, none_slope = both((theta, x), jnp.full_like(y, jnp.nan))
    return Gaps(
        full=observed((theta, x), y),
        terms=terms(y),
        moved=jax.vmap(terms)(jnp.where(eye, centre[None], y[None])),
        one=one,
        one_slope=one_slope,
        none=none,
        none_slope=none_slope,
        conditional=jax.vmap(along)(jnp.arange(y.size)) - one[:, None],
    )


def all_missing(found: Gaps) -> str | None:
    """Nothing seen says nothing."""
    if close(found.none, 0.0):
        return None
    return f"model.observed_log_prob is {shown(found.none)} when all of y is NaN, expected 0"


def finite_gradients(model: Any, found: Gaps) -> str | None:
    """NaN must not leak into gradients."""
    cases = (("one coordinate", found.one, found.one_slope), ("all", found.none, found.none_slope))
    for name, value, slope in cases:
        if not np.all(np.isfinite(np.asarray(value))):
            return f"model.observed_log_prob is not finite when {name} of y is NaN"
        theta_slope, x_slope = slope
        path = not_finite(theta_slope) or ("x" if not_finite(x_slope) else None)
        if path is not None:
            return (
                f"the gradient of model.observed_log_prob in {path} is not finite when {name} of y "
                f"is NaN: replace NaN before the arithmetic, and let model.fill_value (now "
                f"{model.fill_value}) be a value at which log-density and gradient are finite"
            )
    return None


def marginal(law: Seen, found: Gaps) -> str | None:
    """A missing coordinate is integrated out."""
    why = discrete("emission", law) or bounded("emission", law)
    if why is not None:
        return _left_out(found)
    step = GRID[1] - GRID[0]
    fine = np.exp(np.asarray(found.conditional, float)) * step
    whole, coarse = fine.sum(1), 2.0 * fine[:, ::2].sum(1)
    if np.any(np.abs(whole - coarse) > 2e-3 * np.abs(whole)):
        return f"{SKIPPED}the emission is too uneven to be integrated numerically"
    off = np.abs(whole - 1.0)
    if np.all(off < 0.01):
        return None
    k = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
    return (
        f"model.observed_log_prob with y[{k}] = NaN is not the marginal over the other coordinates:"
        f" the density of y[{k}] given the others integrates to {shown(whole[k])}, expected 1 (a "
        "wrong normaliser, a sum over coordinates inside emission_log_prob, or correlated "
        "coordinates without an observed_log_prob of their own)"
    )


def _left_out(found: Gaps) -> str | None:
    """Without a density on the line: a missing coordinate is left out, and no term sees it."""
    terms, moved = np.asarray(found.terms), np.asarray(found.moved)
    others = ~np.eye(len(terms), dtype=bool)
    for k in range(len(terms)):
        if not close(moved[k][others[k]], terms[others[k]]):
            return (
                f"model.emission_log_prob: changing y[{k}] changes the log-density of another "
                "coordinate, expected one number per coordinate of y"
            )
        if not close(found.one[k], terms[others[k]].sum()):
            return (
                f"model.observed_log_prob with y[{k}] = NaN is {shown(found.one[k])}, expected the "
                f"sum over the other coordinates, {shown(terms[others[k]].sum())}"
            )
    return None
