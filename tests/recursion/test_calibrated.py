"""Calibrated weights: rows have the kernels' own moments, so linear models leave no error."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import rmcvi
from rmcvi import families
from rmcvi.baselines import kalman_filter, kalman_smoother, score
from rmcvi.core import tree
from rmcvi.models import LinearGaussian
from rmcvi.recursion.backward import Tilts
from rmcvi.recursion.calibration import LIMIT, Calibration
from rmcvi.recursion.ideal_linear import ideal_elbo

LENGTH = 4
FULL = LinearGaussian(
    jnp.array([[0.8, 0.2], [-0.1, 0.7]]),
    jnp.array([[1.0, 0.2], [0.3, 1.0], [0.5, 0.5]]),
    jnp.array([0.5, 0.4]),
    jnp.array([0.3, 0.5, 0.2]),
    state_input=jnp.array([[0.3], [-0.2]]),
    obs_input=jnp.array([[0.1], [0.0], [0.4]]),
)
DIAGONAL = LinearGaussian(
    jnp.array([0.9, 0.5]), jnp.array([1.0, 0.7]), jnp.array([0.3, 0.6]), jnp.array([0.4, 0.2])
)


def stream(model: LinearGaussian) -> tuple[jax.Array, rmcvi.Inputs]:
    """One row without observations, another with some of them."""
    u = jnp.asarray(np.random.default_rng(9).normal(size=(LENGTH, model.dim_input)))
    ys = np.array(rmcvi.simulate(model, jax.random.key(0), LENGTH, u)[1])
    ys[2], ys[3, 1] = np.nan, np.nan
    return jnp.asarray(ys), rmcvi.Inputs(u, jnp.ones(LENGTH))


def total(recursion: Any, model: Any, family: Any, learned: bool = True) -> tuple[Any, Any]:
    """Gradient increments summed, and all infos; less to compile if nothing is learned."""
    trainable = None if learned else rmcvi.Trainable(model=False, family=False)
    ys, inputs = stream(model)

    def step(state, row):
        y, inputs, key = row
        state, grads, info = recursion.step(state, model, family, y, inputs, key, trainable)
        return state, (grads, info)

    @jax.jit
    def scan():
        keys = jax.random.split(jax.random.key(3), LENGTH)
        start = recursion.init(model, family, trainable)
        grads, infos = jax.lax.scan(step, start, (ys, inputs, keys))[1]
        return jax.tree.map(lambda v: v.sum(0), grads), infos

    return scan()


@partial(jax.jit, static_argnums=(0, 1))
def averages(q: Any, num: int) -> Any:
    """Of 1, x and x x' by calibrated weights; the kernels' own moments; the calibrated share."""
    x_prev, x = jax.random.normal(jax.random.key(0), (2, num, 2))
    more = jnp.array([[0.7, 0.3], [0.3, 0.5]])

    def tilt(v):
        return q.from_moments(v, more)

    def kernel(v):
        return tree.add(tilt(v), q.from_moments(jnp.zeros(2), jnp.eye(2)))

    def moments(v):
        mean = q.mean(kernel(v))
        return jnp.ones(()), mean, q.covariance(kernel(v)) + jnp.outer(mean, mean)

    tilts = Tilts(tilt, x, jax.vmap(q.statistic)(x_prev), kernel)
    weights = rmcvi.CalibratedWeights().weigh(jax.random.key(1), q, tilts)
    told = (jnp.ones(num), x_prev, jax.vmap(jnp.outer)(x_prev, x_prev))
    return jax.tree.map(weights.average, told), jax.vmap(moments)(x), weights.calibrated()


@pytest.mark.parametrize("q", [families.DiagonalGaussian(), families.FullGaussian()])
def test_rows_have_the_moments_of_their_kernels(q: Any) -> None:
    told, truth, share = averages(q, 20)
    np.testing.assert_allclose(told[0], truth[0], rtol=1e-12)
    np.testing.assert_allclose(told[1], truth[1], atol=1e-10)
    known = np.eye(2, dtype=bool) | isinstance(q, families.FullGaussian)
    np.testing.assert_allclose(told[2][:, known], truth[2][:, known], atol=1e-10)
    assert float(share) == 1.0


@pytest.mark.parametrize(
    ("kind", "entropy", "gradient"),
    [
        ("full", "sampled", "windowed"),
        ("diagonal", "closed", "forward"),
        pytest.param("full", "closed", "forward", marks=pytest.mark.long),
        pytest.param("diagonal", "sampled", "windowed", marks=pytest.mark.long),
    ],
)
def test_linear_models_are_learned_exactly(kind: str, entropy: str, gradient: str) -> None:
    """Evidence and score by the Kalman filter; missing values and inputs included."""
    model = FULL if kind == "full" else DIAGONAL
    family = families.LinearGaussianFamily(diagonal=model is DIAGONAL)
    recursion = rmcvi.RMCVI(
        20,
        window=LENGTH,
        bptt=1,
        entropy=entropy,
        gradient=gradient,
        negligible=0.0,
        backward=rmcvi.CalibratedWeights(),
    )
    grads, infos = total(recursion, model, family)
    ys, inputs = stream(model)
    evidence = kalman_filter(model, ys, inputs).log_evidence
    np.testing.assert_allclose(infos.elbo, evidence, atol=1e-7)
    for told, truth in zip(
        jax.tree.leaves(grads.model), jax.tree.leaves(score(model, ys, inputs)), strict=True
    ):
        np.testing.assert_allclose(told, truth, rtol=1e-6, atol=1e-6)


def ideal(pair: Any, ys: jax.Array) -> tuple[float, np.ndarray]:
    """The last value of the ideal recursion, and its gradient in model and family by differences,
    which need no program of their own; `jax.grad` of it is tried in test_ideal.py.
    """
    flat, unravel = ravel_pytree(pair)
    moves = 1e-5 * np.eye(flat.size)
    points = np.asarray(flat) + np.concatenate([0.0 * moves[:1], moves, -moves])

    def last(point):
        model, family = unravel(point)
        return ideal_elbo(model, family, ys)[-1]

    values = jax.jit(jax.vmap(last))(points)
    value, up, down = np.split(np.asarray(values), [1, 1 + flat.size])
    return float(value[0]), (up - down) / 2e-5


@pytest.mark.parametrize("entropy", [pytest.param("sampled", marks=pytest.mark.long), "closed"])
def test_learned_families_get_the_exact_gradient(entropy: str) -> None:
    """A posterior that is wrong: the ELBO and both of its gradients against the ideal recursion."""
    other = LinearGaussian(
        jnp.array([[0.6, 0.1], [0.1, 0.8]]),
        0.8 * FULL.emission,
        jnp.array([0.6, 0.5]),
        jnp.array([0.4, 0.4, 0.3]),
    )
    model = LinearGaussian(
        FULL.transition, FULL.emission, jnp.array([0.5, 0.4]), jnp.array([0.3, 0.5, 0.2])
    )
    family = families.LinearGaussianFamily(other)
    recursion = rmcvi.RMCVI(
        20,
        window=LENGTH,
        bptt=LENGTH,
        entropy=entropy,
        negligible=0.0,
        backward=rmcvi.CalibratedWeights(),
    )
    grads, infos = total(recursion, model, family)
    ys, _ = stream(model)

    value, truth = ideal((model, family), ys)
    np.testing.assert_allclose(infos.elbo[-1], value, atol=1e-7)
    told = ravel_pytree((grads.model, grads.family))[0]
    np.testing.assert_allclose(told, truth, rtol=1e-6, atol=1e-6)


def test_functionals_are_exact() -> None:
    """Smoothed sums of the states' products, of pairs and with forgetting."""
    functional = rmcvi.AdditiveFunctional(lambda a, b: (jnp.outer(a, a), jnp.outer(a, b)), 0.7)
    recursion = rmcvi.RMCVI(
        20, window=2, bptt=1, functional=functional, backward=rmcvi.CalibratedWeights()
    )
    _, infos = total(recursion, FULL, families.LinearGaussianFamily(), learned=False)
    np.testing.assert_array_equal(infos.calibrated[1:], 1.0)
    ys, inputs = stream(FULL)
    smoothed = kalman_smoother(FULL, ys, inputs)
    mean, weight = np.asarray(smoothed.mean), 0.7 ** np.arange(LENGTH - 2, -1, -1)
    squares = np.einsum("ti,tj->tij", mean, mean) + smoothed.covariance
    pairs = np.einsum("ti,tj->tij", mean[:-1], mean[1:]) + smoothed.lag_one[1:]
    for told, exact in zip(infos.functional, (squares[:-1], pairs), strict=True):
        np.testing.assert_allclose(told[-1], np.tensordot(weight, exact, 1), atol=1e-6)


@pytest.mark.parametrize(("num", "share"), [(13, 1.0), (12, 0.8), (9, 0.0)])
def test_few_particles_reproduce_fewer_moments(num: int, share: float) -> None:
    """Five moments need 13 particles, four of them 10; with fewer the weights are plain."""
    np.testing.assert_allclose(averages(families.FullGaussian(), num)[2], share)


def test_changes_are_limited() -> None:
    """A kernel far from all particles: the row is changed by LIMIT at most, and it is said."""
    x = np.random.default_rng(0).normal(size=(20, 2))
    means = np.array([[0.0, 0.0], [1e3, 0.0]])
    change, share = correction(x, np.full((2, 20), 0.05), means, [range(2)])
    assert np.sum(np.abs(change[1])) == pytest.approx(LIMIT)
    assert float(share) == 0.5
    np.testing.assert_allclose(np.sum(change, 1), 0.0, atol=1e-12)


@eqx.filter_jit
def correction(statistics: Any, weights: Any, means: Any, columns: Any) -> Any:
    """Changes of the weights, and how much of what was asked for they reach."""
    return Calibration(statistics, columns).correction(weights, means)


@pytest.mark.long
def test_it_survives() -> None:
    """Outliers, infinities and gaps, all parameters learned."""
    truth = rmcvi.models.ChaoticRNN(dim=3)
    xs, ys = rmcvi.simulate(truth, jax.random.key(1), 200)
    ys = ys.at[100].set(1e6).at[120].set(-jnp.inf).at[140:160].set(jnp.nan)
    family = families.LinearGaussianFamily(diagonal=True)
    still = optax.sgd(0.0)
    recursion = rmcvi.RMCVI(20, window=4, bptt=1, backward=rmcvi.CalibratedWeights())
    learner = rmcvi.OnlineEstimator(
        truth, family, recursion, optax.adam(1e-3), still, draws=0, health=False
    )
    state, info = rmcvi.scan(learner, eqx.filter_jit(learner.init)(jax.random.key(2)), ys)
    assert bool(jnp.all(jnp.isfinite(info.elbo)))
    error = jnp.sqrt(jnp.mean((learner.filter(state).mean - xs[-1]) ** 2))
    assert float(error) < 1.0


def test_single_precision() -> None:
    """Fifty particles, twenty moments: what the ridge leaves is taken off by the second pass."""
    rng, q = np.random.default_rng(0), families.FullGaussian()
    x = rng.normal(size=(50, 5)).astype(np.float32)
    statistics = np.asarray(jax.jit(lambda x: tree.ravel(jax.vmap(q.statistic)(x), 1))(x))
    weights = np.exp(rng.normal(size=(50, 50))).astype(np.float32)
    weights /= weights.sum(1, keepdims=True)
    means = statistics[::-1] * np.float32(0.5)
    columns = q.moments(families.Natural(jnp.asarray(x[0]), jnp.eye(5, dtype=jnp.float32)))[0]
    change, share = map(np.asarray, correction(statistics, weights, means, [columns]))
    assert change.dtype == np.float32 and float(share) > 0.5
    limited = np.sum(np.abs(change), 1) > 0.99 * LIMIT
    told = ((weights + change) @ statistics)[~limited][:, np.asarray(columns)]
    np.testing.assert_allclose(told, means[~limited][:, np.asarray(columns)], atol=1e-4)
