"""The Kalman rivals against the textbook, dynamax and finite differences."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import rmcvi
from rmcvi import OnlineEstimator, Trainable
from rmcvi.baselines import (
    ExtendedKalmanRecursion,
    KalmanRecursion,
    kalman_filter,
    kalman_smoother,
    log_evidence,
    score,
)
from rmcvi.models import LinearGaussian, NeuralGaussian, StochasticVolatility
from tests.baselines._linear import diagonal_case, follow, full_case
from tests.reference import kalman as textbook

CASES = {"full": full_case, "diagonal": diagonal_case}
KEYS = jax.random.split(jax.random.key(0), 1)


@functools.cache
def held(name: str) -> Any:
    """One pass of the recursion with parameters held."""
    runs = follow(KalmanRecursion(), CASES[name](), None, KEYS)
    return jax.tree.map(lambda v: np.asarray(v[0]), runs)


@pytest.mark.parametrize("name", CASES)
def test_filter_is_the_textbook(name: str) -> None:
    case = CASES[name]()
    expected = textbook.kalman_filter(case.system, case.ys)
    got = kalman_filter(case.model, jnp.asarray(case.ys), case.inputs)
    np.testing.assert_allclose(got.mean, expected.mean, atol=1e-11)
    np.testing.assert_allclose(got.covariance, expected.cov, atol=1e-11)
    np.testing.assert_allclose(got.log_evidence, expected.log_evidence, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_smoother_is_the_textbook(name: str) -> None:
    case = CASES[name]()
    filtered = textbook.kalman_filter(case.system, case.ys)
    expected = textbook.rts_smoother(case.system, filtered)
    got = kalman_smoother(case.model, jnp.asarray(case.ys), case.inputs)
    np.testing.assert_allclose(got.mean, expected.mean, atol=1e-11)
    np.testing.assert_allclose(got.covariance, expected.cov, atol=1e-11)
    np.testing.assert_allclose(got.lag_one, expected.lag_one, atol=1e-11)


@pytest.mark.parametrize("name", CASES)
def test_recursion_is_the_filter(name: str) -> None:
    case = CASES[name]()
    infos, laws, _ = held(name)
    expected = textbook.kalman_filter(case.system, case.ys)
    np.testing.assert_allclose(laws.mean, expected.mean, atol=1e-11)
    np.testing.assert_allclose(laws.covariance, expected.cov, atol=1e-11)
    np.testing.assert_allclose(infos.elbo, expected.log_evidence, atol=1e-10)
    assert np.all(infos.result == 0)


@pytest.mark.parametrize("name", CASES)
def test_increments_add_up_to_the_score(name: str) -> None:
    case = CASES[name]()
    exact = ravel_pytree(score(case.model, jnp.asarray(case.ys), case.inputs))[0]
    np.testing.assert_allclose(held(name)[2].sum(0), exact, rtol=1e-9, atol=1e-10)
    assert np.max(np.abs(exact)) > 1.0


def test_score_is_the_slope_of_the_evidence() -> None:
    """Along three random directions."""
    case, step = full_case(), 1e-5
    flat, unravel = ravel_pytree(case.model)
    ys = jnp.asarray(case.ys)
    exact = ravel_pytree(score(case.model, ys, case.inputs))[0]
    for key in jax.random.split(jax.random.key(5), 3):
        way = jax.random.normal(key, flat.shape)
        up, down = (
            kalman_filter(unravel(flat + s * way), ys, case.inputs).log_evidence[-1]
            for s in (step, -step)
        )
        np.testing.assert_allclose((up - down) / (2 * step), exact @ way, rtol=1e-6)


def test_only_the_trained_parameters_get_a_score() -> None:
    case = diagonal_case()
    trainable = Trainable(model=rmcvi.only(case.model, lambda m: m.emission))
    ys = jnp.asarray(case.ys)
    got = score(case.model, ys, case.inputs, trainable)
    np.testing.assert_allclose(got.emission, score(case.model, ys, case.inputs).emission)
    assert got.transition is None


def extended_in_numpy(model: Any, ys: np.ndarray) -> textbook.Filtered:
    """The textbook's step, linearised at the mean; x_0 is standard normal."""
    now = rmcvi.Inputs.of()

    @jax.jit
    def around(x):
        parts = (model.transition_mean, model.emission_mean)
        noise = model.transition_scale(now), model.emission_scale(x, now)
        return [
            (f(x, now), jax.jacfwd(f)(x, now), jnp.diag(s))
            for f, s in zip(parts, noise, strict=True)
        ]

    m, P, total, rows = np.zeros(model.dim_state), np.eye(model.dim_state), 0.0, []
    for t, y in enumerate(ys):
        if t > 0:
            m, F, noise = map(np.asarray, around(m)[0])
            P = F @ P @ F.T + noise**2
        there, G, noise = map(np.asarray, around(m)[1])
        seen = ~np.isnan(y)
        away, G = (y - there)[seen], G[seen]
        S = G @ P @ G.T + (noise**2)[np.ix_(seen, seen)]
        gain = np.linalg.solve(S, G @ P).T
        m, P = m + gain @ away, P - gain @ S @ gain.T
        total += textbook.log_normal(away, S) if seen.any() else 0.0
        rows.append((m, P, total))
    return textbook.Filtered(*(np.array(v) for v in zip(*rows, strict=True)))


@pytest.mark.long
def test_extended_filter_is_that_of_dynamax() -> None:
    """Its solver adds 1e-9 to every diagonal, hence the tolerance."""
    from dynamax.nonlinear_gaussian_ssm import ParamsNLGSSM, extended_kalman_filter

    model = NeuralGaussian(2, 3, key=jax.random.key(0), dim_input=1, width=5, depth=1)
    ys = jax.random.normal(jax.random.key(1), (10, 3))
    u = jax.random.normal(jax.random.key(2), (10, 1))
    inputs = rmcvi.Inputs(u, jnp.ones(10))

    def at(u):
        return rmcvi.Inputs(u, jnp.ones(()))

    params = ParamsNLGSSM(
        jnp.zeros(2),
        jnp.eye(2),
        lambda x, v: model.transition_mean(x, at(v)),
        jnp.diag(model.transition_scale(at(u[0])) ** 2),
        lambda x, v: model.emission_mean(x, at(v)),
        jnp.diag(model.emission_scale(jnp.zeros(2), at(u[0])) ** 2),
    )
    with jax.numpy_rank_promotion("allow"):
        expected = jax.jit(lambda: extended_kalman_filter(params, ys, inputs=u))()
    got = kalman_filter(model, ys, inputs)
    np.testing.assert_allclose(got.mean, expected.filtered_means, atol=1e-6)
    np.testing.assert_allclose(got.covariance, expected.filtered_covariances, atol=1e-6)
    np.testing.assert_allclose(got.log_evidence[-1], expected.marginal_loglik, atol=1e-6)


@pytest.mark.long
def test_recursive_maximum_likelihood_finds_the_parameter() -> None:
    """Within five standard errors, 1 / sqrt(T I), of the truth, I from the increments' square."""
    truth = LinearGaussian(jnp.array([0.8]), jnp.array([1.0]), 0.5, 0.5)
    ys = rmcvi.simulate(truth, jax.random.key(3), 3000)[1]
    start = LinearGaussian(jnp.array([0.3]), jnp.array([1.0]), 0.5, 0.5)
    trainable = Trainable(model=rmcvi.only(start, lambda m: m.transition))
    learner = OnlineEstimator(
        start, None, KalmanRecursion(), optax.adam(3e-3), optax.sgd(0.0),
        trainable=trainable, draws=0, average_from=1500, health=False, drift=False, sensors=False,
    )  # fmt: skip
    state, infos = rmcvi.scan(learner, learner.init(jax.random.key(0)), ys)
    model: Any = learner.model_at(state, averaged=True)
    slopes = jax.vmap(
        lambda f: log_evidence(eqx.tree_at(lambda m: m.transition, truth, f[None]), ys)
    )(jnp.array([0.78, 0.8, 0.82]))
    information = -(slopes[0] - 2.0 * slopes[1] + slopes[2]) / 0.02**2 / len(ys)
    se = 1.0 / np.sqrt(1500 * information)
    assert abs(model.transition[0] - 0.8) <= 5.0 * se
    assert se < 0.05
    assert np.all(infos.step.result == 0)


@pytest.mark.long
def test_extended_recursion_leaves_the_model_alone() -> None:
    model, ys = NeuralGaussian(1, 1, key=jax.random.key(0), width=2, depth=1), diagonal_case().ys
    ys = jnp.asarray(ys[:, 1:])
    learner = OnlineEstimator(
        model,
        None,
        ExtendedKalmanRecursion(),
        optax.sgd(1e-2),
        optax.sgd(1e-2),
        draws=5,
        health=False,
        drift=False,
        sensors=False,
    )
    state, infos = rmcvi.scan(learner, learner.init(jax.random.key(0)), ys)
    assert eqx.tree_equal(learner.model_at(state), model)
    filtered = kalman_filter(model, ys)
    np.testing.assert_allclose(learner.filter(state).mean, filtered.mean[-1], atol=1e-10)
    np.testing.assert_allclose(infos.step.elbo, filtered.log_evidence, atol=1e-9)


def test_extended_recursion_can_learn() -> None:
    """The prediction error method: increments add up to the slope of the linearised evidence."""
    case = diagonal_case()
    case = case._replace(
        model=eqx.filter_jit(NeuralGaussian)(1, 2, key=jax.random.key(0), width=2, depth=1),
        inputs=rmcvi.Inputs.sequence(len(case.ys)),
    )
    infos, laws, increments = follow(ExtendedKalmanRecursion(learn=True), case, None, KEYS)
    exact = ravel_pytree(score(case.model, jnp.asarray(case.ys), case.inputs))[0]
    np.testing.assert_allclose(increments[0].sum(0), exact, rtol=1e-9, atol=1e-10)
    filtered = extended_in_numpy(case.model, case.ys)
    np.testing.assert_allclose(laws.mean[0], filtered.mean, atol=1e-9)
    np.testing.assert_allclose(laws.covariance[0], filtered.cov, atol=1e-9)
    np.testing.assert_allclose(infos.elbo[0], filtered.log_evidence, atol=1e-9)


def test_a_wrong_model_is_refused() -> None:
    with pytest.raises(
        ValueError, match="model: got StochasticVolatility, expected LinearGaussian"
    ):
        KalmanRecursion().init(StochasticVolatility(), None)
    with pytest.raises(ValueError, match="ys: got an array"):
        kalman_filter(full_case().model, jnp.zeros((3, 2)))
