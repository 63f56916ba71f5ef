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
from rmcvi.baselines import kalman_filter, kalman_smoother, score
from rmcvi.core.gaussian import normal_log_prob, root_of, whitened_normal
from rmcvi.models import AbstractGaussianModel
from rmcvi.recursion.gaussian_fit import ascend
from rmcvi.recursion.gaussian_match import Match
from tests.baselines._linear import full_case
from tests.optim.test_em import increments, smoothed_sums

FAMILY = rmcvi.families.LinearGaussianFamily()


class Integrator(AbstractGaussianModel):
    """Position, velocity and the position before: one noise drives all three, rank one."""

    log_push: Array
    decay: Array
    log_error: Array
    dim_state: int = eqx.field(static=True, default=3)
    dim_obs: int = eqx.field(static=True, default=1)

    def initial_log_prob(self, x):
        return jnp.sum(normal_log_prob(x, jnp.ones(3), 0.5 * jnp.ones(3)))

    def initial_sample(self, key):
        return 1.0 + 0.5 * jax.random.normal(key, (3,))

    def transition_mean(self, x_prev, inputs):
        position, speed, _ = x_prev
        return jnp.stack([position + speed, self.decay * speed - 0.1 * position, position])

    def transition_scale(self, inputs):
        column = jnp.exp(self.log_push) * jnp.array([0.5, 1.0, 0.0])
        return jnp.zeros((3, 3)).at[:, 0].set(column)

    def emission_mean(self, x, inputs):
        return x[:1] + 0.3 * x[2:]

    def emission_scale(self, x, inputs):
        return jnp.exp(self.log_error)[None]

    def emission_information(self, x, seen, inputs):
        return seen[:, None] * jnp.array([[1.0, 0.0, 0.3]]) / jnp.exp(self.log_error)

    def emission_log_prob(self, x, y, inputs):
        return normal_log_prob(y, self.emission_mean(x, inputs), jnp.exp(self.log_error))

    def emission_sample(self, key, x, inputs):
        noise = jax.random.normal(key, (1,))
        return self.emission_mean(x, inputs) + jnp.exp(self.log_error) * noise


def correlated() -> rmcvi.models.LinearGaussian:
    """Everything is correlated, and there is an input."""
    return rmcvi.models.LinearGaussian(
        jnp.array([[0.8, 0.3], [-0.2, 0.7]]),
        jnp.array([[1.0, 0.2], [0.3, 1.0], [0.5, 0.5]]),
        jnp.array([[0.5, 0.0], [0.3, 0.2]]),
        jnp.array([[0.4, 0.0, 0.0], [0.2, 0.5, 0.0], [0.1, 0.0, 0.3]]),
        state_input=jnp.array([[0.5], [-0.3]]),
        obs_input=jnp.array([[0.1], [0.0], [0.2]]),
    )


def integrator() -> Integrator:
    return Integrator(log_push=jnp.array(-1.0), decay=jnp.array(0.9), log_error=jnp.array(-0.5))


def independent() -> rmcvi.models.LinearGaussian:
    return rmcvi.models.LinearGaussian(
        jnp.array([0.9, 0.5]), jnp.array([1.0, 0.7]), jnp.array([0.3, 0.6]), jnp.array([0.4, 0.2])
    )


MODELS = {"correlated": correlated, "integrator": integrator, "independent": independent}


def stream(model: Any, length: int) -> tuple[Array, rmcvi.Inputs]:
    u = jax.random.normal(jax.random.key(5), (length, model.dim_input))
    inputs = rmcvi.Inputs.sequence(length, u, dim=model.dim_input)
    _, ys = rmcvi.simulate(model, jax.random.key(0), length, inputs.u)
    return ys.at[3].set(jnp.nan).at[5:7, 0].set(jnp.nan), inputs


@eqx.filter_jit
def follow(recursion: Any, model: Any, ys: Array, inputs: rmcvi.Inputs) -> Any:
    def step(state, row):
        y, inputs, k = row
        new, grads, info = recursion.step(state, model, FAMILY, y, inputs, k)
        return new, (new.carry, new.smoothed, grads.model, info)

    rows = (ys, inputs, jax.random.split(jax.random.key(2), len(ys)))
    return jax.lax.scan(step, recursion.init(model, FAMILY), rows)[1]


@pytest.mark.parametrize(
    ("name", "particles", "corrected"),
    [
        ("correlated", 2, False),
        ("correlated", 50, True),
        ("integrator", 2, True),
        ("independent", 7, True),
    ],
)
def test_it_is_the_kalman_filter_and_its_score(name: str, particles: int, corrected: bool) -> None:
    """Laws, evidence and gradient, with gaps, inputs and noise of rank one."""
    model = MODELS[name]()
    ys, inputs = stream(model, 30)
    recursion = rmcvi.NaturalRMCVI(particles, num_steps=2, corrected=corrected)
    carry, smoothed, grads, info = follow(recursion, model, ys, inputs)
    exact = kalman_filter(model, ys, inputs)
    np.testing.assert_allclose(carry.mean, exact.mean, atol=1e-8)
    np.testing.assert_allclose(carry.covariance, exact.covariance, atol=1e-8)
    np.testing.assert_allclose(info.elbo, exact.log_evidence, atol=1e-7)
    np.testing.assert_allclose(info.misfit.left_out, 0.0, atol=1e-7)
    np.testing.assert_array_equal(info.misfit.pareto_k, 0.0 if particles > 24 else np.nan)
    truth = score(model, ys, inputs)
    for told, slope in zip(jax.tree.leaves(grads), jax.tree.leaves(truth), strict=True):
        np.testing.assert_allclose(told.sum(0), slope, rtol=1e-7, atol=1e-7)
    last = kalman_smoother(model, ys, inputs).mean[-2]
    np.testing.assert_allclose(smoothed[-1], last, atol=1e-7)
    assert float(jnp.max(jnp.abs(exact.mean[-2] - last))) > 1e-3


def test_statistics_of_online_em_are_those_of_the_smoother() -> None:
    """A tilt of the transition is averaged over the backward kernel."""
    case = full_case()
    move, emit, _ = increments(rmcvi.NaturalRMCVI(5, num_steps=2), case, FAMILY)
    moves, emits = smoothed_sums(case)
    np.testing.assert_allclose(move.moments.sum(0), moves, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(emit.moments.sum(0), emits, rtol=1e-6, atol=1e-7)


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
    model = integrator()
    ys, inputs = jax.tree.map(lambda v: v.astype(float), (ys, inputs))
    exact, truth = kalman_filter(model, ys, inputs), score(model, ys, inputs)
    np.testing.assert_allclose(carry.mean, exact.mean, atol=1e-3)
    np.testing.assert_allclose(carry.covariance, exact.covariance, atol=1e-3)
    np.testing.assert_allclose(info.elbo, exact.log_evidence, rtol=1e-3)
    for told, slope in zip(jax.tree.leaves(grads), jax.tree.leaves(truth), strict=True):
        np.testing.assert_allclose(told.sum(0), slope, rtol=1e-2, atol=1e-3 * len(ys))


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
    for num in (2, 6, 7, 20):
        noise = whitened_normal(jax.random.key(0), num, 3)
        np.testing.assert_allclose(noise.mean(0), 0.0, atol=1e-12)
        np.testing.assert_allclose(noise.T @ noise / len(noise), jnp.eye(3), atol=1e-12)
        assert len(noise) == max(num, 6)
    singular = jnp.outer(jnp.array([2.0, 0.0, -1e-4]), jnp.array([2.0, 0.0, -1e-4]))
    np.testing.assert_allclose(
        root_of(singular) @ root_of(singular).T, singular, rtol=1e-12, atol=0
    )


def test_outliers_and_gaps_do_no_harm() -> None:
    truth = rmcvi.models.ChaoticRNN(dim=3)
    xs, ys = rmcvi.simulate(truth, jax.random.key(1), 300)
    bad = ys.at[100].set(1e6).at[120].set(-jnp.inf).at[140:160].set(jnp.nan).at[200:230, 0].set(5.0)
    inputs = rmcvi.Inputs.sequence(300)
    carry, _, grads, info = follow(rmcvi.NaturalRMCVI(8), truth, bad, inputs)
    error = jnp.sqrt(jnp.mean((carry.mean - xs) ** 2, 1))
    clean, _, _, _ = follow(rmcvi.NaturalRMCVI(8), truth, ys, inputs)
    np.testing.assert_allclose(carry.mean[280:], clean.mean[280:], atol=0.05)
    assert float(error[250:].mean()) < 1.3 * float(error[50:100].mean())
    assert bool(jnp.all(jnp.isfinite(info.elbo)))
    assert all(bool(jnp.all(jnp.isfinite(g))) for g in jax.tree.leaves(grads))


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


def test_stochastic_volatility_by_quadrature() -> None:
    """With many particles the assumed-density filter, with fifty not far from the exact one."""
    model = rmcvi.models.StochasticVolatility(level=-0.7, persistence=0.95, noise=0.3)
    _, ys = rmcvi.simulate(model, jax.random.key(0), 400)
    for particles, oracle, share in ((400, assumed_density, 0.1), (50, by_quadrature, 0.5)):
        recursion, inputs = rmcvi.NaturalRMCVI(particles), rmcvi.Inputs.sequence(400)
        _, _, grads, info = follow(recursion, model, ys, inputs)
        told = np.stack([g[:, 0] for g in jax.tree.leaves(grads)], 1)
        exact, slopes = eqx.filter_jit(eqx.filter_value_and_grad(oracle))(model, ys)
        slopes = np.concatenate(jax.tree.leaves(slopes))
        assert abs(float(exact - info.elbo[-1])) < 1e-3 * len(ys)
        error = np.sqrt((told**2).sum(0))
        assert np.all(np.abs(told.sum(0) - slopes) < share * error)


@pytest.mark.long
def test_a_hundred_thousand_rows_in_single_precision() -> None:
    """Noise of rank one, outliers and gaps: all is finite, and the filter is still Kalman's."""
    with jax.enable_x64(False):
        model, length = integrator(), 100_000
        ys, inputs = stream(model, length)
        ys = ys.at[1000::1000].set(1e6).at[500:600].set(jnp.nan)
        carry, _, grads, info = follow(rmcvi.NaturalRMCVI(8, num_steps=2), model, ys, inputs)
        numbers = (carry.mean, carry.covariance, info.elbo, grads)
        assert all(bool(jnp.all(jnp.isfinite(v))) for v in jax.tree.leaves(numbers))
        exact = kalman_filter(model, ys[-900:], jax.tree.map(lambda v: v[-900:], inputs))
        std = jnp.sqrt(exact.covariance[-1, 0, 0])
        assert float(jnp.abs(carry.mean[-1, 0] - exact.mean[-1, 0])) < 0.01 * float(std)


def test_a_likelihood_with_an_edge_keeps_its_row():
    """Particles beyond the edge have no density (NaN); the others tell where the posterior is."""

    def target(z):
        return 2.0 * jnp.log(z[0] + 1.0) - 0.5 * z @ z

    noise = whitened_normal(jax.random.key(0), 50, 1)
    assert float(jnp.min(noise)) < -1.0
    found = Match.of(ascend(target, noise, 4, 1.0), corrected=True)
    z = np.linspace(-1.0, 8.0, 20_001)
    density = (z + 1.0) ** 2 * np.exp(-0.5 * z**2)
    mean = np.average(z, weights=density)
    spread = np.average((z - mean) ** 2, weights=density) ** 0.5
    assert abs(float(found.mean[0]) - mean) < 0.05 * spread
    assert abs(float(found.root[0, 0]) / spread - 1.0) < 0.2  # q is a sixth too wide
