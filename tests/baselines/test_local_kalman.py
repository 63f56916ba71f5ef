"""Local covariances against the full filter, the exact one, and their own cost."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rmcvi
from rmcvi import Inputs, Trainable
from rmcvi.baselines import ExtendedKalmanRecursion, LocalKalmanRecursion, kalman_filter
from rmcvi.models import AbstractGaussianModel, LinearGaussian
from rmcvi.models.zoo import Lorenz96


def run(recursion: Any, model: Any, ys: Any, learned: Any = eqx.is_inexact_array) -> Any:
    """Laws, evidence and gradients of a stream, and the last state."""
    trainable, row = Trainable(model=learned), Inputs(jnp.zeros(0), jnp.ones(()))

    @jax.jit
    def scanned(ys):
        def step(state, y):
            new, grads, info = recursion.step(
                state, model, None, y, row, jax.random.key(0), trainable
            )
            return new, (recursion.filtered(new, model, None), info.increment, grads.model)

        return jax.lax.scan(step, recursion.init(model, None, trainable), ys)

    state, found = scanned(ys)
    return *found, state


def chain(dim: int) -> LinearGaussian:
    """Diffusion and drift on a line; every third place is seen."""
    move = 0.7 * np.eye(dim) + 0.2 * np.eye(dim, k=-1) + 0.05 * np.eye(dim, k=1)
    return LinearGaussian(move, np.eye(dim)[::3], np.full(dim, 0.5), np.full(dim // 3, 0.5))


def test_one_window_is_the_extended_kalman_filter() -> None:
    """Law, evidence and its derivatives, with gaps, on a ring that is not linear."""
    model = Lorenz96(9)
    ys = rmcvi.simulate(model, jax.random.key(0), 12)[1].at[3].set(jnp.nan).at[5, 1].set(jnp.nan)
    got = run(LocalKalmanRecursion(3, ring=True), model, ys)[:3]
    expected = run(ExtendedKalmanRecursion(learn=True), model, ys)[:3]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-8), got, expected)


def test_neighbours_are_enough() -> None:
    """On a chain errors of mean, deviation and evidence fall with the radius; the rest is exact."""
    model = chain(60)
    ys = rmcvi.simulate(model, jax.random.key(1), 30)[1]
    exact = kalman_filter(model, ys)
    std = np.sqrt(np.diagonal(exact.covariance, axis1=1, axis2=2))
    errors = []
    for radius in (2, 5, 10):
        law, evidence, *_ = run(LocalKalmanRecursion(radius), model, ys, False)
        own = np.sqrt(np.diagonal(law.covariance, axis1=1, axis2=2))
        off = [(law.mean - exact.mean) / std, own / std - 1.0]
        errors.append(
            [*(np.abs(v).max() for v in off), abs(evidence.sum() - exact.log_evidence[-1])]
        )
    first, second, third = np.array(errors)
    assert np.all(second < 0.3 * first) and np.all(third < 0.1 * second), errors
    assert np.all(third < [1e-3, 1e-4, 1e-2]), errors


@pytest.mark.long
def test_the_cost_is_linear() -> None:
    """Twice the states, twice the operations, derivatives in three parameters included."""

    def operations(dim: int) -> float:
        model, row = Lorenz96(dim), Inputs(jnp.zeros(0), jnp.ones(()))
        recursion = LocalKalmanRecursion(6, ring=True)
        state, y = recursion.init(model, None), jnp.zeros(model.dim_obs)

        def step(state):
            return recursion.step(state, model, None, y, row, jax.random.key(0)).state

        counted = jax.jit(step).lower(state).cost_analysis()
        assert counted is not None
        return counted["flops"]

    assert operations(192) < 2.1 * operations(96)


def test_draws_are_of_the_law() -> None:
    """Also across the borders of blocks, where each is drawn given what is left of it."""
    model, recursion = chain(36), LocalKalmanRecursion(6)
    ys = rmcvi.simulate(model, jax.random.key(2), 6)[1]
    exact, state = kalman_filter(model, ys), run(recursion, model, ys, False)[-1]
    draws = recursion.draw(state, model, None, jax.random.key(3), 4000)
    away = (draws - exact.mean[-1][None]) @ np.linalg.inv(
        np.linalg.cholesky(exact.covariance[-1])
    ).T
    np.testing.assert_allclose(away.mean(0), 0.0, atol=5 / 4000**0.5)
    np.testing.assert_allclose(np.cov(away.T), np.eye(36), atol=5 * (2 / 4000) ** 0.5)


class Counts(AbstractGaussianModel):
    """Rates that diffuse along a line, places with a rate and its drift, counted now and then."""

    log_noise: jax.Array
    dim_state: int = eqx.field(static=True, default=48)
    dim_obs: int = eqx.field(static=True, default=24)

    def transition_mean(self, x_prev, inputs):
        rate, drift = x_prev[::2], x_prev[1::2]
        spread = 0.1 * (jnp.roll(rate, 1).at[0].set(0.0) + jnp.roll(rate, -1).at[-1].set(0.0))
        return jnp.stack([0.6 * rate + spread + drift, 0.8 * drift], 1).ravel()

    def transition_scale(self, inputs):
        return jnp.tile(jnp.stack([jnp.zeros(()), jnp.exp(self.log_noise)]), 24)

    def emission_mean(self, x, inputs):
        return jnp.exp(x[::2])

    def emission_scale(self, x, inputs):
        return jnp.exp(0.5 * x[::2])

    def emission_log_prob(self, x, y, inputs):
        return y * x[::2] - jnp.exp(x[::2])

    def emission_sample(self, key, x, inputs):
        return jax.random.poisson(key, jnp.exp(x[::2])).astype(x.dtype)


@pytest.mark.long
def test_counts_and_noise_without_a_density() -> None:
    """Noise on every other state only: windows agree with one window, gradients too."""
    model = Counts(log_noise=jnp.log(jnp.array(0.3)))
    ys = rmcvi.simulate(model, jax.random.key(4), 25)[1].at[7, 2].set(jnp.nan)
    few, many = (LocalKalmanRecursion(radius, num_steps=8) for radius in (10, 48))
    law, evidence, slope, _ = run(few, model, ys)
    whole, all_evidence, all_slope, _ = run(many, model, ys)
    std = np.sqrt(np.diagonal(whole.covariance, axis1=1, axis2=2))
    assert np.abs((law.mean - whole.mean) / std).max() < 0.02
    np.testing.assert_allclose(evidence, all_evidence, atol=0.05)
    np.testing.assert_allclose(slope.log_noise.sum(), all_slope.log_noise.sum(), rtol=0.02)

    def sum_at(log_noise: float) -> jax.Array:
        return run(few, Counts(log_noise=jnp.array(log_noise)), ys, False)[1].sum()

    here, by = float(model.log_noise), 1e-4
    finite = (sum_at(here + by) - sum_at(here - by)) / (2 * by)
    np.testing.assert_allclose(slope.log_noise.sum(), finite, rtol=1e-3)


def test_a_radius_that_is_too_small_is_refused() -> None:
    """And a ring that was not said to be one."""
    with pytest.raises(ValueError, match="radius: got 1"):
        LocalKalmanRecursion(1, ring=True).init(Lorenz96(40), None)
