"""NaturalRMCVI against the Kalman filter, where everything it estimates is known."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array

import rmcvi
from rmcvi.baselines import kalman_filter, kalman_smoother, score
from rmcvi.core.gaussian import matched_normal

FAMILY = rmcvi.families.LinearGaussianFamily(diagonal=True)
MODEL = rmcvi.models.LinearGaussian(
    jnp.array([0.9, 0.5]), jnp.array([1.0, 0.7]), jnp.array([0.3, 0.6]), jnp.array([0.4, 0.2])
)


def stream(length: int) -> Array:
    ys = np.array(rmcvi.simulate(MODEL, jax.random.key(0), length)[1])
    ys[3], ys[5:7, 1] = np.nan, np.nan
    return jnp.asarray(ys)


def fixed(
    model: rmcvi.models.AbstractModel, recursion: rmcvi.NaturalRMCVI
) -> rmcvi.OnlineEstimator:
    nothing = rmcvi.Trainable(model=False, family=False)
    still = optax.sgd(0.0)
    return rmcvi.OnlineEstimator(
        model, FAMILY, recursion, still, still, trainable=nothing, draws=0, health=False
    )


@eqx.filter_jit
def follow(recursion: Any, model: Any, ys: Array, trainable: Any = None) -> Any:
    """Laws, gradients and infos of all rows."""

    def step(state, row):
        y, k = row
        new, grads, info = recursion.step(
            state, model, FAMILY, y, rmcvi.Inputs.of(dim=0), k, trainable
        )
        return new, (recursion.filtered(new, model, FAMILY), grads.model, info)

    rows = (ys, jax.random.split(jax.random.key(2), len(ys)))
    return jax.lax.scan(step, recursion.init(model, FAMILY, trainable), rows)[1]


@pytest.mark.parametrize(
    ("particles", "corrected"),
    [
        pytest.param(2, True, marks=pytest.mark.long),
        (20, True),
        pytest.param(20, False, marks=pytest.mark.long),
    ],
)
def test_it_is_the_kalman_filter_and_its_score(particles: int, corrected: bool) -> None:
    """Weights calibrated by all products leave no error where all is linear and Gaussian.

    Two particles are too few for the score; laws and evidence are exact whatever their number.
    """
    ys = stream(30)
    recursion = rmcvi.NaturalRMCVI(particles, num_steps=2, rate=1.0, corrected=corrected)
    laws, grads, info = follow(recursion, MODEL, ys)
    exact = kalman_filter(MODEL, ys)
    np.testing.assert_allclose(laws.mean, exact.mean, atol=1e-8)
    np.testing.assert_allclose(laws.covariance, exact.covariance, atol=1e-8)
    np.testing.assert_allclose(info.elbo, exact.log_evidence, atol=1e-7)
    if particles == 2:
        return
    for told, truth in zip(jax.tree.leaves(grads), jax.tree.leaves(score(MODEL, ys)), strict=True):
        np.testing.assert_allclose(told.sum(0), truth, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(info.calibrated[1:], 1.0)


@pytest.mark.parametrize(
    ("particles", "share"),
    [
        (8, 0.4),
        pytest.param(12, 0.8, marks=pytest.mark.long),
        pytest.param(4, 0.0, marks=pytest.mark.long),
    ],
)
def test_few_particles_reproduce_fewer_moments(particles: int, share: float) -> None:
    """Of five (20 particles, above), the four without the product, the two means, none."""
    nothing = rmcvi.Trainable(model=False, family=False)
    _, _, info = follow(rmcvi.NaturalRMCVI(particles, num_steps=1), MODEL, stream(30), nothing)
    np.testing.assert_allclose(info.calibrated[1:], share)


def test_smoothing_a_sequence() -> None:
    ys = stream(30)
    learner = fixed(MODEL, rmcvi.NaturalRMCVI(5, num_steps=2, rate=1.0))
    start = eqx.filter_jit(learner.init)(jax.random.key(0))
    told = learner.smooth_sequence(start, ys, num=4000)
    exact = kalman_smoother(MODEL, ys)
    std = np.sqrt(np.diagonal(exact.covariance, axis1=1, axis2=2))
    assert np.max(np.abs(np.asarray(told.mean - exact.mean)) / std) < 5 / 4000**0.5
    np.testing.assert_allclose(told.std, std, rtol=5 / (2 * 4000) ** 0.5)


@pytest.mark.long
def test_it_survives() -> None:
    """With two particles: after outliers, gaps and a stuck sensor, as if nothing had been."""
    truth, recursion = rmcvi.models.ChaoticRNN(dim=3), rmcvi.NaturalRMCVI(2)
    ys = np.array(rmcvi.simulate(truth, jax.random.key(1), 300)[1])
    bad = ys.copy()
    bad[100], bad[120], bad[140:160], bad[200:230, 0] = 1e6, -np.inf, np.nan, 5.0
    laws, grads, info = follow(recursion, truth, jnp.asarray(bad))
    clean, _, _ = follow(recursion, truth, jnp.asarray(ys))
    np.testing.assert_allclose(laws.mean[280:], clean.mean[280:], atol=0.05)
    assert np.all(np.isfinite(info.elbo))
    assert all(np.all(np.isfinite(g)) for g in jax.tree.leaves(grads))


def test_samples_are_matched() -> None:
    for num in (2, 5):
        noise = np.asarray(jax.jit(lambda n=num: matched_normal(jax.random.key(0), n, 3))())
        np.testing.assert_allclose(noise.mean(0), 0.0, atol=1e-12)
        np.testing.assert_allclose((noise**2).mean(0), 1.0, rtol=1e-12)


def test_another_family_is_refused() -> None:
    with pytest.raises(ValueError, match="diagonal=True"):
        rmcvi.NaturalRMCVI().init(MODEL, rmcvi.families.LinearGaussianFamily(MODEL))
