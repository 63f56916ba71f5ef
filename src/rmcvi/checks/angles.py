"""Angles that are not wrapped. At states far and wide, where an angle passes its cut,

    P(log p(y + turn | x) > log p(y | x) + b) <= exp(-b)   for y drawn from p, whatever p is,

so that a draw which its own density would rather see a turn away proves that only the sampler
wraps; and where emission_mean jumps by a turn the density must not. Models without angles pass.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from rmcvi.checks.laws import TURNS, Seen, log_density, probe, sample
from rmcvi.checks.report import HINT
from rmcvi.checks.tools import keys, normal, quick_jit, rounding, shown, worst
from rmcvi.core.inputs import Inputs

NUM_STATES = 1000
"""States at which one draw each is looked at."""
NUM_WAYS = 64
"""Ways between two of them."""
REACH = 5.0
"""Deviations of x_0 that they are spread over."""
SURE = 50.0
"""b, in nats."""
STEPS = 257
"""Points along a way."""
ADVICE = (
    "take the residual the short way round, jnp.mod(y - mean + jnp.pi, 2 * jnp.pi) - jnp.pi, as in "
    "rmcvi.models.zoo.angle"
)


class Turned(eqx.Module):
    """Draws at far states, and by how much their density prefers them a turn away."""

    states: Any
    gain: Any
    """Per state, turn, direction and coordinate of y."""


def turned(model: Any, start: Seen, seed: int) -> Turned:
    """At states spread widely around x_0."""
    states = _far(start)
    found = _turned(model, states, keys(seed + 11, NUM_STATES), probe(start.inputs))
    return Turned(np.asarray(states), np.asarray(found))


def _far(start: Seen) -> Array:
    shape = NUM_STATES, start.draws.shape[-1]
    return jnp.asarray(start.centre[0] + REACH * start.spread[0] * normal(5, *shape), float)


@quick_jit
def _turned(model: Any, states: Array, split: Array, inputs: Inputs) -> Array:
    def one(x, key):
        y = sample(model, "emission", key, x, inputs)
        eye, base = jnp.eye(y.size, dtype=y.dtype), log_density(model, "emission", x, y, inputs)

        def gain(shift):
            return log_density(model, "emission", x, y + shift, inputs) - base

        shifts = jnp.asarray([[-t, t] for t in TURNS], y.dtype)[..., None, None] * eye[None, None]
        return jax.vmap(jax.vmap(jax.vmap(gain)))(shifts)

    return jax.vmap(one)(states, split)


def sampler_wraps_alone(found: Turned) -> str | None:
    """No draw is better a turn away."""
    gain = np.where(np.isnan(found.gain), -np.inf, found.gain)
    if np.max(gain) <= SURE:
        return None
    i, turn, _, k = worst(gain)
    return (
        f"model.emission_sample draws a y[{k}] at x = {shown(found.states[i])} that "
        f"model.observed_log_prob would rather see {TURNS[turn]:.4g} away: the sampler wraps an "
        f"angle and the density does not ({ADVICE})"
    )


class Jumps(eqx.Module):
    """The steepest place of emission_mean on each way, per coordinate of y."""

    left: Any
    size: Any
    """By how much emission_mean changes across it."""
    wide: Any
    """And across the step of the way in which it lies."""
    scale: Any
    change: Any
    """How much log p(y | x) changes, y being drawn on the left."""


def jumps(model: Any, start: Seen, seed: int) -> Jumps:
    """On straight ways between far states."""
    ends = _far(start)[:NUM_WAYS]
    halvings = int(-np.log2(rounding()))
    found = _jumps(model, ends, keys(seed + 12, NUM_WAYS), probe(start.inputs), halvings)
    return jax.tree.map(np.asarray, found)


@quick_jit
def _jumps(model: Any, ends: Array, split: Array, inputs: Inputs, halvings: int) -> Jumps:
    grid = jnp.linspace(0.0, 1.0, STEPS, dtype=ends.dtype)

    def way(first, last, key):
        def at(s):
            return first + s * (last - first)

        means = jax.vmap(lambda s: model.emission_mean(at(s), inputs))(grid)
        moves = jnp.abs(jnp.diff(means, axis=0))

        def coordinate(k):
            j = jnp.argmax(moves[:, k])

            def mean(s):
                return model.emission_mean(at(s), inputs)[k]

            def halve(_, span):
                low, high = span
                mid = 0.5 * (low + high)
                left = jnp.abs(mean(mid) - mean(low)) > jnp.abs(mean(high) - mean(mid))
                return jnp.where(left, low, mid), jnp.where(left, mid, high)

            low, high = jax.lax.fori_loop(0, halvings, halve, (grid[j], grid[j + 1]))
            y = sample(model, "emission", key, at(low), inputs)
            sides = [log_density(model, "emission", at(s), y, inputs) for s in (low, high)]
            scale = model.emission_scale(at(low), inputs)[k]
            size = jnp.abs(mean(high) - mean(low))
            return Jumps(at(low), size, moves[j, k], scale, jnp.abs(sides[1] - sides[0]))

        return jax.vmap(coordinate)(jnp.arange(means.shape[1]))

    return jax.vmap(way)(ends, jnp.roll(ends, 1, 0), split)


def mean_jumps(found: Jumps) -> str | None:
    """Where the mean jumps by a turn, the density goes on; other jumps are mentioned."""
    there = (
        (found.size > 0.5 * found.wide) & (found.size > 0.1 * found.scale) & (found.change > 1.0)
    )
    if not np.any(there):
        return None
    away = np.stack([np.abs(found.size - turn) / turn for turn in TURNS])
    turns = there & (np.min(away, 0) < 0.01)
    i, k = worst(turns if np.any(turns) else there)
    place = f"at x = {shown(found.left[i, k])}"
    if not np.any(turns):
        return (
            f"{HINT}model.emission_mean jumps by {found.size[i, k]:.3g} in y[{k}] {place}, and the "
            "density with it: no gradient sees that"
        )
    return (
        f"model.emission_mean jumps by {found.size[i, k]:.4g} in y[{k}] {place}, where an angle "
        f"passes its cut, and the density jumps with it: y[{k}] is not wrapped ({ADVICE})"
    )
