import jax
import jax.numpy as jnp
import numpy as np

from rmcvi.monitors import rmse, stepwise_rmse


def _errors(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    error = rng.normal(size=(30, 4))
    error[rng.uniform(size=error.shape) < 0.3] = np.nan
    error[7] = np.nan
    return error


def test_errors_skip_missing_entries() -> None:
    error = _errors(0)
    seen = [row[~np.isnan(row)] for row in error]
    per_step = [np.sqrt(np.mean(row**2)) for row in seen if row.size]
    np.testing.assert_allclose(jax.jit(stepwise_rmse)(error), np.mean(per_step), rtol=1e-12)
    every = np.concatenate(seen)
    np.testing.assert_allclose(rmse(jnp.asarray(error)), np.sqrt(np.mean(every**2)), rtol=1e-12)
    columns = rmse(jnp.asarray(error), axis=0)
    column = error[~np.isnan(error[:, 2]), 2]
    np.testing.assert_allclose(columns[2], np.sqrt(np.mean(column**2)), rtol=1e-12)


def test_the_papers_error_is_the_smaller_one() -> None:
    error = jnp.asarray(np.random.default_rng(1).normal(size=(50, 3)))
    assert float(stepwise_rmse(error)) < float(rmse(error))
    assert jnp.isnan(rmse(jnp.full((3, 2), jnp.nan)))
