"""How much of a gradient is signal, of a sample is effective, of the past is still felt."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from rmcvi.core import tree
from rmcvi.core.checks import check_real


def _squared_norm(grads: PyTree) -> Float[Array, ""]:
    return sum((jnp.sum(g**2) for g in jax.tree.leaves(grads)), start=jnp.zeros(()))


class SignalToNoiseState(eqx.Module):
    """Exponentially weighted sums over gradients, and over their weights w."""

    count: Int[Array, ""]
    """Gradients seen."""
    mean: PyTree
    """sum w g."""
    square: Float[Array, ""]
    """sum w |g|^2."""
    weight: Float[Array, ""]
    """sum w."""
    weight_square: Float[Array, ""]
    """sum w^2."""


class SignalToNoise(eqx.Module):
    """Running signal-to-noise ratio |E g|^2 / E|g|^2 of a gradient: 1 = no noise, 0 = only noise.

    With normalised weights, |sum w g|^2 exceeds |E g|^2 by k (E|g|^2 - |E g|^2), k = sum w^2, for
    independent gradients. That excess is taken out, so pure noise averages to 0, and single values
    may fall a little below.
    """

    decay: float = eqx.field(static=True, default=0.99)

    def __check_init__(self):
        check_real("decay", self.decay, 0.0, 1.0)

    def init(self, grads: PyTree) -> SignalToNoiseState:
        """Nothing seen yet; `grads` gives the shapes."""
        zero = jnp.zeros(())
        return SignalToNoiseState(jnp.zeros((), int), tree.zeros(grads), zero, zero, zero)

    def step(
        self, state: SignalToNoiseState, grads: PyTree
    ) -> tuple[SignalToNoiseState, Float[Array, ""]]:
        """Take in a gradient (skipped if not finite); the ratio is NaN before the second one."""
        a, square = self.decay, _squared_norm(grads)
        new = SignalToNoiseState(
            state.count + 1,
            jax.tree.map(lambda m, g: a * m + (1.0 - a) * g, state.mean, grads),
            a * state.square + (1.0 - a) * square,
            a * state.weight + (1.0 - a),
            a**2 * state.weight_square + (1.0 - a) ** 2,
        )
        state = tree.where(jnp.isfinite(square), new, state)
        k = state.weight_square / state.weight**2
        signal = _squared_norm(state.mean) / (state.weight * state.square)
        return state, jnp.where(state.count > 1, (signal - k) / (1.0 - k), jnp.nan)


def effective_sample_size(log_weights: Float[Array, "*batch n"]) -> Float[Array, "*batch"]:
    """(sum w)^2 / sum w^2 along the last axis, from log-weights that need not be normalised.

    Between 1 and n; 0 if no weight is positive.
    """
    top = jnp.max(log_weights, axis=-1, keepdims=True)
    w = jnp.exp(log_weights - jnp.where(top == -jnp.inf, 0.0, top))
    total, square = jnp.sum(w, -1), jnp.sum(w**2, -1)
    return jnp.where(total == 0.0, 0.0, total**2 / jnp.where(total == 0.0, 1.0, square))


def contraction_rate(mass: Float[Array, "lags"], floor: float = 1e-5) -> Float[Array, ""]:
    """Factor per lag of a geometric fit mass_l ~ c r^l, by least squares on the logarithms.

    Lags below `floor` times the largest mass hold rounding, or nothing yet, and are left out.

    Args:
        mass: `Info.mass`, or its average over time.
        floor: smallest share of the largest mass that counts.

    Returns:
        r, or NaN if fewer than two lags count.
    """
    counts = (mass > floor * jnp.nanmax(mass)) & jnp.isfinite(mass)
    lag = jnp.arange(mass.size, dtype=mass.dtype)
    log_mass = jnp.log(jnp.where(counts, mass, 1.0))
    total = jnp.sum(counts)
    share = counts / jnp.maximum(total, 1)
    centred = lag - share @ lag
    variance = share @ centred**2
    slope = share @ (centred * log_mass) / jnp.where(total > 1, variance, 1.0)
    return jnp.where(total > 1, jnp.exp(slope), jnp.nan)
