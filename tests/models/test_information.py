"""Descriptions of a model for Kalman-like families: Fisher information, Jacobians, locations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi.models import AbstractGaussianModel
from tests.models.zoo import ZOO, Case

NUM = 4000


@eqx.filter_jit
def _scores(case: Case, masks, y):
    """Rows of the information and the scores of all y, per mask."""
    model, inputs = case.model, case.inputs

    def one(seen):
        masked = jnp.where(seen[None] > 0.0, y, jnp.nan)
        score = jax.vmap(lambda v: jax.grad(model.observed_log_prob)(case.x, v, inputs))(masked)
        return model.emission_information(case.x, seen, inputs), score

    return jax.vmap(one)(masks)


@pytest.mark.parametrize("name", ZOO)
def test_information_is_the_covariance_of_the_score(name):
    case = ZOO[name]()
    dim = case.model.dim_obs
    masks = np.stack([np.ones(dim), np.arange(dim) != 0, np.zeros(dim)])
    y = case.laws.emission.sample(np.random.default_rng(0), NUM)
    information = _scores(case, jnp.asarray(masks), jnp.asarray(y))
    for seen, rows, score in zip(masks, *map(np.asarray, information), strict=True):
        products = score[:, :, None] * score[:, None, :]
        error = products.std(0) / NUM**0.5
        gap = np.abs(np.mean(products, 0) - rows.T @ rows)
        assert np.all(gap <= 5.0 * error + 1e-12)
        if not seen.any():
            np.testing.assert_array_equal(rows, 0.0)


@eqx.filter_jit
def _descriptions(case: Case):
    model, inputs = case.model, case.inputs
    return (
        model.emission_mean(case.x, inputs),
        model.emission_scale(case.x, inputs),
        model.transition_mean(case.x_prev, inputs),
        model.transition_jacobian(case.x_prev, inputs),
        jax.jacrev(model.transition_mean)(case.x_prev, inputs),
    )


@pytest.mark.parametrize("name", ZOO)
def test_locations_spreads_and_jacobians(name):
    case = ZOO[name]()
    mean, scale, moved, jacobian, by_hand = _descriptions(case)
    law = case.laws.emission
    np.testing.assert_allclose(mean, law.mean, rtol=1e-10)
    np.testing.assert_allclose(scale, law.scale, rtol=1e-10)
    np.testing.assert_allclose(moved, case.laws.transition.mean, rtol=1e-10)
    np.testing.assert_allclose(jacobian, by_hand, rtol=1e-12)


@pytest.mark.parametrize("name", ["diagonal", "full"])
def test_what_follows_from_mean_and_scale_is_what_was_written_by_hand(name):
    case = ZOO[name]()
    model, inputs, key = case.model, case.inputs, jax.random.key(1)
    seen = jnp.ones(model.dim_obs).at[0].set(0.0)
    y = jnp.asarray(case.laws.emission.near())
    for method, arguments in (
        ("emission_information", (case.x, seen, inputs)),
        ("emission_log_prob", (case.x, y, inputs)),
        ("emission_sample", (key, case.x, inputs)),
    ):
        by_hand = getattr(model, method)(*arguments)
        derived = getattr(AbstractGaussianModel, method)(model, *arguments)
        np.testing.assert_allclose(derived, by_hand, rtol=1e-12)
