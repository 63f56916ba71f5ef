"""The pathwise ELBO against the ideal one, and training over epochs against the evidence."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import rmcvi
from rmcvi import Trainable
from rmcvi.baselines import log_evidence, pathwise_elbo, train_offline
from rmcvi.families import LinearGaussianFamily
from rmcvi.models import LinearGaussian
from rmcvi.recursion import ideal_elbo
from tests.baselines._linear import full_case, z_score

RUNS, WAYS, STEP = 2000, 3, 1e-5


class Slopes(NamedTuple):
    """Values of all runs, their slopes along random directions in theta and phi, and the truth."""

    value: Any
    slope: Any
    exact_value: Any
    exact_slope: Any


@functools.cache
def slopes() -> Slopes:
    """Two states, gaps, inputs, uneven steps; q is the posterior of another model."""
    case = full_case(6)
    other = jax.tree.map(lambda v: v + 0.1, case.model)
    start = (case.model, LinearGaussianFamily(other))
    flat, unravel = ravel_pytree(eqx.filter(start, eqx.is_inexact_array))
    rest, ys = eqx.filter(start, eqx.is_inexact_array, inverse=True), jnp.asarray(case.ys)

    def estimate(flat, key):
        model, family = eqx.combine(unravel(flat), rest)
        return pathwise_elbo(model, family, ys, case.inputs, key=key, num=2)

    @jax.jit
    def ideal(flat, u, dt):
        model, family = eqx.combine(unravel(flat), rest)
        return ideal_elbo(model, family, ys, u, dt)[-1]

    @jax.jit
    def along(flat, ways, keys):
        def one(way, key):
            return jax.jvp(lambda v: estimate(v, key), (flat,), (way,))

        return jax.vmap(lambda key: jax.vmap(one, (0, None))(ways, key))(keys)

    ways = np.random.default_rng(0).normal(size=(WAYS, flat.size))
    value, slope = along(flat, ways, jax.random.split(jax.random.key(0), RUNS))
    start, at = np.asarray(flat), (case.inputs.u, case.inputs.dt)
    ends = [[float(ideal(start + s * way, *at)) for s in (STEP, -STEP)] for way in ways]
    exact = np.subtract(*np.transpose(ends)) / (2.0 * STEP)
    return Slopes(value[:, 0], slope, ideal(start, *at), exact)


def test_value_is_the_ideal_one() -> None:
    got = slopes()
    assert z_score(got.value, float(got.exact_value)) <= 5.0


def test_gradient_is_the_ideal_one() -> None:
    """In theta and in phi together; the slopes are many standard errors away from zero."""
    got = slopes()
    exact, runs = np.asarray(got.exact_slope), np.asarray(got.slope)
    assert z_score(runs, exact) <= 5.0
    se = runs.std(0, ddof=1) / np.sqrt(RUNS)
    assert np.median(np.abs(exact) / np.maximum(se, 1e-12)) > 5.0


@pytest.mark.long
def test_training_closes_the_gap_to_the_evidence() -> None:
    """phi alone: the ELBO rises to the evidence, which q can reach; theta stays where it is."""
    model = LinearGaussian(jnp.array([0.8]), jnp.array([1.0]), 0.5, 0.5)
    family = LinearGaussianFamily(LinearGaussian(jnp.array([0.2]), jnp.array([0.6]), 0.9, 0.9))
    sequences = jnp.stack([rmcvi.simulate(model, jax.random.key(i), 6)[1] for i in (1, 2)])
    out = train_offline(
        model,
        family,
        sequences,
        optax.adam(optax.cosine_decay_schedule(5e-2, 200)),
        200,
        jax.random.key(0),
        trainable=Trainable(model=False),
        num=4,
    )
    exact = np.mean([float(log_evidence(model, ys)) for ys in sequences]) / 6
    assert eqx.tree_equal(out.model, model)
    start, end = float(np.mean(out.elbo[:5])), np.asarray(out.elbo[-40:])
    assert start < exact - 0.1
    assert abs(end.mean() - exact) <= max(5.0 * end.std() / np.sqrt(40), 0.02 * (exact - start))


def test_wrong_calls_are_refused() -> None:
    model = LinearGaussian(jnp.array([0.8]), jnp.array([1.0]), 0.5, 0.5)
    family = LinearGaussianFamily()
    with pytest.raises(ValueError, match="ys: got an array of shape"):
        pathwise_elbo(model, family, jnp.zeros((3, 2)), key=jax.random.key(0))
    with pytest.raises(ValueError, match="epochs: got 0"):
        sequences = jnp.zeros((1, 3, 1))
        train_offline(model, family, sequences, optax.sgd(0.1), 0, jax.random.key(0))
