"""The window of recent steps, and how far each of their particles still counts.

d_t = 1/N,  d_{t-1} = W_t' (1/N) - 1/N,  d_{s-1} = W_s' d_s.

d_{t-1} has zero mass, so |d_s| contracts: a window of L steps is enough, and |d| at its end says
so; where it is negligible sooner, the rest of the window is not worked on.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rmcvi.recursion.cloud import Slot


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

        def copied(old, filler):
            ring = jnp.broadcast_to(filler, (length, *filler.shape))
            return ring.at[times % length].set(old[times % self.length])

        return Window(jax.tree.map(copied, self.slots, slot), self.filled)


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
        step = (row, pushed[0], pushed[1:], jnp.sum(jnp.abs(row)))
        places = (at, at, at, lag)
        return lag + 1, new, tuple(map(_write, found, step, places))

    shapes = ((length, num), (length, num), (length, dim, num), (length,))
    empty = tuple(jnp.zeros(shape, x.dtype) for shape in shapes)
    lag = jnp.zeros((), int)
    _, last, (row, column, cross, mass) = jax.lax.while_loop(goes_on, back, (lag, newest, empty))
    beyond = jnp.sum(jnp.abs(last - newest if reuse else last))
    return Adjoint(row, column, cross, mass, beyond)
