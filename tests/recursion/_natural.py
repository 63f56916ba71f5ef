"""Linear models of every kind, runs of NaturalRMCVI over them, and the exact answers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import rmcvi
from rmcvi.baselines import kalman_filter, kalman_smoother, score
from rmcvi.core.gaussian import normal_log_prob
from rmcvi.models import AbstractGaussianModel
from tests.reference import kalman as textbook

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
    u = jnp.asarray(np.random.default_rng(5).normal(size=(length, model.dim_input)), float)
    inputs = rmcvi.Inputs.sequence(length, u, dim=model.dim_input)
    ys = np.array(rmcvi.simulate(model, jax.random.key(0), length, inputs.u)[1])
    ys[3], ys[5:7, 0] = np.nan, np.nan
    return jnp.asarray(ys), inputs


@eqx.filter_jit
def follow(recursion: Any, model: Any, ys: Array, inputs: rmcvi.Inputs) -> Any:
    def step(state, row):
        y, inputs, k = row
        new, grads, info = recursion.step(state, model, FAMILY, y, inputs, k)
        return new, (new.carry, new.smoothed, grads.model, info)

    rows = (ys, inputs, jax.random.split(jax.random.key(2), len(ys)))
    return jax.lax.scan(step, recursion.init(model, FAMILY), rows)[1]


def by_textbook(model: Integrator, ys: Array) -> tuple[Any, np.ndarray, Any]:
    """Filter, smoothed mean of the last row but one, and score (by differences), in NumPy."""

    def run(theta):
        push, decay, error = theta
        noise = np.exp(push) * np.array([0.5, 1.0, 0.0])
        matrix = np.array([[1.0, 1.0, 0.0], [-0.1, decay, 0.0], [1.0, 0.0, 0.0]])
        emission, spread = np.array([[1.0, 0.0, 0.3]]), np.exp(2.0 * error) * np.eye(1)
        system = textbook.LinearSystem.build(
            matrix, np.outer(noise, noise), emission, spread,
            np.ones(3), 0.25 * np.eye(3), len(ys),
        )  # fmt: skip
        return system, textbook.kalman_filter(system, np.asarray(ys, float))

    point = np.array([float(v) for v in jax.tree.leaves(model)])
    system, told = run(point)
    ends = [[run(point + s * e)[1].log_evidence[-1] for s in (1e-5, -1e-5)] for e in np.eye(3)]
    return (
        told,
        textbook.rts_smoother(system, told).mean[-2],
        np.subtract(*np.transpose(ends)) / 2e-5,
    )


def by_kalman(model: Any, ys: Array, inputs: rmcvi.Inputs) -> tuple[Any, Any, Any]:
    """The same by the library's own, which tests/baselines compares with the textbook's."""
    told = kalman_filter(model, ys, inputs)
    smoothed = kalman_smoother(model, ys, inputs).mean[-2]
    law = textbook.Filtered(*map(np.asarray, (told.mean, told.covariance, told.log_evidence)))
    return law, np.asarray(smoothed), jax.tree.leaves(score(model, ys, inputs))


def compare(told: Any, model: Any, ys: Array, inputs: rmcvi.Inputs) -> None:
    """All that `follow` tells, against the exact answers."""
    carry, smoothed, grads, info = told
    plain = isinstance(model, Integrator)
    exact, last, truth = by_textbook(model, ys) if plain else by_kalman(model, ys, inputs)
    np.testing.assert_allclose(carry.mean, exact.mean, atol=1e-8)
    np.testing.assert_allclose(carry.covariance, exact.cov, atol=1e-8)
    np.testing.assert_allclose(info.elbo, exact.log_evidence, atol=1e-7)
    for slopes, slope in zip(jax.tree.leaves(grads), truth, strict=True):
        np.testing.assert_allclose(np.sum(slopes, 0), slope, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(smoothed[-1], last, atol=1e-7)
    assert np.max(np.abs(exact.mean[-2] - last)) > 1e-3
