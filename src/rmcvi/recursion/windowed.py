"""The windowed adjoint gradient: the forward recursion read backwards (docs/theory/windowed.md).

grad L_t - grad L_{t-1}
    = sum_s sum_i d_s[i] grad{ <eta_{s-1} + eta~(x_si), c_si> + Entropy } + terminals
d_t = 1/N,  d_{t-1} = W_t' (1/N) - 1/N,  d_{s-1} = W_s' d_s.

d_{t-1} has zero mass, so |d_s| contracts: a window of L steps is enough, and |d| at its end says
so; where it is negligible sooner, the rest of the window is not worked on. Cost O(L (N^2 + N P))
and memory O(L N^2), free of any N x P term.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from rmcvi.contract import Gradients
from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
from rmcvi.families import AbstractFamily
from rmcvi.models import AbstractGaussianModel, AbstractModel
from rmcvi.recursion.blocks import summed_gradient
from rmcvi.recursion.history import History
from rmcvi.recursion.value import Cloud, Slot, Value


class Window(eqx.Module):
    """The last L slots in a ring: step s lies at s mod L."""

    slots: Slot
    filled: Int[Array, ""]
    """Number of slots that hold a step."""

    @classmethod
    def empty(cls, length: int, slot: Slot) -> "Window":
        """L copies of a slot without weight."""
        slots = jax.tree.map(lambda v: jnp.broadcast_to(v, (length, *v.shape)), slot)
        return cls(slots, jnp.zeros((), int))

    @property
    def length(self) -> int:
        """L."""
        return self.slots.x.shape[0]

    def put(self, t: Int[Array, ""], slot: Slot) -> "Window":
        """Overwrite the oldest slot."""
        filled = jnp.minimum(self.filled + 1, self.length)
        at = t % self.length
        slots = jax.tree.map(lambda ring, new: _write(ring, new, at), self.slots, slot)
        return Window(slots, filled)

    def lengthened(self, t: Int[Array, ""], length: int, slot: Slot) -> "Window":
        """The same steps in a ring of `length`, after `t` steps; `slot` fills the rest."""
        times = t - 1 - jnp.arange(self.length)

        def spread(old, filler):
            ring = jnp.broadcast_to(filler, (length, *filler.shape))
            return ring.at[times % length].set(old[times % self.length])

        return Window(jax.tree.map(spread, self.slots, slot), self.filled)


def _write(ring: Array, new: Array, at: Int[Array, ""]) -> Array:
    return jax.lax.dynamic_update_index_in_dim(ring, new, at, 0)


class Adjoint(eqx.Module):
    """Coefficients of the window's steps, in ring order."""

    row: Float[Array, "lags n"]
    """d_s."""
    column: Float[Array, "lags n"]
    """W_s' d_s."""
    cross: Float[Array, "lags dx n"]
    """W_s' (d_s * (x_s - mean x_s)): all a Gaussian transition needs to know of the pairs."""
    mass: Float[Array, "lags"]
    """|d_s|_1, newest first."""
    beyond: Float[Array, ""]


def sweep(
    window: Window, t: Int[Array, ""], reuse: bool = False, negligible: float = 0.0
) -> Adjoint:
    """Push the newest step's mass back through the window, one matrix product per lag.

    Once no more than `negligible` of it is left, older steps are not looked at. With `reuse` the
    mass of the step before is not taken off: the increments of all steps in the window are summed,
    and averaged over them (docs/theory/windowed.md, W14).
    """
    x = window.slots.x
    length, num, dim = x.shape
    uniform = jnp.full(num, 1.0 / num, x.dtype)
    newest = uniform / jnp.maximum(window.filled, 1) if reuse else uniform

    def goes_on(loop):
        lag, d, _ = loop
        # Not "greater than", so that a mass that is not a number shows.
        return (lag < length) & ~(jnp.sum(jnp.abs(d)) <= negligible * jnp.sum(newest))

    def back(loop):
        lag, d, found = loop
        at = (t - lag) % length
        slot = jax.tree.map(lambda v: jax.lax.dynamic_index_in_dim(v, at, 0, False), window.slots)
        deviation = (slot.x - jnp.mean(slot.x, 0, keepdims=True)).T
        alive = (lag < window.filled).astype(d.dtype)
        linked = alive * (lag < t)
        pushed = linked * slot.weights.push(jnp.concatenate([d[None], d[None] * deviation]))
        new, row = pushed[0], alive * d
        if not reuse:
            new = new - jnp.where(lag == 0, linked * uniform, jnp.zeros_like(d))
        told = (row, pushed[0], pushed[1:], jnp.sum(jnp.abs(row)))
        places = (at, at, at, lag)
        return lag + 1, new, tuple(map(_write, found, told, places))

    shapes = ((length, num), (length, num), (length, dim, num), (length,))
    empty = tuple(jnp.zeros(shape, x.dtype) for shape in shapes)
    lag = jnp.zeros((), int)
    _, last, (row, column, cross, mass) = jax.lax.while_loop(goes_on, back, (lag, newest, empty))
    beyond = jnp.sum(jnp.abs(last - newest if reuse else last))
    return Adjoint(row, column, cross, mass, beyond)


def windowed_gradients(
    model: tuple[PyTree, PyTree],
    family: tuple[PyTree, PyTree],
    window: Window,
    history: History,
    before: Cloud,
    value: Value,
    chains: tuple[PyTree, PyTree],
    pull: Any,
    t: Int[Array, ""],
    entropy: str,
    reuse: bool,
    negligible: float,
) -> tuple[Gradients, Adjoint]:
    """Both gradient increments; `model` and `family` come as (trained, rest) partitions."""
    length = window.length
    adjoint = sweep(window, t, reuse, negligible)
    ring = (t - length + 1 + jnp.arange(length)) % length
    order = length - 1 - (t - jnp.arange(length)) % length
    recent = jax.tree.map(lambda v: v[-length:][order], (history.y, history.inputs))
    time = t - length + 1 + order

    theta, phi = model[0], family[0]
    if tree.has_arrays(phi):
        fixed = eqx.combine(*model)

        def past(phi, carry, slot, particles):
            q = eqx.combine(phi, family[1])
            (inputs, origin), (x, c, d) = slot, particles
            return backward_score(q, fixed, carry, inputs, origin, x, c, d, entropy)

        def ends(phi, before_carry, now_carry):
            q = eqx.combine(phi, family[1])
            if reuse:
                return reused_terminal(q, before_carry, now_carry, window, value, t, entropy)
            return terminal_score(q, now_carry, before, value, t, entropy)

        slots, linked = window.slots, adjoint.row * (time > 0)[:, None]
        phi_past, past_bar = summed_gradient(
            past,
            phi,
            jax.tree.map(lambda v: v[order], chains[0]),
            (recent[1], slots.origin),
            (slots.x, slots.coefficient, linked),
            jnp.any(linked != 0.0, 1),
        )
        phi_ends, before_bar, now_bar = jax.grad(ends, (0, 1, 2))(phi, *chains)
        before_bar = jax.tree.map(lambda v, w: v + w[ring], before_bar, past_bar)
        phi = tree.add(tree.add(phi_past, phi_ends), pull((before_bar, now_bar))[0])
    if tree.has_arrays(theta):
        theta = model_gradient(*model, window.slots, adjoint, time, *recent)
    return Gradients(theta, phi), adjoint


def backward_score(
    family: AbstractFamily,
    model: AbstractModel,
    carry: PyTree,
    inputs: Inputs,
    origin: Float[Array, "dx"],
    x: Float[Array, "n dx"],
    coefficient: PyTree,
    d: Float[Array, "n"],
    entropy: str,
) -> Float[Array, ""]:
    """sum_i d[i] {<eta_{s-1} + eta~(x_i), c_i> + Entropy} of one step, all but phi constant."""
    q, eta_prev = family.distribution, family.marginal(carry)

    def particle(x, c):
        eta = tree.add(eta_prev, family.potential(model, carry, x, inputs))
        score = tree.vdot(q.relative(eta, origin), c)
        return score + q.entropy(eta) if entropy == "closed" else score

    return jnp.dot(d, jax.vmap(particle)(x, coefficient))


def _terminal(
    family: AbstractFamily, carry: PyTree, ends: Cloud | Slot, entropy: str
) -> Float[Array, ""]:
    """<eta, k> + Entropy(eta)."""
    q, eta = family.distribution, family.marginal(carry)
    linear = tree.vdot(q.relative(eta, ends.origin), ends.terminal)
    return linear if entropy == "sampled" else linear + q.entropy(eta)


def terminal_score(
    family: AbstractFamily,
    carries: PyTree,
    before: Cloud,
    value: Value,
    t: Int[Array, ""],
    entropy: str,
) -> Float[Array, ""]:
    """<eta_t, k_t> + Entropy(eta_t), minus the same at t - 1."""
    last, previous = (jax.tree.map(lambda v, i=i: v[i], carries) for i in (-1, -2))
    now = _terminal(family, last, value.cloud, entropy)
    return now - jnp.where(t > 0, _terminal(family, previous, before, entropy), 0.0)


def reused_terminal(
    family: AbstractFamily,
    before: PyTree,
    now: PyTree,
    window: Window,
    value: Value,
    t: Int[Array, ""],
    entropy: str,
) -> Float[Array, ""]:
    """The same, minus what it was just before the window, averaged over the window's steps."""
    number = window.filled
    edge = jax.tree.map(lambda v: v[window.length - number], before)
    oldest = jax.tree.map(lambda v: v[(t - number + 1) % window.length], window.slots)
    first = _terminal(family, edge, oldest, entropy)
    last = _terminal(family, jax.tree.map(lambda v: v[-1], now), value.cloud, entropy)
    return (last - jnp.where(t - number >= 0, first, 0.0)) / jnp.maximum(number, 1)


def model_gradient(
    theta: PyTree,
    rest: PyTree,
    slots: Slot,
    adjoint: Adjoint,
    time: Int[Array, "lags"],
    y: Float[Array, "lags dy"],
    inputs: Inputs,
) -> PyTree:
    """Gradient of sum_s sum_i d_s[i] {sum_j w_ij log m(x_j, x_i) + log g(x_i, y_s)}.

    At s = 0, which only ever lies first in the ring, log chi takes the place of log m.
    """

    def score(theta, _, slot, particles):
        slot, cross, y, inputs = slot
        row, linked, column = particles
        model: AbstractModel = eqx.combine(theta, rest)
        log_g = jax.vmap(lambda x: model.observed_log_prob(x, y, inputs))(slot.x)
        return jnp.dot(row, log_g) + transition_score(model, slot, linked, column, cross.T, inputs)

    def start(theta):
        log_chi = jax.vmap(eqx.combine(theta, rest).initial_log_prob)(slots.x[0])
        return jnp.where(time[0] == 0, jnp.dot(adjoint.row[0], log_chi), 0.0)

    linked = adjoint.row * (time > 0)[:, None]
    particles = (adjoint.row, linked, adjoint.column)
    per_slot = (slots, adjoint.cross, y, inputs)
    later, _ = summed_gradient(
        score, theta, None, per_slot, particles, jnp.any(adjoint.row != 0.0, 1), whole=True
    )
    return tree.add(later, jax.grad(start)(theta))


def transition_score(
    model: AbstractModel,
    slot: Slot,
    row: Float[Array, "n"],
    column: Float[Array, "n"],
    cross: Float[Array, "n dx"],
    inputs: Inputs,
) -> Float[Array, ""]:
    """sum_ij d[i] w_ij log m(x_j, x_i): from moments where the noise is Gaussian, else by pairs."""
    if isinstance(model, AbstractGaussianModel):
        return model.moment_log_prob(slot.x_prev, slot.x, row, column, cross, inputs)
    return jnp.dot(row, slot.weights.mean_transition(model, slot.x_prev, slot.x, inputs))
