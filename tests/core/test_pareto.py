"""Tails of weights whose index is known, against maximum likelihood and the estimator's error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi.core.pareto import pareto_k, pareto_shape, tail_size
from tests.reference.pareto import pareto_draws, profile_likelihood_shape

SHAPE, TAIL = jax.jit(pareto_shape), jax.jit(pareto_k)


@pytest.mark.parametrize("k", [-0.3, 0.2, 0.7, 1.5])
def test_it_is_nearly_the_maximum_of_the_likelihood(k: float) -> None:
    """The standard error of maximum likelihood is (1 + k) / sqrt(M)."""
    draws = np.random.default_rng(0).uniform(size=2000)
    exceedances = np.sort((draws**-k - 1.0) / k)
    error = (1.0 + k) / 2000**0.5
    found = float(SHAPE(jnp.asarray(exceedances)))
    assert abs(found - profile_likelihood_shape(exceedances)) < 0.5 * error
    assert abs(found - k) < 5 * error


@pytest.mark.parametrize("k", [0.3, 0.7, 1.2])
def test_weights_with_a_known_tail(k: float) -> None:
    """Whatever their scale, and with most of them far below the tail."""
    rng = np.random.default_rng(1)
    weights = pareto_draws(rng, k, 20_000)
    found = float(TAIL(jnp.asarray(np.log(weights) - 1234.5)))
    assert abs(found - k) < 5 * (1.0 + k) / tail_size(20_000) ** 0.5
    assert found == pytest.approx(float(TAIL(jnp.asarray(np.log(weights)[::-1]))), abs=1e-9)


def test_rows_of_fifty_tell_in_the_mean() -> None:
    """As a learner sees them; ten weights in a tail tell little, a hundred rows of them enough."""
    rng = np.random.default_rng(2)
    means = []
    for k in (0.2, 1.2):
        rows = jnp.asarray(np.log(pareto_draws(rng, k, (400, 50))))
        found = np.asarray(jax.jit(jax.vmap(pareto_k))(rows))
        means.append(found.mean())
        assert np.isfinite(found).all()
    assert means[0] < 0.5 < 0.9 < means[1]


def test_equal_weights_have_no_tail_and_few_tell_nothing() -> None:
    assert float(TAIL(jnp.zeros(50))) == 0.0
    near = 1e-9 * jax.random.normal(jax.random.key(0), (50,)) ** 3
    assert float(TAIL(near)) == 0.0
    assert np.isnan(float(TAIL(jnp.zeros(20))))
    some = jnp.full(50, -jnp.inf).at[:20].set(jnp.arange(20.0))
    assert np.isfinite(float(TAIL(some)))
