"""What a step of the recursion knows: the particles of q_t, and the step as gradients see it."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from rmcvi.contract import Misfit
from rmcvi.core import tree
from rmcvi.families import AbstractFamily
from rmcvi.models import AbstractModel
from rmcvi.recursion.backward import AbstractBackward
from rmcvi.recursion.weights import AbstractWeights


class Cloud(eqx.Module):
    """Particles of q_t and what is known at them."""

    x: Float[Array, "n dx"]
    h: Float[Array, "n"]
    """h_t(x_i), centred; the mean is kept apart (errata A9)."""
    proposal: PyTree
    """Natural parameter from which x was drawn."""
    origin: Float[Array, "dx"]
    terminal: PyTree
    """k, relative to `origin`."""


class Slot(eqx.Module):
    """One step as the gradient sees it: particles, their weights and score coefficients."""

    weights: AbstractWeights
    coefficient: PyTree
    x_prev: Float[Array, "*lags n dx"]
    x: Float[Array, "*lags n dx"]
    origin: Float[Array, "*lags dx"]
    """Point relative to which the statistics of x_prev are taken."""
    terminal: PyTree
    """k of the step before, relative to `origin`."""


class Value(eqx.Module):
    """Everything a step learns before any gradient is taken."""

    cloud: Cloud
    slot: Slot
    mean: Float[Array, ""]
    """Of h over the particles: what must be added to its running offset."""
    entropy: Float[Array, ""]
    """-E log q_t, in closed form or sampled."""
    misfit: Misfit
    """By h - log q_t."""


def empty_cloud(
    family: AbstractFamily, model: AbstractModel, num: int, key: Key[Array, ""]
) -> Cloud:
    """Particles of q_{-1}: placeholders inside the support, never used as data."""
    q, eta = family.distribution, family.marginal(family.initial_carry(model))
    x = q.sample(key, eta, num)
    if x.shape[1] != model.dim_state:
        raise ValueError(
            f"family: got one for {x.shape[1]} state dimensions, expected {model.dim_state}, "
            "those of the model"
        )
    origin = jnp.mean(x, 0)
    return Cloud(x, jnp.zeros(num), eta, origin, tree.zeros(eta))


def is_sound(value: Value) -> Bool[Array, ""]:
    """Whether a step may be kept: its mean, statistics and coefficients are finite."""
    cloud, slot = value.cloud, value.slot
    kept = (value.mean, value.entropy, cloud.x, cloud.h, cloud.terminal, slot.coefficient)
    return tree.all_finite(kept)


def stand_still(backward: AbstractBackward, cloud: Cloud, entropy: Float[Array, ""]) -> Value:
    """A step in which nothing happens, for numbers that must not enter the statistics."""
    slot = standing_slot(backward, cloud)
    return Value(cloud, slot, jnp.zeros_like(entropy), entropy, Misfit.unknown(entropy))


def standing_slot(backward: AbstractBackward, cloud: Cloud) -> Slot:
    """A slot in which every particle stays where it is and nothing is learned."""
    num = cloud.x.shape[0]
    coefficient = tree.zeros(cloud.terminal, num)
    weights = backward.identity(num, cloud.terminal)
    return Slot(weights, coefficient, cloud.x, cloud.x, cloud.origin, cloud.terminal)
