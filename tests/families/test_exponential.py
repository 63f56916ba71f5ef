"""Gaussian exponential families against SciPy, far from the origin too."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from rmcvi.core import tree
from rmcvi.families import AbstractExponentialFamily, DiagonalGaussian, FullGaussian, Natural

TAIL = 2 * stats.norm.sf(5.0)
NORMAL: Any = stats.multivariate_normal  # its stub takes no matrix
FAMILIES = {"diagonal": DiagonalGaussian(), "full": FullGaussian()}
MEAN = np.array([0.7, -1.2, 0.3])
FACTOR = np.array([[0.8, 0.0, 0.0], [0.5, 1.1, 0.0], [-0.3, 0.4, 0.6]])


def _member(name: str) -> tuple[Natural, np.ndarray]:
    """A natural parameter and its covariance."""
    covariance = FACTOR @ FACTOR.T if name == "full" else np.diag(np.diag(FACTOR) ** 2)
    precision = np.linalg.inv(covariance)
    precision = precision if name == "full" else np.diag(precision)
    linear = precision @ MEAN if name == "full" else precision * MEAN
    return Natural(jnp.asarray(linear), jnp.asarray(precision)), covariance


@eqx.filter_jit
def _all_of(q: AbstractExponentialFamily, eta: Natural, xs, origin, key):
    relative = q.relative(eta, origin)
    return {
        "log_prob": jax.vmap(lambda x: q.log_prob(eta, x))(xs),
        "relative": jax.vmap(lambda x: q.log_prob(relative, q.shift(x, origin)))(xs),
        "entropy": q.entropy(eta),
        "mean": q.mean(eta),
        "covariance": q.covariance(eta),
        "expected": jax.grad(q.log_normaliser)(eta),
        "supremum": q.log_supremum(eta),
        "draws": q.sample(key, eta, 4000),
    }


@pytest.mark.parametrize("name", FAMILIES)
def test_algebra_is_that_of_scipy(name):
    eta, covariance = _member(name)
    xs = np.random.default_rng(0).normal(size=(6, 3))
    origin = jnp.array([5.0, -3.0, 2.0])
    found = _all_of(FAMILIES[name], eta, jnp.asarray(xs), origin, jax.random.key(0))
    normal = NORMAL(MEAN, covariance)
    np.testing.assert_allclose(found["log_prob"], normal.logpdf(xs), rtol=1e-11)
    np.testing.assert_allclose(found["relative"], normal.logpdf(xs), rtol=1e-10)
    np.testing.assert_allclose(found["entropy"], normal.entropy(), rtol=1e-12)
    np.testing.assert_allclose(found["mean"], MEAN, rtol=1e-12)
    np.testing.assert_allclose(found["covariance"], covariance, rtol=1e-11, atol=1e-14)

    second = -0.5 * (covariance + np.outer(MEAN, MEAN))
    second = second if name == "full" else np.diag(second)
    np.testing.assert_allclose(found["expected"].linear, MEAN, rtol=1e-11)
    np.testing.assert_allclose(found["expected"].precision, second, rtol=1e-11)

    white = np.linalg.solve(np.linalg.cholesky(covariance), (np.asarray(found["draws"]) - MEAN).T)
    assert white.shape == (3, 4000)
    assert all(stats.kstest(row, "norm").pvalue > TAIL for row in white)
    cross = np.corrcoef(white) * 4000**0.5
    assert np.all(np.abs(cross[~np.eye(3, dtype=bool)]) < 5.0)


def _pairing(q: AbstractExponentialFamily, eta: Natural):
    return jax.jit(jax.value_and_grad(lambda x: -tree.vdot(eta, q.statistic(x))))


@pytest.mark.parametrize("name", FAMILIES)
def test_supremum_is_the_maximum(name):
    q, (eta, _) = FAMILIES[name], _member(name)
    objective = _pairing(q, eta)
    best = optimize.minimize(
        lambda x: tuple(np.asarray(v, float) for v in objective(jnp.asarray(x))),
        np.zeros(3),
        jac=True,
        tol=1e-10,
    )
    np.testing.assert_allclose(q.log_supremum(eta), -best.fun, rtol=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_supremum_is_infinite_where_there_is_no_maximum(name):
    """Vectorised: an indefinite and a flat member leave a good neighbour alone."""
    q, (eta, _) = FAMILIES[name], _member(name)
    spoilt = np.diag([1.0, -0.1, 1.0]), np.diag([1.0, 0.0, 1.0])
    precisions = [v if name == "full" else np.diag(v) for v in spoilt]
    batch = Natural(
        jnp.stack([eta.linear] * 3), jnp.stack([eta.precision, *map(jnp.asarray, precisions)])
    )
    found = jax.vmap(q.log_supremum)(batch)
    np.testing.assert_allclose(found[0], 0.5 * MEAN @ np.asarray(eta.linear), rtol=1e-12)
    assert np.all(np.isposinf(found[1:]))


@eqx.filter_jit
def _far_out(q: AbstractExponentialFamily, eta: Natural, xs, origin):
    """Plain and relative log-densities in float32, and the plain one in float64."""
    small = jax.tree.map(lambda v: v.astype(jnp.float32), (eta, xs, origin))
    wide = jax.tree.map(lambda v: v.astype(jnp.float64), small)

    def plain(eta, xs):
        return jax.vmap(lambda x: q.log_prob(eta, x))(xs)

    def near(eta, xs, origin):
        # As in the recursion: differences of tilts cancel, so the constant is left out.
        centred = q.relative(eta, origin)
        return jax.vmap(lambda x: tree.vdot(centred, q.statistic(q.shift(x, origin))))(xs)

    return plain(*wide[:2]), near(*wide), plain(*small[:2]), near(*small)


def test_relative_parameters_keep_float32_exact():
    """Particles at 1e3 with spread 1e-2, tilted by a unit-precision potential."""
    rng = np.random.default_rng(1)
    xs = jnp.asarray(1e3 + 0.01 * rng.normal(size=(50, 2)))
    eta, origin = Natural(jnp.array([1e4, 1e4 + 2.0]), jnp.full(2, 10.0)), jnp.mean(xs, 0)
    plain, near, plain32, near32 = (v - v[0] for v in _far_out(DiagonalGaussian(), eta, xs, origin))
    np.testing.assert_allclose(near, plain, atol=1e-7)
    np.testing.assert_allclose(near32, near, atol=1e-5)
    assert float(jnp.max(jnp.abs(plain32 - plain))) > 0.1


def test_moments_of_the_full_family_are_kept():
    eta, covariance = _member("full")
    again = FullGaussian().from_moments(jnp.asarray(MEAN), jnp.linalg.inv(covariance))
    np.testing.assert_allclose(again.linear, eta.linear, rtol=1e-10)
    np.testing.assert_allclose(again.precision, eta.precision, rtol=1e-10)


def test_the_diagonal_member_is_the_closest_in_divergence():
    """KL(N(mean, D^-1) | N(mean, P^-1)) = (tr(P / D) + log det D) / 2 + const is smallest."""
    precision = np.linalg.inv(FACTOR @ FACTOR.T)
    found = DiagonalGaussian().from_moments(jnp.asarray(MEAN), jnp.asarray(precision))
    np.testing.assert_allclose(found.linear / found.precision, MEAN, rtol=1e-12)

    def divergence(log_d):
        return np.sum(np.diag(precision) / np.exp(log_d)) + np.sum(log_d)

    best = optimize.minimize(divergence, np.zeros(3), tol=1e-12).x
    np.testing.assert_allclose(found.precision, np.exp(best), rtol=1e-5)


@pytest.mark.parametrize("q", [*FAMILIES.values()])
def test_expectation_and_response_are_derivatives_of_the_log_normaliser(q: Any) -> None:
    """The closed forms against automatic differentiation."""

    @jax.jit
    def both(root):
        eta = q.from_moments(jnp.array([0.3, -1.0, 2.0]), jnp.eye(3) + root @ root.T)
        slope = q.from_moments(jnp.array([1.0, 0.5, -0.2]), root + root.T)
        mean = jax.grad(q.log_normaliser)
        return (
            (q.expectation(eta), mean(eta)),
            (q.response(eta, slope), jax.jvp(mean, (eta,), (slope,))[1]),
        )

    for told, truth in both(np.random.default_rng(0).normal(size=(3, 3))):
        np.testing.assert_allclose(told.linear, truth.linear, rtol=1e-10)
        np.testing.assert_allclose(told.precision, truth.precision, rtol=1e-10)


@pytest.mark.parametrize("q", [*FAMILIES.values()])
@pytest.mark.parametrize("num", [8, 9])
def test_matched_draws_have_the_mean_of_the_statistic(q: Any, num: int) -> None:
    @jax.jit
    def both(root):
        eta = q.from_moments(jnp.array([0.3, -1.0, 2.0]), jnp.eye(3) + root @ root.T)
        return jax.vmap(q.statistic)(q.matched(jax.random.key(1), eta, num)), q.expectation(eta)

    drawn, truth = both(np.random.default_rng(0).normal(size=(3, 3)))
    np.testing.assert_allclose(np.mean(drawn.linear, 0), truth.linear, atol=1e-10)
    np.testing.assert_allclose(np.mean(drawn.precision, 0), truth.precision, atol=1e-10)
