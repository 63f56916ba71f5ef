"""Offline variational inference: the pathwise ELBO of whole sequences, and training over epochs.

    x_T ~ q_T,   x_{t-1} ~ q_{t-1|t}(x_t, .),
    L = E[log p(x_{0:T}, y_{0:T}) + Entropy(q_T) + sum_t Entropy(q_{t-1|t}(x_t, .))].

Draws are differentiable functions of phi, so `jax.grad` goes through the sampled trajectories (the
paper's "backward sampling"). All of y is kept: this is what online learning does without.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from rmcvi.contract import Trainable
from rmcvi.core import tree
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_instance, check_int
from rmcvi.core.inputs import Inputs
from rmcvi.families import AbstractFamily
from rmcvi.models import AbstractModel


class Trained(eqx.Module):
    """Model, family and the ELBO per observation before each epoch's step."""

    model: Any
    family: Any
    elbo: Float[Array, "epochs"]


def pathwise_elbo(
    model: AbstractModel,
    family: AbstractFamily,
    ys: Float[Array, "T dy"],
    inputs: Inputs | None = None,
    *,
    key: Key[Array, ""],
    num: int = 1,
) -> Float[Array, ""]:
    """Unbiased estimate of the ELBO from `num` trajectories, NaN = not observed; differentiable.

    As in the recursion, a family tied to the model sees it as a constant.
    """
    check_instance("model", model, AbstractModel)
    check_instance("family", family, AbstractFamily)
    check_int("num", num)
    check_array("ys", ys, (None, model.dim_obs))
    inputs = Inputs.checked(inputs, (len(ys),), model.dim_input)
    frozen, q = jax.lax.stop_gradient(model), family.distribution

    def advance(carry, now):
        carry = family.advance(frozen, carry, *now)
        return carry, carry

    _, carries = jax.lax.scan(advance, family.initial_carry(frozen), (ys, inputs))
    last = jax.tree.map(lambda v: v[-1], carries)
    before = jax.tree.map(lambda v: v[:-1], carries)
    later = jax.tree.map(lambda v: v[1:], (ys, inputs))
    eta_last = family.marginal(last)
    y_0, inputs_0 = jax.tree.map(lambda v: v[0], (ys, inputs))

    def trajectory(key):
        k_last, k_rest = jax.random.split(key)

        def back(x, link):
            carry_prev, (y, now), k = link
            potential = family.potential(frozen, carry_prev, x, now)
            eta = tree.add(family.marginal(carry_prev), potential)
            x_prev = q.sample(k, eta, 1)[0]
            log_m = model.transition_log_prob(x_prev, x, now)
            return x_prev, log_m + model.observed_log_prob(x, y, now) + q.entropy(eta)

        links = (before, later, jax.random.split(k_rest, len(ys) - 1))
        x, terms = jax.lax.scan(back, q.sample(k_last, eta_last, 1)[0], links, reverse=True)
        start = model.initial_log_prob(x) + model.observed_log_prob(x, y_0, inputs_0)
        return start + jnp.sum(terms)

    return jnp.mean(jax.vmap(trajectory)(jax.random.split(key, num))) + q.entropy(eta_last)


def train_offline(
    model: AbstractModel,
    family: AbstractFamily,
    sequences: Float[Array, "s T dy"],
    optimiser: optax.GradientTransformation,
    epochs: int,
    key: Key[Array, ""],
    *,
    inputs: Inputs | None = None,
    trainable: Trainable | None = None,
    num: int = 1,
) -> Trained:
    """Steps of `optimiser`, each on all sequences; compiled once, over all epochs.

    Args:
        model: where p starts.
        family: where q starts.
        sequences: observations, NaN = not observed.
        optimiser: optax transformation, meant for descent.
        epochs: number of steps.
        key: for the trajectories.
        inputs: of the sequences, with their two leading axes (default: none).
        trainable: which leaves are trained (default: all).
        num: trajectories per sequence and step.
    """
    check_int("epochs", epochs)
    check_array("sequences", sequences, (None, None, model.dim_obs))
    inputs = Inputs.checked(inputs, sequences.shape[:2], model.dim_input)
    trainable = trainable or Trainable()
    theta, theta_rest = eqx.partition(model, trainable.model)
    phi, phi_rest = eqx.partition(family, trainable.family)
    parts = (theta, phi), (theta_rest, phi_rest)
    data = (sequences, inputs)
    (model, family), elbo = _train(optimiser, trainable, epochs, num, parts, data, key)
    return Trained(model, family, elbo)


@eqx.filter_jit
def _train(
    optimiser: optax.GradientTransformation,
    trainable: Trainable,
    epochs: int,
    num: int,
    parts: tuple[Any, Any],
    data: tuple[Float[Array, "s T dy"], Inputs],
    key: Key[Array, ""],
) -> tuple[tuple[Any, Any], Float[Array, "epochs"]]:
    (start, rest), (sequences, inputs) = parts, data

    def loss(learned, keys):
        model, family = eqx.combine(learned, rest)

        def elbo(ys, inputs, key):
            return pathwise_elbo(model, family, ys, inputs, key=key, num=num)

        return -jnp.mean(jax.vmap(elbo)(sequences, inputs, keys)) / sequences.shape[1]

    def epoch(loop, key):
        learned, memory = loop
        value, slope = jax.value_and_grad(loss)(learned, jax.random.split(key, len(sequences)))
        update, memory = optimiser.update(slope, memory, learned)
        theta, phi = eqx.apply_updates(learned, update)
        phi = eqx.filter(eqx.combine(phi, rest[1]).project(), trainable.family)
        return ((theta, phi), memory), -value

    loop, elbos = jax.lax.scan(epoch, (start, optimiser.init(start)), jax.random.split(key, epochs))
    return eqx.combine(loop[0], rest), elbos
