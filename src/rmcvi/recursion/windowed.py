"""The windowed adjoint gradient: the forward recursion read backwards (docs/theory/windowed.md).

grad L_t - grad L_{t-1}
    = sum_s sum_i d_s[i] grad{ <eta_{s-1} + eta~(x_si), c_si> + Entropy } + terminals

with the coefficients d_s of `adjoint`. Cost O(L (N^2 + N P)) and memory O(L N^2), free of any N x P
term.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from rmcvi.contract import Gradients
from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
from rmcvi.families import AbstractFamily
from rmcvi.models import AbstractModel
from rmcvi.recursion.adjoint import Adjoint, Window, sweep
from rmcvi.recursion.blocks import summed_gradient
from rmcvi.recursion.cloud import Cloud, Slot, Value
from rmcvi.recursion.history import History


class Replayed(eqx.Module):
    """The recent carries, recomputed with the current phi, and the derivative of that."""

    chains: tuple[PyTree, PyTree]
    """a_{s-1} of the window's steps, and a_s of the last two."""
    pull: Callable[[tuple[PyTree, PyTree]], tuple[PyTree]]
    """Cotangents of both to one of phi, as `jax.vjp` gives it."""


class WindowSettings(eqx.Module):
    """How the window is used; `RMCVI` says what these are."""

    entropy: str = eqx.field(static=True)
    reuse: bool = eqx.field(static=True)
    negligible: float = eqx.field(static=True)


def windowed_gradients(
    parts: tuple[tuple[PyTree, PyTree], tuple[PyTree, PyTree]],
    window: Window,
    history: History,
    value: Value,
    replayed: Replayed,
    t: Int[Array, ""],
    settings: WindowSettings,
) -> tuple[Gradients, Adjoint]:
    """Both gradient increments, and the coefficients behind them.

    Args:
        parts: (trained, rest) partitions of the model and of the family.
        window: the last steps, that of t among them.
        history: their observations and inputs.
        value: h, weights and coefficients of t.
        replayed: their carries.
        t: the time.
        settings: how the window is used.
    """
    (model, family), length = parts, window.length
    chains, entropy = replayed.chains, settings.entropy
    adjoint = sweep(window, t, settings.reuse, settings.negligible)
    ring = (t - length + 1 + jnp.arange(length)) % length
    order = length - 1 - (t - jnp.arange(length)) % length
    recent = jax.tree.map(lambda v: v[-length:][order], (history.y, history.inputs))
    time = t - length + 1 + order

    theta, phi = model[0], family[0]
    if tree.has_arrays(phi):
        fixed = eqx.combine(*model)

        def past(phi, carry, slot, particles):
            q = eqx.combine(phi, family[1])
            inputs, origin = slot
            return backward_score(q, fixed, carry, inputs, origin, particles, entropy)

        def ends(phi, before_carry, now_carry):
            q = eqx.combine(phi, family[1])
            if settings.reuse:
                return reused_terminal(q, before_carry, now_carry, window, value, t, entropy)
            return terminal_score(q, now_carry, value, t > 0, entropy)

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
        phi = tree.add(tree.add(phi_past, phi_ends), replayed.pull((before_bar, now_bar))[0])
    if tree.has_arrays(theta):
        theta = model_gradient(*model, window.slots, adjoint, time, *recent)
    return Gradients(theta, phi), adjoint


def backward_score(
    family: AbstractFamily,
    model: AbstractModel,
    carry: PyTree,
    inputs: Inputs,
    origin: Float[Array, "dx"],
    particles: tuple[Float[Array, "n dx"], PyTree, Float[Array, "n"]],
    entropy: str,
) -> Float[Array, ""]:
    """sum_i d[i] {<eta_{s-1} + eta~(x_i), c_i> + Entropy} of one step, all but phi constant.

    Args:
        family: q.
        model: p.
        carry: a_{s-1}.
        inputs: those of s.
        origin: point relative to which the statistics are taken.
        particles: x, c and d.
        entropy: whether it is "closed", and added.
    """
    q, eta_prev = family.distribution, family.marginal(carry)
    x, coefficient, d = particles

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
    value: Value,
    linked: Bool[Array, ""],
    entropy: str,
) -> Float[Array, ""]:
    """<eta_t, k_t> + Entropy(eta_t), minus the same at t - 1 if there is one (`linked`)."""
    last, previous = (jax.tree.map(lambda v, i=i: v[i], carries) for i in (-1, -2))
    now = _terminal(family, last, value.cloud, entropy)
    return now - jnp.where(linked, _terminal(family, previous, value.slot, entropy), 0.0)


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
    if model.gaussian is not None:
        return model.gaussian.moment_log_prob(slot.x_prev, slot.x, row, column, cross, inputs)
    return jnp.dot(row, slot.weights.mean_transition(model, slot.x_prev, slot.x, inputs))
