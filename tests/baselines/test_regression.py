"""Function regression: exact where the model is linear, and its regressors against scikit-learn."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import rmcvi
from rmcvi import Inputs, Trainable, checks
from rmcvi.baselines import (
    FreeBackward,
    FunctionRegression,
    KernelRidge,
    kalman_filter,
    kalman_smoother,
    score,
)
from rmcvi.models import LinearGaussian
from tests.baselines._linear import Case, z_score
from tests.checks._small import small_model

LENGTH, RUNS, STEPS = 6, 8, 150
OPTIMISER = optax.adam(optax.cosine_decay_schedule(5e-2, STEPS))


@functools.cache
def case() -> Case:
    """Two independent states, so that diagonal laws and kernels are the exact ones; gaps."""
    f, s, r = np.array([0.8, 0.5]), np.array([0.5, 0.4]), np.array([0.5, 0.6])
    model = LinearGaussian(f, np.array([1.0, 0.7]), s, r, np.array([0.3, -0.2]), 0.9)
    ys = np.array(rmcvi.simulate(model, jax.random.key(5), LENGTH)[1])
    ys[2, 1], ys[3] = np.nan, np.nan
    return Case(model, None, ys, Inputs(jnp.zeros((LENGTH, 0)), jnp.ones(LENGTH)))


def trained() -> Trainable:
    model = case().model
    return Trainable(rmcvi.only(model, lambda m: (m.transition, m.raw_emission_noise)), False)


class Runs(NamedTuple):
    """One row per run: L_t, means and scales of q_t, E[x_{t-1} | y_{0:t}], sums of increments."""

    elbo: Any
    mean: Any
    scale: Any
    smoothed: Any
    score: Any


@functools.cache
def runs(regressor: str) -> Runs:
    """Independent runs over the same stream."""
    now = case()
    rival = FunctionRegression(STEPS, num_points=80, optimiser=OPTIMISER, regressor=regressor)
    family = FreeBackward(now.model, key=jax.random.key(0), hidden=16)
    steps = (jnp.arange(LENGTH), jnp.asarray(now.ys), now.inputs)

    def one(key: Any) -> Runs:
        def step(state, per_step):
            t, y, inputs = per_step
            k = jax.random.fold_in(key, t)
            state, grads, info = rival.step(state, now.model, family, y, inputs, k, trained())
            q = rival.current(state, family)
            slope = ravel_pytree(grads)[0]
            return state, Runs(info.elbo, q.mean, q.scale, state.smoothed, slope)

        return jax.lax.scan(step, rival.init(now.model, family, trained()), steps)[1]

    out = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), RUNS))
    return Runs(*(np.asarray(v) for v in out))._replace(score=np.asarray(out.score).sum(1))


@functools.cache
def exact() -> Any:
    return jax.tree.map(np.asarray, kalman_filter(case().model, jnp.asarray(case().ys)))


def distance(got: Runs) -> np.ndarray:
    """Largest error of each run's means and scales, in scales."""
    scale = np.sqrt(np.diagonal(exact().covariance, axis1=1, axis2=2))
    errors = np.stack([(got.mean - exact().mean) / scale, got.scale / scale - 1.0])
    return np.abs(errors).max((0, 2, 3))


def test_filter_is_the_kalman_filter() -> None:
    """The optimum is exact here; what is left is optimisation, a few hundredths of a scale."""
    assert distance(runs("kernel")).max() < 0.05


@pytest.mark.long
def test_network_comes_near_the_kalman_filter() -> None:
    """Most runs do as well as the kernel; a network fitted by few steps misses now and then."""
    assert np.median(distance(runs("network"))) < 0.05


def test_elbo_is_the_evidence() -> None:
    """The bound is tight, at every t."""
    elbo = runs("kernel").elbo
    assert z_score(elbo, exact().log_evidence) <= 5.0
    assert elbo.std(0).max() < 0.02


def test_one_step_smoothing() -> None:
    """E[x_{t-1} | y_{0:t}] of the last step, from draws of q_t: error of order n^-1/2."""
    smoother = kalman_smoother(case().model, jnp.asarray(case().ys))
    got = runs("kernel").smoothed[:, -1]
    assert z_score(got, np.asarray(smoother.mean[-2])) <= 5.0


def test_increments_add_up_to_the_score() -> None:
    """Against the exact score of the Kalman filter."""
    want = ravel_pytree(score(case().model, jnp.asarray(case().ys), trainable=trained()))[0]
    got = runs("kernel").score
    assert z_score(got, np.asarray(want)) <= 5.0
    assert got.std(0).max() < 0.2 * np.linalg.norm(want)


def sklearn_ridge(ridge: Any, bandwidth: Any) -> Any:
    """Imported here: it takes two seconds, and every worker reads this file."""
    from sklearn.kernel_ridge import KernelRidge as SklearnRidge

    return SklearnRidge(alpha=ridge, kernel="rbf", gamma=0.5 / float(bandwidth) ** 2)


def test_kernel_ridge_is_that_of_scikit_learn() -> None:
    z, w = (jax.random.normal(jax.random.key(i), (30, 2)) for i in (0, 1))
    targets = jnp.stack([jnp.sin(z[:, 0]), z[:, 0] * z[:, 1], z[:, 1] ** 3], 1)
    ours = KernelRidge(0.03)
    fit = ours.fit(None, z, targets, jax.random.key(2))
    theirs = sklearn_ridge(0.03, fit.bandwidth).fit(z, targets)
    got = jax.vmap(lambda v: ours.predict(fit, v, 2))(w)
    np.testing.assert_allclose(got, theirs.predict(w)[:, :2], rtol=1e-9, atol=1e-9)


def test_refined_bandwidth_predicts_the_left_out_better() -> None:
    """Leave-one-out errors by scikit-learn, one fit per point."""
    z = jax.random.normal(jax.random.key(0), (20, 1))
    targets = jnp.sin(5.0 * z)

    def left_out(refine: int) -> float:
        b = KernelRidge(refine=refine, rate=0.1).fit(None, z, targets, jax.random.key(1)).bandwidth
        errors = []
        for i in range(len(z)):
            kept = np.arange(len(z)) != i
            ridge = sklearn_ridge(0.01, b).fit(z[kept], targets[kept])
            errors.append(float(ridge.predict(z[i : i + 1])[0, 0] - targets[i, 0]))
        return float(np.mean(np.square(errors)))

    assert left_out(25) < 0.9 * left_out(0)


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'kernel'"):
        FunctionRegression(regressor="kernal")
    with pytest.raises(ValueError, match="family: got NoneType, expected FreeBackward"):
        FunctionRegression(5).init(case().model, None)


@pytest.mark.long
def test_conforms() -> None:
    """Gaps, an absurd observation, gradients where something is trained."""
    model = small_model()
    family = FreeBackward(model, key=jax.random.key(0), hidden=4)
    report = checks.recursion(FunctionRegression(5, num_samples=2, num_points=10), model, family)
    assert report.ok, str(report)
