"""RMCVI with frozen parameters against the ideal algorithm, as N grows, and where it is exact.

The increments of the gradient add up to an estimate of grad L_T. Its error has a standard deviation
of order N^-1/2 and, because weights are normalised by their own sum, a bias of order 1/N. The sizes
and numbers of runs below are chosen so that each of the two can be seen.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from rmcvi import RMCVI, Inputs, Trainable
from rmcvi.families import LinearGaussianFamily
from rmcvi.models import LinearGaussian
from rmcvi.recursion.ideal_linear import ideal_elbo
from tests.reference.kalman import LinearSystem, kalman_filter

LENGTH = 4
F, G = np.array([[0.8, 0.2], [-0.1, 0.7]]), np.array([[1.0, 0.4], [-0.3, 0.6]])
M0, S0 = np.array([0.3, -0.2]), np.array([0.9, 0.7])
YS = np.random.default_rng(0).normal(size=(LENGTH, 1))
RUNS = {8: 2048, 64: 256, 512: 32}
"""Of so many particles; what `make test` says of the gradient it says exactly, in
test_calibrated.py, and with these weights in test_golden.py."""


def misspecified() -> tuple[LinearGaussian, LinearGaussianFamily]:
    """A model, and the posterior of another one as q."""
    noise = np.array([0.5, 0.4])
    model = LinearGaussian(F, G[:1], noise, 0.5, M0, S0)
    other = LinearGaussian(F + np.array([[-0.2, -0.1], [-0.1, 0.1]]), 0.8 * G[:1], 1.2 * noise, 0.6)
    return model, LinearGaussianFamily(other)


class Estimates(NamedTuple):
    """Estimates of (grad_theta L_T, grad_phi L_T) as vectors, one row per run, and of L_T."""

    gradient: np.ndarray
    elbo: np.ndarray

    def mean_error(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean error of the gradient over runs, and its standard error."""
        error = self.gradient - exact()[0]
        return error.mean(0), error.std(0, ddof=1) / np.sqrt(len(error))

    def first(self, runs: int) -> "Estimates":
        return Estimates(self.gradient[:runs], self.elbo[:runs])

    def rmse(self) -> float:
        return float(np.sqrt(np.mean(np.sum((self.gradient - exact()[0]) ** 2, 1))))


def regular(length: int, dim: int = 0) -> Inputs:
    return Inputs(jnp.zeros((length, dim)), jnp.ones(length))


@lru_cache
def exact() -> tuple[np.ndarray, float]:
    """The ideal gradient of L_T in (model, family), and L_T."""

    def last(pair):
        return ideal_elbo(pair[0], pair[1], jnp.asarray(YS))[-1]

    value, grads = jax.jit(jax.value_and_grad(last))(misspecified())
    return np.asarray(ravel_pytree(grads)[0]), float(value)


@lru_cache
def estimates(num: int, gradient: str) -> Estimates:
    """Independent runs of the recursion with a window and a depth that cover the stream."""
    model, family = misspecified()
    recursion = RMCVI(num, window=LENGTH, bptt=LENGTH, gradient=gradient, negligible=0.0)

    def one(key):
        def step(state, now):
            t, y, inputs = now
            out = recursion.step(state, model, family, y, inputs, jax.random.fold_in(key, t))
            flat, _ = ravel_pytree((out.grads.model, out.grads.family))
            return out.state, (flat, out.info.elbo)

        steps = (jnp.arange(LENGTH), jnp.asarray(YS), regular(LENGTH))
        _, (increments, elbo) = jax.lax.scan(step, recursion.init(model, family), steps)
        return jnp.sum(increments, 0), elbo[-1]

    keys = jax.random.split(jax.random.key(num), RUNS[num])
    out = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=128))(keys)
    return Estimates(*(np.asarray(v) for v in out))


@pytest.mark.long
def test_error_shrinks_like_the_root_of_n() -> None:
    sizes = sorted(RUNS)
    rmse = [estimates(num, "windowed").rmse() for num in sizes]
    slope = np.polyfit(np.log(sizes), np.log(rmse), 1)[0]
    assert -0.8 < slope < -0.3, (slope, rmse)


@pytest.mark.long
def test_gradient_of_many_particles_is_the_ideal_one() -> None:
    """As many runs as particles: the bias, 1/N, is of the size of the error, (N runs)^-1/2."""
    mean, se = estimates(64, "windowed").first(64).mean_error()
    assert np.all(np.abs(mean) <= 5.0 * se + 1e-12), mean / se


@pytest.mark.long
def test_bias_is_that_of_self_normalisation() -> None:
    """Few particles are visibly biased; the part of order 1/N is all of it to within noise."""
    (few, few_se), (many, many_se) = (estimates(n, "windowed").mean_error() for n in (8, 64))
    assert np.max(np.abs(few) / np.maximum(few_se, 1e-12)) > 5.0
    extrapolated = many + (many - few) / 7.0
    se = np.hypot(many_se * 8.0 / 7.0, few_se / 7.0)
    assert np.all(np.abs(extrapolated) <= 5.0 * se + 1e-12), extrapolated / se


@pytest.mark.long
def test_elbo_of_many_particles_is_the_ideal_one() -> None:
    elbo = estimates(64, "windowed").first(64).elbo
    se = elbo.std(ddof=1) / np.sqrt(len(elbo))
    assert abs(elbo.mean() - exact()[1]) <= 5.0 * se


@pytest.mark.long
def test_forward_gradient_is_the_same_estimate() -> None:
    """Run by run, so every statement above holds for the paper's form as well."""
    forward, windowed = estimates(8, "forward"), estimates(8, "windowed")
    np.testing.assert_allclose(forward.gradient, windowed.gradient, atol=1e-9)
    np.testing.assert_allclose(forward.elbo, windowed.elbo, atol=1e-12)


def test_exact_posterior_gives_the_log_evidence_at_every_particle() -> None:
    """Identity (i) of the errata: no variance at all, however few the particles."""
    num = 2
    S, C = np.array([[0.5, 0.0], [0.2, 0.4]]), np.array([[0.4, 0.0], [0.1, 0.5]])
    model = LinearGaussian(F, G, S, C, M0, S0)
    length = 30
    system = LinearSystem.build(F, S @ S.T, G, C @ C.T, M0, np.diag(S0**2), length)
    ys = np.random.default_rng(1).normal(size=(length, 2))
    ys[3, 1], ys[7] = np.nan, np.nan
    elbo, level = exact_run(num, model, jnp.asarray(ys))
    evidence = kalman_filter(system, ys).log_evidence
    np.testing.assert_allclose(elbo, evidence, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(level, np.tile(evidence[:, None], num), rtol=0.0, atol=1e-9)


def exact_run(num: int, model: LinearGaussian, ys: Any) -> tuple[np.ndarray, np.ndarray]:
    """ELBO, and h_t(x_i) - log q_t(x_i), at every step, when q is the posterior."""
    family, nothing = LinearGaussianFamily(model), Trainable(model=False, family=False)
    recursion = RMCVI(num, window=2, bptt=1, entropy="sampled")
    key = jax.random.key(7)

    def step(state, now):
        t, y, inputs = now
        state, _, info = recursion.step(
            state, model, family, y, inputs, jax.random.fold_in(key, t), nothing
        )
        cloud, q = state.cloud, family.distribution
        log_q = jax.vmap(lambda x: q.log_prob(cloud.proposal, x))(cloud.x)
        return state, (info.elbo, cloud.h + state.offset.value - log_q)

    steps = (jnp.arange(len(ys)), ys, regular(len(ys)))
    _, out = jax.jit(lambda s: jax.lax.scan(step, recursion.init(model, family, nothing), s))(steps)
    return np.asarray(out[0]), np.asarray(out[1])
