from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from rmcvi.monitors import SignalToNoise, contraction_rate, effective_sample_size


@partial(jax.jit, static_argnums=1)
def _ratios(grads: Array, decay: float) -> Array:
    snr = SignalToNoise(decay)
    state = snr.init({"a": grads[0], "frozen": None})
    return jax.lax.scan(lambda s, g: snr.step(s, {"a": g, "frozen": None}), state, grads)[1]


def test_snr_is_the_weighted_moments_without_the_noise_of_the_mean() -> None:
    grads = np.random.default_rng(0).normal(size=(7, 3)) + 0.5
    w = 0.8 ** np.arange(6, -1, -1)
    w /= w.sum()
    mean, square, k = w @ grads, w @ (grads**2).sum(1), (w**2).sum()
    ratios = _ratios(jnp.asarray(grads), 0.8)
    np.testing.assert_allclose(ratios[-1], (mean @ mean / square - k) / (1 - k), rtol=1e-12)
    assert np.isnan(ratios[0]) and np.all(np.isfinite(ratios[1:]))


@pytest.mark.parametrize("signal", [0.0, 0.5])
def test_snr_recovers_the_truth(signal: float) -> None:
    """The mean of 10 coordinates of N(signal, 1) has ratio s^2 / (1 + s^2)."""
    streams, length = 400, 500
    noise = np.random.default_rng(0).normal(size=(streams, length, 10))
    last = np.asarray(_last_ratios(signal + noise))
    error = last.mean() - signal**2 / (1 + signal**2)
    # The ratio of two averages is itself biased by the order of one over the memory times 10.
    assert abs(error) < 5 * last.std() / streams**0.5 + 1e-3


@jax.jit
def _last_ratios(grads: Array) -> Array:
    return jax.vmap(lambda g: _ratios(g, 0.99)[-1])(grads)


def test_a_constant_gradient_is_all_signal_and_bad_ones_are_skipped() -> None:
    grads = np.ones((20, 4))
    grads[5, 2], grads[9, 0] = np.nan, np.inf
    np.testing.assert_allclose(_ratios(jnp.asarray(grads), 0.9)[1:], 1.0, rtol=1e-12)


def test_effective_sample_size() -> None:
    log_weights = np.random.default_rng(1).normal(size=(3, 9)) - 2000.0
    w = np.exp(log_weights + 2000.0)
    expected = w.sum(1) ** 2 / (w**2).sum(1)
    np.testing.assert_allclose(effective_sample_size(jnp.asarray(log_weights)), expected, 1e-10)
    ess = jax.jit(effective_sample_size)
    np.testing.assert_allclose(ess(jnp.zeros(7)), 7.0, rtol=1e-12)
    np.testing.assert_allclose(ess(jnp.array([0.0, -jnp.inf, -jnp.inf])), 1.0)
    assert float(ess(jnp.full(4, -jnp.inf))) == 0.0


def test_contraction_rate_of_geometric_masses() -> None:
    mass = 3.0 * 0.6 ** jnp.arange(12.0)
    rate = jax.jit(contraction_rate)
    np.testing.assert_allclose(rate(mass), 0.6, rtol=1e-12)
    np.testing.assert_allclose(rate(mass.at[8:].set(0.0)), 0.6, rtol=1e-12)
    np.testing.assert_allclose(rate(mass.at[3].set(jnp.nan)), 0.6, rtol=1e-12)
    assert all(jnp.isnan(rate(m)) for m in (mass.at[1:].set(0.0), jnp.zeros(5), jnp.ones(1)))


def test_contraction_rate_is_least_squares_on_logarithms() -> None:
    mass = np.exp(np.random.default_rng(2).normal(size=10) - 0.4 * np.arange(10))
    slope = np.polyfit(np.arange(10), np.log(mass), 1)[0]
    np.testing.assert_allclose(contraction_rate(jnp.asarray(mass)), np.exp(slope), rtol=1e-10)


def test_a_decay_outside_the_unit_interval_is_named() -> None:
    with pytest.raises(ValueError, match=r"decay: got 1\.0"):
        SignalToNoise(1.0)
