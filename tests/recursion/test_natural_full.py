"""NaturalRMCVI with full covariances: exact where all is linear, whatever the noise."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import rmcvi
from rmcvi.baselines import kalman_filter, kalman_smoother, score
from rmcvi.core.gaussian import root_of, whitened_normal
from rmcvi.core.gaussian import normal_log_prob
from rmcvi.models import AbstractGaussianModel

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
    return Integrator(jnp.array(-1.0), jnp.array(0.9), jnp.array(-0.5))


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


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("particles", [2, 50])
def test_it_is_the_kalman_filter_and_its_score(name: str, particles: int) -> None:
    """Laws, evidence and gradient, with gaps, inputs and noise of rank one."""
    model = MODELS[name]()
    ys, inputs = stream(model, 30)
    carry, smoothed, grads, info = follow(
        rmcvi.NaturalRMCVI(particles, num_steps=2), model, ys, inputs
    )
    exact = kalman_filter(model, ys, inputs)
    np.testing.assert_allclose(carry.mean, exact.mean, atol=1e-8)
    np.testing.assert_allclose(carry.covariance, exact.covariance, atol=1e-8)
    np.testing.assert_allclose(info.elbo, exact.log_evidence, atol=1e-7)
    truth = score(model, ys, inputs)
    for told, slope in zip(jax.tree.leaves(grads), jax.tree.leaves(truth), strict=True):
        np.testing.assert_allclose(told.sum(0), slope, rtol=1e-7, atol=1e-7)
    before = kalman_smoother(model, ys[:-1], jax.tree.map(lambda v: v[:-1], inputs))
    last = kalman_smoother(model, ys, inputs).mean[-2]
    np.testing.assert_allclose(smoothed[-1], last, atol=1e-7)
    assert float(jnp.max(jnp.abs(before.mean[-1] - last))) > 1e-3
