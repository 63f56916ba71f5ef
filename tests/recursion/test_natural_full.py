"""NaturalRMCVI with full covariances: exact where all is linear, whatever the noise."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array

import rmcvi
from rmcvi.baselines import kalman_filter, kalman_smoother
from rmcvi.core.gaussian import root_of, whitened_normal
from rmcvi.models import AbstractGaussianModel
from rmcvi.recursion.gaussian_fit import ascend
from rmcvi.recursion.gaussian_match import Match
from tests.baselines._linear import full_case
from tests.optim.test_em import increments, smoothed_sums
from tests.recursion._natural import (
    FAMILY,
    MODELS,
    by_textbook,
    compare,
    follow,
    integrator,
    stream,
)


@pytest.mark.parametrize(
    ("name", "particles", "corrected"),
    [
        ("correlated", 2, False),
        ("integrator", 30, True),
        pytest.param("correlated", 50, True, marks=pytest.mark.long),
        pytest.param("integrator", 2, True, marks=pytest.mark.long),
        pytest.param("independent", 7, True, marks=pytest.mark.long),
    ],
)
def test_it_is_the_kalman_filter_and_its_score(name: str, particles: int, corrected: bool) -> None:
    """Laws, evidence and gradient, with gaps, inputs and noise of rank one."""
    model = MODELS[name]()
    ys, inputs = stream(model, 30)
    recursion = rmcvi.NaturalRMCVI(particles, num_steps=2, corrected=corrected)
    told = follow(recursion, model, ys, inputs)
    compare(told, model, ys, inputs)
    misfit = told[-1].misfit
    np.testing.assert_allclose(misfit.left_out, 0.0, atol=1e-7)
    np.testing.assert_array_equal(misfit.pareto_k, 0.0 if particles > 24 else np.nan)


def test_advancing_without_derivatives_is_the_kalman_filter() -> None:
    """What the trial of a learner runs beside it: moments in, moments out, noise of rank one."""
    model = integrator()
    ys, inputs = stream(model, 30)
    recursion = rmcvi.NaturalRMCVI(6, num_steps=1)

    @eqx.filter_jit
    def run(model, ys, inputs):
        def step(carry, row):
            y, now = row
            new = recursion.advance(carry, model, FAMILY, y, now, jax.random.key(0))
            return new, (new.mean, new.covariance)

        return jax.lax.scan(step, FAMILY.initial_carry(model), (ys, inputs))[1]

    exact = kalman_filter(model, ys, inputs)
    for found, expected in zip(run(model, ys, inputs), (exact.mean, exact.covariance), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_statistics_of_online_em_are_those_of_the_smoother() -> None:
    """A tilt of the transition is averaged over the backward kernel."""
    case = full_case()
    move, emit, _ = increments(rmcvi.NaturalRMCVI(5, num_steps=2), case, FAMILY)
    moves, emits = smoothed_sums(case)
    np.testing.assert_allclose(move.moments.sum(0), moves, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(emit.moments.sum(0), emits, rtol=1e-6, atol=1e-7)


@pytest.mark.long
def test_smoothing_a_sequence_with_singular_noise() -> None:
    model = integrator()
    ys, _ = stream(model, 30)
    nothing = rmcvi.Trainable(model=False, family=False)
    recursion, still = rmcvi.NaturalRMCVI(6, num_steps=1), optax.sgd(0.0)
    learner = rmcvi.OnlineEstimator(
        model, FAMILY, recursion, still, still, trainable=nothing, draws=0, health=False
    )
    start = eqx.filter_jit(learner.init)(jax.random.key(0))
    told = learner.smooth_sequence(start, ys, num=4000)
    exact = kalman_smoother(model, ys)
    std = jnp.sqrt(jnp.diagonal(exact.covariance, axis1=1, axis2=2))
    assert float(jnp.max(jnp.abs(told.mean - exact.mean) / std)) < 5 / 4000**0.5
    np.testing.assert_allclose(told.std, std, rtol=5 / (2 * 4000) ** 0.5)


def test_in_single_precision() -> None:
    """Noise of rank one, the harder case."""
    with jax.enable_x64(False):
        model = integrator()
        ys, inputs = stream(model, 300)
        carry, _, grads, info = follow(rmcvi.NaturalRMCVI(8), model, ys, inputs)
        assert carry.mean.dtype == jnp.float32
    exact, _, truth = by_textbook(integrator(), ys)
    np.testing.assert_allclose(carry.mean, exact.mean, atol=1e-3)
    np.testing.assert_allclose(carry.covariance, exact.cov, atol=1e-3)
    np.testing.assert_allclose(info.elbo, exact.log_evidence, rtol=1e-3)
    for told, slope in zip(jax.tree.leaves(grads), truth, strict=True):
        np.testing.assert_allclose(np.sum(told, 0), slope, rtol=1e-2, atol=1e-3 * len(ys))


class Chain(AbstractGaussianModel):
    """Four integrators in a row, pushed at the far end by next to nothing."""

    dim_state: int = eqx.field(static=True, default=4)
    dim_obs: int = eqx.field(static=True, default=1)

    def transition_mean(self, x_prev, inputs):
        return x_prev + 0.01 * jnp.concatenate([x_prev[1:], jnp.zeros(1)])

    def transition_scale(self, inputs):
        return jnp.array([0.0, 0.0, 0.0, 1e-6])

    def emission_mean(self, x, inputs):
        return x[:1]

    def emission_scale(self, x, inputs):
        return jnp.ones(1)


def test_a_nearly_singular_chain_in_single_precision() -> None:
    """Products of deviations would be off by a tenth of a per cent and more."""
    ys = rmcvi.simulate(Chain(), jax.random.key(0), 600)[1]
    with jax.enable_x64(False):
        inputs = rmcvi.Inputs.sequence(600)
        carry = follow(rmcvi.NaturalRMCVI(8), Chain(), ys.astype(jnp.float32), inputs)[0]
        assert carry.mean.dtype == jnp.float32
    exact = kalman_filter(Chain(), ys)
    std = np.sqrt(np.diagonal(exact.covariance, axis1=1, axis2=2))
    assert np.max(np.abs(carry.mean - exact.mean) / std) < 3e-4
    told = np.sqrt(np.diagonal(carry.covariance, axis1=1, axis2=2))
    np.testing.assert_allclose(told, std, rtol=1e-3)


def test_particles_are_matched_and_roots_exist() -> None:
    for num in (2, 7):
        noise = np.asarray(jax.jit(lambda n=num: whitened_normal(jax.random.key(0), n, 3))())
        np.testing.assert_allclose(noise.mean(0), 0.0, atol=1e-12)
        np.testing.assert_allclose(noise.T @ noise / len(noise), np.eye(3), atol=1e-12)
        assert len(noise) == max(num, 6)
    singular = np.outer([2.0, 0.0, -1e-4], [2.0, 0.0, -1e-4])
    root = np.asarray(jax.jit(root_of)(singular))
    np.testing.assert_allclose(root @ root.T, singular, rtol=1e-12, atol=0)


def test_outliers_and_gaps_do_no_harm() -> None:
    truth = rmcvi.models.ChaoticRNN(dim=3)
    xs, ys = map(np.array, rmcvi.simulate(truth, jax.random.key(1), 300))
    bad = ys.copy()
    bad[100], bad[120], bad[140:160], bad[200:230, 0] = 1e6, -np.inf, np.nan, 5.0
    inputs = rmcvi.Inputs.sequence(300)
    recursion = rmcvi.NaturalRMCVI(8)
    carry, _, grads, info = follow(recursion, truth, jnp.asarray(bad), inputs)
    error = np.sqrt(np.mean((np.asarray(carry.mean) - xs) ** 2, 1))
    clean, _, _, _ = follow(recursion, truth, jnp.asarray(ys), inputs)
    np.testing.assert_allclose(carry.mean[280:], clean.mean[280:], atol=0.05)
    assert error[250:].mean() < 1.3 * error[50:100].mean()
    assert np.all(np.isfinite(info.elbo))
    assert all(np.all(np.isfinite(g)) for g in jax.tree.leaves(grads))


def by_quadrature(model: Any, ys: Array) -> Array:
    """The evidence of a model with one state, on a grid: exact to rounding."""
    grid, inputs = jnp.linspace(-8.0, 6.0, 400), rmcvi.Inputs.of()
    step = grid[1] - grid[0]
    points = grid[:, None]
    move = jnp.exp(model.pairwise_log_prob(points, points, inputs)) * step

    def row(law, y):
        joint = law * jnp.exp(jax.vmap(lambda x: model.observed_log_prob(x, y, inputs))(points))
        total = jnp.sum(joint)
        return move @ (joint / total), jnp.log(total)

    start = jnp.exp(jax.vmap(model.initial_log_prob)(points)) * step
    return jnp.sum(jax.lax.scan(row, start, ys)[1])


def assumed_density(model: Any, ys: Array) -> Array:
    """The same with every law replaced by the Gaussian of its moments."""
    z, inputs = jnp.linspace(-8.0, 8.0, 400), rmcvi.Inputs.of()
    mass = jax.nn.log_softmax(-0.5 * z**2)

    def row(law, y):
        x = law[0][None] + law[1][None] * z[:, None]
        joint = mass + jax.vmap(lambda x: model.observed_log_prob(x, y, inputs))(x)
        share = jax.nn.softmax(joint)
        mean = share @ x
        moved = model.transition_mean(mean, inputs)
        slope = model.transition_jacobian(mean, inputs)[0]
        variance = slope**2 * (share @ (x - mean[None]) ** 2)
        scale = jnp.sqrt(variance + model.transition_scale(inputs) ** 2)
        return (moved, scale), jax.nn.logsumexp(joint)

    start = model.level, model.transition_scale(inputs) * jnp.cosh(model.raw_persistence)
    return jnp.sum(jax.lax.scan(row, start, ys)[1])


@pytest.mark.parametrize(
    ("particles", "oracle", "share"),
    [
        (400, assumed_density, 0.1),
        pytest.param(50, by_quadrature, 0.5, marks=pytest.mark.long),
    ],
)
def test_stochastic_volatility_by_quadrature(particles: int, oracle: Any, share: float) -> None:
    """With many particles the assumed-density filter, with fifty not far from the exact one."""
    model = rmcvi.models.StochasticVolatility(level=-0.7, persistence=0.95, noise=0.3)
    _, ys = rmcvi.simulate(model, jax.random.key(0), 400)
    recursion, inputs = rmcvi.NaturalRMCVI(particles), rmcvi.Inputs.sequence(400)
    _, _, grads, info = follow(recursion, model, ys, inputs)
    told = np.stack([np.asarray(g)[:, 0] for g in jax.tree.leaves(grads)], 1)
    exact, slopes = eqx.filter_jit(eqx.filter_value_and_grad(oracle))(model, ys)
    slopes = np.concatenate(jax.tree.leaves(slopes))
    assert abs(float(exact) - float(info.elbo[-1])) < 1e-3 * len(ys)
    error = np.sqrt((told**2).sum(0))
    assert np.all(np.abs(told.sum(0) - slopes) < share * error)


@pytest.mark.long
def test_a_hundred_thousand_rows_in_single_precision() -> None:
    """Noise of rank one, outliers and gaps: all is finite, and the filter is still Kalman's."""
    with jax.enable_x64(False):
        model, length = integrator(), 100_000
        ys, inputs = stream(model, length)
        ys = ys.at[1000::1000].set(1e6).at[500:600].set(jnp.nan)
        carry, _, grads, info = follow(rmcvi.NaturalRMCVI(8), model, ys, inputs)
        numbers = (carry.mean, carry.covariance, info.elbo, grads)
        assert all(bool(jnp.all(jnp.isfinite(v))) for v in jax.tree.leaves(numbers))
        exact = kalman_filter(model, ys[-900:], jax.tree.map(lambda v: v[-900:], inputs))
        std = jnp.sqrt(exact.covariance[-1, 0, 0])
        assert float(jnp.abs(carry.mean[-1, 0] - exact.mean[-1, 0])) < 0.01 * float(std)


def test_tails_that_q_misses_are_seen_by_particles_of_the_prediction() -> None:
    """Score in the scale of Student errors, which the tails decide; q's own particles miss .026."""

    def log_g(z, y, log_scale):
        return -log_scale - 2.0 * jnp.log1p(((y - z) * jnp.exp(-log_scale)) ** 2 / 3.0)

    slope = jax.vmap(jax.grad(log_g, 2), (0, None, None))

    def score(key, y, log_scale):
        noise = whitened_normal(key, 50, 1)
        fit = ascend(lambda z: log_g(z[0], y, log_scale) - 0.5 * z @ z, noise, 4, 1.0)
        likelihood = jax.vmap(lambda z: log_g(z[0], y, log_scale))(noise)
        found = Match.of(fit, likelihood, corrected=True)
        return found.weights @ slope(jnp.concatenate([fit.z, noise])[:, 0], y, log_scale)

    keys, log_scale, missed = jax.random.split(jax.random.key(0), 200), jnp.log(0.5), []
    z = jnp.linspace(-8.0, 8.0, 4001)
    for y in (1.0, 1.5):
        got = jax.jit(jax.vmap(lambda k, y=y: score(k, y, log_scale)))(keys)
        density = jnp.exp(-0.5 * z**2 + log_g(z, y, log_scale))
        missed.append(jnp.mean(got) - jnp.average(slope(z, y, log_scale), weights=density))
    assert abs(sum(missed) / 2) < 0.012, missed


def test_a_likelihood_with_an_edge_keeps_its_row():
    """Particles beyond the edge have no density (NaN); the others tell where the posterior is."""

    def target(z):
        return 2.0 * jnp.log(z[0] + 1.0) - 0.5 * z @ z

    @jax.jit
    def match():
        noise = whitened_normal(jax.random.key(0), 50, 1)
        log_g = jnp.log(jnp.maximum(noise[:, 0] + 1.0, 1e-6)) * 2.0
        found = Match.of(ascend(target, noise, 4, 1.0), log_g, corrected=True)
        return jnp.min(noise), found.mean[0], found.root[0, 0]

    least, middle, root = map(float, match())
    assert least < -1.0
    z = np.linspace(-1.0, 8.0, 20_001)
    density = (z + 1.0) ** 2 * np.exp(-0.5 * z**2)
    mean = np.average(z, weights=density)
    spread = np.average((z - mean) ** 2, weights=density) ** 0.5
    assert abs(middle - mean) < 0.05 * spread
    assert abs(root / spread - 1.0) < 0.2  # q is a sixth too wide
