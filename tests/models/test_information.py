"""Descriptions of a model for Kalman-like families: Fisher information, Jacobians, locations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
        np.testing.assert_array_equal(rows[seen == 0.0], 0.0)


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
    np.testing.assert_allclose(scale, np.sqrt(np.diag(law.factor @ law.factor.T)), rtol=1e-10)
    np.testing.assert_allclose(moved, case.laws.transition.mean, rtol=1e-10)
    np.testing.assert_allclose(jacobian, by_hand, rtol=1e-12)
