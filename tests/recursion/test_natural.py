"""NaturalRMCVI against the Kalman filter, where everything it estimates is known."""

from typing import Any

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
    _, ys = rmcvi.simulate(MODEL, jax.random.key(0), length)
    return ys.at[3].set(jnp.nan).at[5:7, 1].set(jnp.nan)


def fixed(
    model: rmcvi.models.AbstractModel, recursion: rmcvi.NaturalRMCVI
) -> rmcvi.OnlineEstimator:
    nothing = rmcvi.Trainable(model=False, family=False)
    still = optax.sgd(0.0)
    return rmcvi.OnlineEstimator(
        model, FAMILY, recursion, still, still, trainable=nothing, draws=0, health=False
    )


def filtered_and_elbo(learner: Any, state: Any, info: Any) -> Any:
    return learner.filter(state), info.elbo


def filtered_mean(learner: Any, state: Any, info: Any) -> Any:
    return learner.filter(state).mean


@pytest.mark.parametrize("particles", [2, 20])
def test_it_is_the_kalman_filter_of_a_linear_model(particles: int) -> None:
    ys = stream(30)
    learner = fixed(MODEL, rmcvi.NaturalRMCVI(particles, num_steps=2, rate=1.0))
    _, (told, elbo) = rmcvi.scan(
        learner,
        learner.init(jax.random.key(1)),
        ys,
        collect=filtered_and_elbo,
    )
    exact = kalman_filter(MODEL, ys)
    np.testing.assert_allclose(told.mean, exact.mean, atol=1e-8)
    np.testing.assert_allclose(told.covariance, exact.covariance, atol=1e-8)
    np.testing.assert_allclose(elbo, exact.log_evidence, atol=1e-7)


@pytest.mark.parametrize("corrected", [True, False])
def test_its_gradient_is_the_score(corrected: bool) -> None:
    """Weights calibrated by all products leave no error where all is linear and Gaussian."""
    ys = stream(12)
    recursion = rmcvi.NaturalRMCVI(20, num_steps=2, rate=1.0, corrected=corrected)

    def step(state, row):
        y, k = row
        new, grads, info = recursion.step(state, MODEL, FAMILY, y, rmcvi.Inputs.of(dim=0), k)
        return new, (grads.model, info.calibrated)

    start = recursion.init(MODEL, FAMILY)
    rows = (ys, jax.random.split(jax.random.key(2), len(ys)))
    _, (grads, share) = jax.jit(lambda: jax.lax.scan(step, start, rows))()
    for told, truth in zip(jax.tree.leaves(grads), jax.tree.leaves(score(MODEL, ys)), strict=True):
        np.testing.assert_allclose(told.sum(0), truth, rtol=1e-6, atol=1e-6)
    assert jnp.all(share[1:] == 1.0)


@pytest.mark.parametrize(("particles", "share"), [(20, 1.0), (12, 0.8), (8, 0.4), (4, 0.0)])
def test_few_particles_reproduce_fewer_moments(particles: int, share: float) -> None:
    """All five, the four without the product, the two means, none."""
    recursion = rmcvi.NaturalRMCVI(particles)
    learner, ys = fixed(MODEL, recursion), stream(3)
    _, info = rmcvi.scan(learner, learner.init(jax.random.key(0)), ys)
    np.testing.assert_allclose(info.step.calibrated[1:], share)


def test_smoothing_a_sequence() -> None:
    ys = stream(30)
    learner = fixed(MODEL, rmcvi.NaturalRMCVI(5, num_steps=2, rate=1.0))
    told = learner.smooth_sequence(learner.init(jax.random.key(0)), ys, num=4000)
    exact = kalman_smoother(MODEL, ys)
    std = jnp.sqrt(jnp.diagonal(exact.covariance, axis1=1, axis2=2))
    assert float(jnp.max(jnp.abs(told.mean - exact.mean) / std)) < 5 / 4000**0.5
    np.testing.assert_allclose(told.std, std, rtol=5 / (2 * 4000) ** 0.5)


@pytest.mark.parametrize("particles", [2, 5])
def test_it_survives(particles: int) -> None:
    truth = rmcvi.models.ChaoticRNN(dim=3)
    xs, ys = rmcvi.simulate(truth, jax.random.key(1), 300)
    ys = ys.at[100].set(1e6).at[120].set(-jnp.inf).at[140:160].set(jnp.nan).at[200:230, 0].set(5.0)
    learner = fixed(truth, rmcvi.NaturalRMCVI(particles))
    state, mean = rmcvi.scan(learner, learner.init(jax.random.key(2)), ys, collect=filtered_mean)
    error = jnp.sqrt(jnp.mean((mean - xs) ** 2, 1))
    assert int(state.skipped) == 0
    assert float(error[250:].mean()) < 1.3 * float(error[50:100].mean())


def test_samples_are_matched() -> None:
    for num in (2, 5, 20):
        noise = matched_normal(jax.random.key(0), num, 3)
        np.testing.assert_allclose(noise.mean(0), 0.0, atol=1e-12)
        np.testing.assert_allclose((noise**2).mean(0), 1.0, rtol=1e-12)


def test_another_family_is_refused() -> None:
    with pytest.raises(ValueError, match="diagonal=True"):
        rmcvi.NaturalRMCVI().init(MODEL, rmcvi.families.LinearGaussianFamily(MODEL))
