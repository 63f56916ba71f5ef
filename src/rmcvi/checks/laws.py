"""The three laws of a model, seen through their own draws.

Sampler and density p agree only if, for v drawn from the sampler (Stein's identities, where
c is a constant and f is smooth and bounded),

    E d_k log p(v) = 0,   E (v_k - c) d_k log p(v) = -1,   E f(v_j) d_k log p(v) = 0  for j != k,

and p is normalised for every theta only if E d/dtheta log p(v) = 0.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from rmcvi.checks.report import call
from rmcvi.checks.tools import keys, normal, quick_jit
from rmcvi.core.inputs import Inputs

LAWS = ("initial", "transition", "emission")
SAMPLER = {law: f"{law}_sample" for law in LAWS}
# the recursion sees the emission through observed_log_prob
DENSITY = {
    "initial": "initial_log_prob",
    "transition": "transition_log_prob",
    "emission": "observed_log_prob",
}
VARIABLE = {"initial": "x", "transition": "x", "emission": "y"}
NUM_DRAWS = 4000
"""Standard errors of 1.6 % of a deviation: errors of a tenth are found."""
NUM_POINTS = 3
"""Points at which conditional laws are looked at: more would tell little more."""
TURNS = (2.0 * np.pi, 360.0)
"""A full turn of an angle."""
NUM_TURNED = 8
"""Draws at which the density is asked whether it has that period."""
FAR = 10.0
"""Ranges of the draws beyond their ends at which the density must have fallen."""


class Seen(eqx.Module):
    """What the draws of one law tell, at each point (axis 0): NumPy arrays."""

    given: Any
    inputs: Any
    key: Any
    """That of the first draw at the first point."""
    draws: Any
    log_prob: Any
    slope: Any
    """Gradient of the log-density in the drawn value."""
    far: Any
    """Log-density at ten ranges below and above, one coordinate at a time."""
    turned: Any
    """Change of the log-density of some draws when a coordinate makes a full turn."""
    theta_mean: PyTree
    theta_square: PyTree
    input_slope: Any

    @property
    def period(self) -> np.ndarray:
        """Of each coordinate: a full turn if it is an angle, infinite if it is not."""
        reach = np.max(np.ptp(np.asarray(self.draws, float), 1), 0)
        period = np.full(reach.shape, np.inf)
        for i, turn in enumerate(TURNS):
            same = np.all(np.abs(self.turned[:, :, i]) < 0.01, (0, 1))
            period = np.where(same & (reach < 1.001 * turn), turn, period)
        return period

    @property
    def unwrapped(self) -> np.ndarray:
        """Draws, angles as seen from the first of them."""
        return self.draws[:, :1] + self._short_way(self.draws - self.draws[:, :1])

    @property
    def centre(self) -> np.ndarray:
        """Medians."""
        return np.median(self.unwrapped, 1)

    @property
    def spread(self) -> np.ndarray:
        """Median distances from the medians."""
        return np.median(np.abs(self.unwrapped - self.centre[:, None]), 1)

    def residual(self, mean: np.ndarray, point: int) -> np.ndarray:
        """Draws at one point less `mean`, angles the short way round."""
        return self._short_way(np.asarray(self.draws[point], float) - np.asarray(mean)[None])

    def _short_way(self, away: np.ndarray) -> np.ndarray:
        angle = np.isfinite(self.period)
        turn = np.where(angle, self.period, 1.0)
        return np.where(angle, away - turn * np.round(away / turn), away)


def sample(model: Any, law: str, key: Array, given: Array, inputs: Inputs) -> Array:
    """One draw."""
    name = SAMPLER[law]
    arguments = (key,) if law == "initial" else (key, given, inputs)
    return call(f"model.{name}", getattr(model, name), *arguments)


def log_density(model: Any, law: str, given: Array, value: Array, inputs: Inputs) -> Array:
    """Its joint log-density."""
    name = DENSITY[law]
    arguments = (value,) if law == "initial" else (given, value, inputs)
    return call(f"model.{name}", getattr(model, name), *arguments)


def probes(dim_input: int, num: int = NUM_POINTS) -> Inputs:
    """Inputs at the first `num` points; the last step is a short one."""
    dt = np.ones_like(normal(0, NUM_POINTS))
    dt[-1] = 0.5
    return Inputs(jnp.asarray(normal(1, NUM_POINTS, dim_input)[:num]), jnp.asarray(dt[:num]))


def probe(inputs: Inputs) -> Inputs:
    """The first of them."""
    return jax.tree.map(lambda v: jnp.asarray(np.asarray(v)[0]), inputs)


def look(model: Any, trained: PyTree, law: str, given: np.ndarray, seed: int) -> Seen:
    """Draw from one law at every point; `trained` filters the leaves whose score is wanted."""
    theta, rest = eqx.partition(model, trained)
    num, inputs = len(given), probes(model.dim_input, len(given))
    size = sum(leaf.size for leaf in jax.tree.leaves(theta))
    batch = next(n for n in (NUM_DRAWS, 200, 20) if n == 20 or n * size < 1e6)
    split = keys(seed + LAWS.index(law), NUM_DRAWS // batch, num, batch)
    found = _look(theta, rest, law, jnp.asarray(given), inputs, split)
    found = jax.tree.map(np.asarray, found)
    draws, log_prob, slope = (
        np.moveaxis(v, 1, 0).reshape(num, NUM_DRAWS, *v.shape[3:]) for v in found[:3]
    )
    first = keys(seed + LAWS.index(law), NUM_DRAWS // batch, num, batch, at=(0, 0, 0))
    return Seen(given, inputs, first, draws, log_prob, slope, *found[3:])


@quick_jit
def _look(
    theta: PyTree, rest: PyTree, law: str, given: Array, inputs: Inputs, split: Array
) -> tuple[PyTree, ...]:
    def density(theta, value, u, given, dt):
        return log_density(eqx.combine(theta, rest), law, given, value, Inputs(u, dt))

    def one(key, given, inputs):
        value = sample(eqx.combine(theta, rest), law, key, given, inputs)
        both = jax.value_and_grad(density, (0, 1, 2))
        log_prob, slopes = both(theta, value, inputs.u, given, inputs.dt)
        return value, log_prob, slopes

    def add(sums, split):
        draw = jax.vmap(jax.vmap(one, (0, None, None)))
        value, log_prob, (in_theta, slope, in_u) = draw(split, given, inputs)
        new = in_theta, jax.tree.map(jnp.square, in_theta), jnp.abs(in_u)
        sums = jax.tree.map(lambda s, v: s + jnp.sum(v, 1), sums, new)
        return sums, (value, log_prob, slope)

    zero = jax.tree.map(
        lambda v: jnp.zeros((len(given), *v.shape), v.dtype), (theta, theta, inputs.u[0])
    )
    if len(split) == 1:
        sums, kept = add(zero, split[0])
        kept = jax.tree.map(lambda v: v[None], kept)
    else:
        sums, kept = jax.lax.scan(add, zero, split)
    low, high = (f(kept[0], (0, 2)) for f in (jnp.min, jnp.max))
    ends = jnp.stack([low - FAR * (high - low), high + FAR * (high - low)], 1)

    def beyond(end, base, given, inputs):
        moved = jnp.where(jnp.eye(base.size, dtype=bool), end[None], base[None])
        return jax.vmap(lambda v: density(theta, v, inputs.u, given, inputs.dt))(moved)

    far = jax.vmap(jax.vmap(beyond, (0, None, None, None)))(ends, kept[0][0, :, 0], given, inputs)

    def turned(value, log_prob, given, inputs):
        eye = jnp.eye(value.size, dtype=value.dtype)
        shifts = jnp.asarray(TURNS, value.dtype)[:, None, None] * eye[None]
        moved = jax.vmap(jax.vmap(lambda v: density(theta, value + v, inputs.u, given, inputs.dt)))
        return moved(shifts) - log_prob

    some, found = (v[0, :, :NUM_TURNED] for v in kept[:2])
    by_turn = jax.vmap(jax.vmap(turned, (0, 0, None, None)))(some, found, given, inputs)
    return (*kept, far, by_turn, *jax.tree.map(lambda v: v / NUM_DRAWS, sums))
