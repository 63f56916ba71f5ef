import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from rmcvi.monitors import crps_gaussian, crps_samples, gaussian_log_score, sample_log_score


def _crps_by_quadrature(y: float, mean: float, std: float) -> float:
    """The definition: the integral of (F(x) - 1{x >= y})^2."""
    below = integrate.quad(lambda x: stats.norm.cdf(x, mean, std) ** 2, -np.inf, y)[0]
    above = integrate.quad(lambda x: stats.norm.sf(x, mean, std) ** 2, y, np.inf)[0]
    return below + above


def test_gaussian_log_score_integrates_missing_coordinates_out() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    covariance, mean, y = root @ root.T + np.eye(4), rng.normal(size=4), rng.normal(size=4)
    score = jax.jit(gaussian_log_score)
    for seen in ([0, 1, 2, 3], [0, 2], [3]):
        masked = np.full(4, np.nan)
        masked[seen] = y[seen]
        marginal, residual = covariance[np.ix_(seen, seen)], (y - mean)[seen]
        distance = residual @ np.linalg.solve(marginal, residual)
        expected = -0.5 * (distance + np.linalg.slogdet(2 * np.pi * marginal)[1])
        np.testing.assert_allclose(score(masked, mean, covariance), expected, rtol=1e-12)
    assert jnp.isnan(score(np.full(4, np.nan), mean, covariance))


def test_sample_log_score_is_a_log_mean_exp() -> None:
    rng = np.random.default_rng(1)
    log_densities, log_weights = rng.normal(size=(6, 3)) - 900.0, rng.normal(size=6)
    log_densities[2, 1] = -np.inf
    expected = np.log(np.exp(log_densities + 900.0).mean(0)) - 900.0
    np.testing.assert_allclose(sample_log_score(jnp.asarray(log_densities)), expected, rtol=1e-12)
    w = special.softmax(log_weights)
    expected = np.log(w @ np.exp(log_densities + 900.0)) - 900.0
    got = sample_log_score(jnp.asarray(log_densities), jnp.asarray(log_weights))
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("y", [-3.0, 0.4, 1.0, 7.5])
def test_crps_gaussian_is_its_integral(y: float) -> None:
    got = crps_gaussian(*(jnp.array(v) for v in (y, 1.0, 0.7)))
    np.testing.assert_allclose(got, _crps_by_quadrature(y, 1.0, 0.7), rtol=1e-7)


def test_crps_gaussian_at_the_edges() -> None:
    y, mean, std = jnp.array([2.0, jnp.nan, 1e6]), jnp.zeros(3), jnp.array([0.0, 1.0, 1.0])
    got = crps_gaussian(y, mean, std)
    np.testing.assert_allclose(got, [2.0, np.nan, 1e6 - 1 / np.sqrt(np.pi)], rtol=1e-12)


def test_crps_samples_is_the_sum_over_pairs() -> None:
    rng = np.random.default_rng(2)
    samples, y = np.round(rng.normal(size=(17, 5)), 1), rng.normal(size=5)
    y[3] = np.nan
    pairs = np.abs(samples[:, None] - samples[None]).sum((0, 1)) / (17 * 16)
    expected = np.abs(samples - y).mean(0) - 0.5 * pairs
    got = jax.jit(crps_samples)(y, samples)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
    assert jnp.isnan(got[3])


@pytest.mark.parametrize("n", [2, 5])
def test_crps_samples_is_unbiased_for_few_samples(n: int) -> None:
    repeats = 40_000
    samples = 1.0 + 0.7 * jax.random.normal(jax.random.key(0), (n, repeats))
    scores = crps_samples(jnp.full(repeats, 0.4), samples)
    error = float(jnp.mean(scores)) - _crps_by_quadrature(0.4, 1.0, 0.7)
    assert abs(error) < 5 * float(jnp.std(scores)) / repeats**0.5


def test_crps_samples_keeps_its_digits_at_a_high_level_in_float32() -> None:
    samples = jnp.asarray(np.arange(100) / 64.0, jnp.float32)
    low = crps_samples(jnp.float32(0.5), samples)
    np.testing.assert_allclose(crps_samples(jnp.float32(65536.5), samples + 65536.0), low, 1e-6)


def test_one_sample_has_no_fair_crps() -> None:
    with pytest.raises(ValueError, match="samples: got 1"):
        crps_samples(jnp.zeros(2), jnp.zeros((1, 2)))
