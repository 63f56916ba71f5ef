"""What models declare as linear is their mean and noise, and tilts add the statistics to them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi import Inputs
from rmcvi.core.gaussian import covariance_of
from rmcvi.models import AbstractGaussianModel, AbstractModel, LinearGaussian, Statistics, Tilted
from tests.models.zoo import BASIC as ZOO

PARTS = [(name, "transition") for name in ZOO]
PARTS += [(name, "emission") for name in ("diagonal", "full", "correlated", "neural")]


def declared(model: AbstractGaussianModel, which: str):
    part = model.linear_transition() if which == "transition" else model.linear_emission()
    assert part is not None
    return part


def held_parts(part):
    return part.coefficients, part.covariance


@pytest.mark.parametrize(("name", "which"), PARTS)
def test_features_and_coefficients_are_the_mean(name: str, which: str) -> None:
    case = ZOO[name]()
    part, x = declared(case.model, which), case.x_prev
    features, a = part.features(x, case.inputs), part.coefficients.value
    mean = part.offset(x, case.inputs) + jnp.einsum("bk,bkm->bm", features, a).ravel()
    noise = np.zeros((mean.size, mean.size))
    blocks, size = part.covariance.value.shape[:2]
    for b in range(blocks):
        at = slice(b * size, (b + 1) * size)
        noise[at, at] = part.covariance.value[b]
    if which == "transition":
        expected = case.model.transition_mean(x, case.inputs)
        scale = case.model.transition_scale(case.inputs)
        noise = noise * float(case.inputs.dt)
    else:
        expected = case.model.emission_mean(x, case.inputs)
        scale = case.laws.emission.factor
    np.testing.assert_allclose(mean, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(noise, covariance_of(jnp.asarray(scale)), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("name", "which"), PARTS)
def test_new_numbers_find_their_leaves(name: str, which: str) -> None:
    """Numbers put into the leaves come out again, and nothing else has moved."""
    model = ZOO[name]().model
    part = declared(model, which)
    values = [0.9 * held.value for held in held_parts(part)]
    moved = model
    for held, value in zip(held_parts(part), values, strict=True):
        moved = eqx.tree_at(held.where, moved, held.leaves(value))
    for held, value in zip(held_parts(declared(moved, which)), values, strict=True):
        np.testing.assert_allclose(held.value, value, rtol=1e-6)
    same = jax.tree.map(lambda a, b: a is b, model, moved)
    touched = sum(len(held.where(model)) for held in held_parts(part))
    assert len(jax.tree.leaves(same)) - sum(jax.tree.leaves(same)) == touched


def tilt(part, key: jax.Array) -> Statistics:
    zeros, keys = Statistics.zeros(part), jax.random.split(key)
    return Statistics(
        *(jax.random.normal(k, v.shape) for k, v in zip(keys, jax.tree.leaves(zeros), strict=True))
    )


@pytest.mark.parametrize("name", ZOO)
def test_tilts_of_pairs_and_of_moments_are_those_of_points(name: str) -> None:
    case = ZOO[name]()
    part = declared(case.model, "transition")
    rng, dim = np.random.default_rng(0), case.model.dim_state
    before, now = rng.normal(size=(4, dim)), 2.0 + rng.normal(size=(6, dim))
    weights = rng.normal(size=(6, 4))
    moments = (weights.sum(1), weights.sum(0), weights.T @ (now - now.mean(0)))

    @jax.jit
    def told(before, now, row, column, cross):
        tilted = Tilted(case.model, tilt(part, jax.random.key(0)), None)
        return (
            AbstractModel.pairwise_log_prob(tilted, before, now, case.inputs),
            case.model.pairwise_log_prob(before, now, case.inputs),
            tilted.pairwise_log_prob(before, now, case.inputs),
            tilted.moment_log_prob(before, now, row, column, cross, case.inputs),
        )

    pairs, plain, fast, total = map(np.asarray, told(before, now, *moments))
    assert np.max(np.abs(fast - plain)) > 1.0
    np.testing.assert_allclose(fast, pairs, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(total, np.sum(weights * pairs), rtol=1e-9)


@pytest.mark.parametrize("name", ["full", "correlated"])
def test_what_is_missing_has_no_statistics(name: str) -> None:
    """A coordinate drops out of its own regression; with correlated noise, the row of all."""
    case = ZOO[name]()
    part = declared(case.model, "emission")
    y = jnp.asarray(case.laws.emission.mean).at[1].set(jnp.nan)

    def value(e):
        return Tilted(case.model, None, e).observed_log_prob(case.x, y, case.inputs)

    zeros = Statistics.zeros(part)
    got, seen = jax.grad(value)(zeros), ~jnp.isnan(y)
    np.testing.assert_allclose(value(zeros), case.model.observed_log_prob(case.x, y, case.inputs))
    if name == "correlated":
        np.testing.assert_array_equal(got.count, 0.0)
        np.testing.assert_array_equal(got.moments, 0.0)
    else:
        v = part.pairs(case.x, y, case.inputs)
        expected = jnp.where(seen[:, None, None], v[:, :, None] * v[:, None], 0.0)
        np.testing.assert_array_equal(got.count, seen)
        np.testing.assert_allclose(got.moments, expected, rtol=1e-12)


def test_a_diagonal_matrix_with_correlated_noise_is_left_to_gradients() -> None:
    half, factor = np.full(2, 0.5), np.array([[0.5, 0.0], [0.1, 0.5]])
    model = LinearGaussian(half, half, factor, factor)
    assert model.linear_transition() is None
    assert model.linear_emission() is None
    log_m = Tilted(model, None, None).transition_log_prob(jnp.ones(2), jnp.zeros(2), Inputs.of())
    expected = model.transition_log_prob(jnp.ones(2), jnp.zeros(2), Inputs.of())
    np.testing.assert_array_equal(log_m, expected)
