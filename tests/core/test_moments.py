"""Running moments are batch moments, with missing values, and forget at the rate they say."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from rmcvi.core.moments import RunningMoments, RunningVariance, clipped_square


def _run(values: np.ndarray, seen: np.ndarray, memory: float = math.inf) -> RunningMoments:
    def add(moments, row):
        return moments.add(*row, memory), None

    rows = (jnp.asarray(values), jnp.asarray(seen))
    return jax.lax.scan(add, RunningMoments.prior(values.shape[1]), rows)[0]


def test_all_values_are_averaged() -> None:
    rng = np.random.default_rng(0)
    values, seen = 5.0 + rng.standard_normal((200, 2)), rng.random((200, 2)) < 0.7
    values[~seen] = np.nan
    got = _run(values, seen)
    np.testing.assert_array_equal(got.count, seen.sum(0))
    np.testing.assert_allclose(got.mean, np.nanmean(values, 0), rtol=1e-13)
    np.testing.assert_allclose(got.variance, np.nanvar(values, 0), rtol=1e-12)


def test_old_values_fade() -> None:
    """After `memory` values each new one has weight 1 / memory, the older ones the rest."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal((60, 1))
    weight = np.full(60, 0.1) * 0.9 ** np.arange(60)[::-1]
    weight[:10] = 0.1 * 0.9**50
    mean = weight @ values[:, 0]
    got = _run(values, np.ones((60, 1), bool), 10.0)
    np.testing.assert_allclose(got.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(got.variance, weight @ (values[:, 0] - mean) ** 2, rtol=1e-12)


def test_bound_and_prior() -> None:
    """The first value sets the mean and leaves the variance; far ones count as far as the bound."""
    first = RunningMoments.prior(1, 1.0).add(jnp.array([3.0]), jnp.array([True]))
    assert (float(first.mean[0]), float(first.variance[0])) == (3.0, 1.0)
    far = first.add(jnp.array([1e9]), jnp.array([True]), 100.0, jnp.array([2.0]))
    assert float(far.mean[0]) == 4.0
    assert float(far.variance[0]) == 0.5 * (1.0 + 0.5 * 2.0**2)


def test_mean_square_of_residuals() -> None:
    """The prior counts as one value."""
    squares = jnp.array([4.0, 9.0, 1.0])
    running = RunningVariance.prior(1, 2.0)
    for square in squares:
        running = running.add(square[None], jnp.array([True]), math.inf)
    assert float(running.value[0]) == pytest.approx((2.0**2 + 14.0) / 4.0, rel=1e-14)


@pytest.mark.parametrize("bound", [0.5, 3.0])
def test_clipped_square(bound: float) -> None:
    whole, _ = quad(lambda z: min(z**2, bound**2) * norm.pdf(z), -12, 12, points=[-bound, bound])
    assert clipped_square(bound) == pytest.approx(whole, rel=1e-9)
