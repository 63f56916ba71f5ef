"""NaturalRMCVI with several components: exact where one is, and right where one is not."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import rmcvi
from rmcvi.baselines import kalman_filter, kalman_smoother, score
from rmcvi.core.gaussian import covariance_of
from rmcvi.models import zoo
from rmcvi.recursion.gaussian_law import Law, Prediction
from rmcvi.recursion.mixture_cut import WEIGHTS, Cut, cut_weights
from rmcvi.recursion.mixture_law import Mixture
from tests.recursion.test_natural_full import FAMILY, MODELS, follow, stream


@pytest.mark.parametrize("name", ["correlated", "integrator"])
def test_on_linear_models_it_is_the_kalman_filter_and_its_score(name: str) -> None:
    """Nothing is cut, and equal components join as they are."""
    model = MODELS[name]()
    ys, inputs = stream(model, 30)
    recursion = rmcvi.NaturalRMCVI(6, num_steps=1, components=3)
    carry, smoothed, grads, info = follow(recursion, model, ys, inputs)
    exact = kalman_filter(model, ys, inputs)
    np.testing.assert_allclose(carry.mean, exact.mean, atol=1e-8)
    np.testing.assert_allclose(carry.covariance, exact.covariance, atol=1e-8)
    np.testing.assert_allclose(info.elbo, exact.log_evidence, atol=1e-7)
    truth = score(model, ys, inputs)
    for told, slope in zip(jax.tree.leaves(grads), jax.tree.leaves(truth), strict=True):
        np.testing.assert_allclose(told.sum(0), slope, rtol=1e-7, atol=1e-7)
    last = kalman_smoother(model, ys, inputs).mean[-2]
    np.testing.assert_allclose(smoothed[-1], last, atol=1e-7)


def test_a_cut_keeps_the_moments() -> None:
    """Mean and covariance in three dimensions; along the cut all moments up to the fifth."""
    key = jax.random.key(0)
    law = Law(jnp.arange(3.0), jax.random.normal(key, (3, 3)))
    points = jax.random.normal(jax.random.key(1), (20, 3))
    cut = Cut.along(points, points[:, 1] ** 2, jnp.ones(()))
    pieces = Mixture(cut_weights(jnp.ones(1)), cut.law(law))
    moments = pieces.moments(jnp.asarray(False))
    np.testing.assert_allclose(moments.mean, law.mean, atol=1e-12)
    np.testing.assert_allclose(moments.covariance, covariance_of(law.root), atol=1e-12)
    assert float(jnp.max(jnp.abs(pieces.law.mean - law.mean[None]))) > 0.5
    one = Cut.along(points[:, :1], jnp.ones(20), jnp.ones(()))
    centres, width = one.shift[:, 0], one.narrow[0, 0]
    fourth = WEIGHTS @ (centres**4 + 6.0 * centres**2 * width**2 + 3.0 * width**4)
    np.testing.assert_allclose(fourth, 3.0, rtol=1e-12)
    still = Cut.along(points, jnp.ones(20), jnp.zeros(()))
    np.testing.assert_array_equal(still.narrow, jnp.eye(3))
    np.testing.assert_array_equal(still.shift, 0.0)


def test_a_cut_prediction_leads_back_to_the_same_law() -> None:
    draws = jax.random.normal(jax.random.key(0), (5, 2, 2))
    prior = Prediction(draws[0, 0], draws[1], draws[2, 0], draws[3], draws[4])
    cut = Cut.along(jax.random.normal(jax.random.key(1), (9, 2)), jnp.arange(9.0), jnp.ones(()))
    pieces = cut.prediction(prior)
    weight = cut_weights(jnp.ones(1))
    # x_t and E[x_{t-1} | x_t] together, of the whole and of its pieces
    both = Law(
        jnp.concatenate([pieces.mean, pieces.before], 1),
        jnp.concatenate([pieces.root, pieces.gain], 1) @ jnp.eye(2, 4)[None],
    )
    found = Mixture(weight, both).moments(jnp.asarray(False))
    whole = jnp.concatenate([prior.root, prior.gain], 0)
    np.testing.assert_allclose(found.mean, jnp.concatenate([prior.mean, prior.before]), atol=1e-12)
    np.testing.assert_allclose(found.covariance, whole @ whole.T, atol=1e-12)


def test_neighbours_join_and_modes_stay() -> None:
    """Moments of the whole stay, twelve become three, and none of them bridges the modes."""
    near = 0.1 * jax.random.normal(jax.random.key(0), (12, 1))
    mean = near + jnp.repeat(jnp.array([-10.0, 0.0, 10.0]), 4)[:, None]
    weight = jax.nn.softmax(jax.random.normal(jax.random.key(1), (12,)))
    many = Mixture(weight, Law(mean, jnp.full((12, 1, 1), 0.5)))
    few = many.joined(*many.joins(3))
    np.testing.assert_allclose(jnp.sort(few.law.mean[:, 0]), [-10.0, 0.0, 10.0], atol=0.2)
    assert float(few.law.root.max()) < 0.6
    before, after = (v.moments(jnp.asarray(False)) for v in (many, few))
    np.testing.assert_allclose(after.mean, before.mean, atol=1e-12)
    np.testing.assert_allclose(after.covariance, before.covariance, atol=1e-12)
    copies = Mixture.copies(Law(jnp.ones(2), jnp.eye(2)), 8)
    same = copies.joined(*copies.joins(4))
    np.testing.assert_allclose(same.law.root, copies.law.root[:4], atol=1e-12)
    np.testing.assert_allclose(jnp.sum(same.weight), 1.0, atol=1e-12)
