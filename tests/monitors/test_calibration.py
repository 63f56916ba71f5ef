import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from rmcvi.monitors import gaussian_p_value, interval_coverage, tail_p_value

STREAMS = 20_000


def test_coverage_counts_observed_values_and_failed_predictions() -> None:
    y = jnp.array([[0.0, jnp.nan], [1.0, 5.0], [2.0, jnp.nan]])
    low = jnp.array([[-1.0, 0.0], [1.0, 0.0], [jnp.nan, 0.0]])
    high = jnp.array([[1.0, 1.0], [1.0, 1.0], [3.0, 1.0]])
    np.testing.assert_allclose(interval_coverage(y, low, high, axis=0), [2 / 3, 0.0])
    np.testing.assert_allclose(jax.jit(interval_coverage)(y, low, high), 0.5)
    assert jnp.isnan(interval_coverage(y[:1, 1], low[:1, 1], high[:1, 1]))


def test_coverage_of_a_calibrated_interval() -> None:
    y = np.random.default_rng(0).normal(size=STREAMS)
    edge = np.full(STREAMS, stats.norm.ppf(0.95))
    error = float(jax.jit(interval_coverage)(y, -edge, edge)) - 0.9
    assert abs(error) < 5 * (0.9 * 0.1 / STREAMS) ** 0.5


def test_gaussian_p_value() -> None:
    y = jnp.array([-3.0, 1.0, 2.5, 30.0, jnp.nan])
    mean, std = jnp.ones(5), jnp.full(5, 1.7)
    expected = 2 * stats.norm.sf(np.abs(np.asarray(y) - 1.0) / 1.7)
    np.testing.assert_allclose(jax.jit(gaussian_p_value)(y, mean, std), expected, rtol=1e-10)


def test_p_value_beyond_the_samples() -> None:
    ordered = jnp.asarray(np.sort(np.random.default_rng(3).normal(size=(400, 1)), 0))
    ys = np.array([-1e6, -40.0, -6.0, -1.0, 0.0, 1.0, 6.0, 40.0, 1e6, np.nan])[:, None]
    p = np.asarray(jax.jit(jax.vmap(lambda y: tail_p_value(y, ordered)))(ys))[:, 0]
    rank = (np.sum(np.asarray(ordered) < ys[3:6].T, 0) + 0.5) / 401.0
    np.testing.assert_allclose(p[3:6], 2.0 * np.minimum(rank, 1.0 - rank), rtol=1e-12)
    assert (np.diff(p[:5]) > 0).all() and (np.diff(p[4:9]) < 0).all() and np.isnan(p[9])
    # Never surer than the normal law that the samples came from, and with no floor at 1 / n.
    assert (p[[2, 6]] > 2 * stats.norm.sf(6.0)).all() and (p[[0, 8]] < 1e-8).all()


@pytest.mark.parametrize("num", [1, 2, 5])
def test_p_value_without_a_tail(num: int) -> None:
    same = jnp.zeros((num, 1))
    y = jnp.array([7.0])
    np.testing.assert_allclose(tail_p_value(y, same), [1 / (num + 1)])
    assert 0.0 < float(tail_p_value(jnp.zeros(1), same)[0]) <= 1.0
