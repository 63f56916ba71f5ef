"""A missing coordinate of y is a model without it, with finite gradients (errata B15)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from rmcvi import Inputs
from rmcvi.models import AbstractModel, LinearGaussian
from tests.models.zoo import ZOO, C, Case

MASKS = [(0,), (1,), (0, 1), ()]


@eqx.filter_jit
def _value_and_grads(case: Case, y):
    arrays, static = eqx.partition(case.model, eqx.is_inexact_array)

    def value(arrays, x):
        return eqx.combine(arrays, static).observed_log_prob(x, y, case.inputs)

    return jax.value_and_grad(value, (0, 1))(arrays, case.x)


def _observation(case: Case, missing) -> np.ndarray:
    y = case.laws.emission.near()
    y[list(missing)] = np.nan
    return y


def _expected(case: Case, y: np.ndarray) -> float:
    """The marginal law of what is seen."""
    seen = ~np.isnan(y)
    return case.laws.emission.marginal_log_prob(y, seen) if seen.any() else 0.0


@pytest.mark.parametrize("name", ZOO)
def test_value_is_that_of_the_observed_coordinates(name):
    case = ZOO[name]()
    everything = tuple(range(case.model.dim_obs))
    for missing in [
        *(mask for mask in MASKS if max(mask, default=0) < len(everything)),
        everything,
    ]:
        y = _observation(case, missing)
        value, grads = _value_and_grads(case, jnp.asarray(y))
        np.testing.assert_allclose(value, _expected(case, y), rtol=1e-10, atol=1e-14)
        assert all(bool(jnp.all(jnp.isfinite(g))) for g in jax.tree.leaves(grads))
        if missing == everything:
            assert value == 0.0
            assert all(not bool(jnp.any(g)) for g in jax.tree.leaves(grads))


def test_correlated_noise_is_the_model_without_the_row():
    """Value and gradient of a linear model with G, D and R cut down to two coordinates."""
    case, keep = ZOO["correlated"](), [0, 2]
    model = case.model
    assert isinstance(model, LinearGaussian)
    noise = np.linalg.cholesky((C @ C.T)[np.ix_(keep, keep)])
    small = LinearGaussian(
        model.transition,
        np.asarray(model.emission)[keep],
        0.3,
        noise,
        state_input=model.state_input,
        obs_input=np.asarray(model.obs_input)[keep],
    )
    y = _observation(case, (1,))
    value, (_, grad) = _value_and_grads(case, jnp.asarray(y))
    cut, (_, cut_grad) = _value_and_grads(case._replace(model=small), jnp.asarray(y[keep]))
    np.testing.assert_allclose(value, cut, rtol=1e-12)
    np.testing.assert_allclose(grad, cut_grad, rtol=1e-10)


class LogNormal(AbstractModel):
    """A user's model whose observations are positive: zero is no value of y."""

    spread: jax.Array
    dim_state: int = 2
    dim_obs: int = 2

    @property
    def fill_value(self) -> float:
        return 1.0

    def initial_log_prob(self, x):
        return -0.5 * x @ x

    def initial_sample(self, key):
        return jax.random.normal(key, (2,))

    def transition_log_prob(self, x_prev, x, inputs):
        return -0.5 * jnp.sum((x - x_prev) ** 2)

    def transition_sample(self, key, x_prev, inputs):
        return x_prev + jax.random.normal(key, (2,))

    def emission_log_prob(self, x, y, inputs):
        return -0.5 * ((jnp.log(y) - x) / self.spread) ** 2 - jnp.log(self.spread * y)

    def emission_sample(self, key, x, inputs):
        return jnp.exp(x + self.spread * jax.random.normal(key, (2,)))


def test_the_fill_value_keeps_a_positive_support_finite():
    model, y = LogNormal(spread=jnp.array([0.5, 0.7])), jnp.array([jnp.nan, 1.3])
    x, inputs = jnp.array([0.2, -0.1]), Inputs.of()

    def value(spread, x):
        return LogNormal(spread=spread).observed_log_prob(x, y, inputs)

    total, grads = jax.jit(jax.value_and_grad(value, (0, 1)))(model.spread, x)
    expected = stats.lognorm.logpdf(1.3, 0.7, scale=np.exp(-0.1)) + 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(total, expected, rtol=1e-12)
    assert all(bool(jnp.all(jnp.isfinite(g))) and g[0] == 0.0 for g in grads)
