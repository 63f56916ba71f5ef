"""LinearGaussianFamily is the Kalman smoother: textbook, joint Gaussian, dynamax and cuthbert."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi import Inputs
from rmcvi.core import tree
from rmcvi.families import LinearGaussianFamily
from rmcvi.models import LinearGaussian
from tests.reference import gaussian_joint
from tests.reference.kalman import LinearSystem, kalman_filter, rts_smoother

LENGTH = 12
F = np.array([[0.8, 0.2], [-0.1, 0.7]])
G = np.array([[1.0, 0.3], [0.0, 1.0], [0.5, -0.4]])
S = np.array([[0.5, 0.0], [0.2, 0.4]])
C = np.array([[0.4, 0.0, 0.0], [0.1, 0.5, 0.0], [-0.2, 0.1, 0.3]])
M0, S0 = np.array([0.5, -0.2]), np.array([0.9, 0.7])
B, D = np.array([[0.3], [-0.2]]), np.array([[0.1], [0.2], [-0.3]])


class Case(NamedTuple):
    model: LinearGaussian
    system: LinearSystem
    ys: np.ndarray
    u: np.ndarray
    dt: np.ndarray


class Laws(NamedTuple):
    """Filtering moments at every t, then smoothing moments and lag-one covariances."""

    mean: Any
    cov: Any
    smooth_mean: Any
    smooth_cov: Any
    lag_one: Any


def make_case(missing: bool = False, irregular: bool = False) -> Case:
    """Two states, three observations with correlated noise, one input."""
    model = LinearGaussian(F, G, S, C, M0, S0, B, D)
    rng = np.random.default_rng(3)
    u = rng.normal(size=(LENGTH, 1))
    dt = rng.uniform(0.5, 1.5, LENGTH) if irregular else np.ones(LENGTH)
    system = LinearSystem.build(
        F, S @ S.T, G, C @ C.T, M0, np.diag(S0**2), LENGTH, B=B, D=D, u=u, dt=dt
    )
    ys = rng.normal(size=(LENGTH, 3))
    if missing:
        ys[0, 1], ys[3, :2], ys[5], ys[LENGTH - 1] = np.nan, np.nan, np.nan, np.nan
    return Case(model, system, ys, u, dt)


@eqx.filter_jit
def family_laws(family: LinearGaussianFamily, model: Any, ys: Any, u: Any, dt: Any) -> Laws:
    """Run the family forward, then compose its backward kernels from the last marginal."""
    q, inputs = family.distribution, Inputs(u, dt)

    def forward(carry, step):
        new = family.advance(model, carry, *step)
        eta = family.marginal(new)
        return new, (carry, q.mean(eta), q.covariance(eta))

    _, (before, mean, cov) = jax.lax.scan(forward, family.initial_carry(model), (ys, inputs))

    def backward(law, step):
        carry, inputs = step

        def conditional(x):
            eta = family.potential(model, carry, x, inputs)
            return tree.add(family.marginal(carry), eta)

        m, p = law
        spread = q.covariance(conditional(m))
        gain = spread @ jax.jacfwd(lambda x: conditional(x).linear)(m)
        new = (q.mean(conditional(m)), gain @ p @ gain.T + spread)
        return new, (*new, gain @ p)

    links = jax.tree.map(lambda v: v[1:], (before, inputs))
    _, (sm, sc, lag) = jax.lax.scan(backward, (mean[-1], cov[-1]), links, reverse=True)
    sm, sc = jnp.concatenate([sm, mean[-1:]]), jnp.concatenate([sc, cov[-1:]])
    return Laws(mean, cov, sm, sc, jnp.concatenate([jnp.zeros_like(cov[:1]), lag]))


def arrays(*values: np.ndarray) -> list[jax.Array]:
    return [jnp.asarray(v) for v in values]


def numpy_laws(case: Case) -> Laws:
    filtered = kalman_filter(case.system, case.ys)
    smoothed = rts_smoother(case.system, filtered)
    return Laws(filtered.mean, filtered.cov, smoothed.mean, smoothed.cov, smoothed.lag_one)


def laws_of(case: Case, family: LinearGaussianFamily) -> Laws:
    return family_laws(family, case.model, *arrays(case.ys, case.u, case.dt))


def assert_close(got: Laws, expected: Laws, tolerance: float) -> None:
    for name, a, b in zip(Laws._fields, got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.0, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("irregular", [False, True])
def test_family_equals_textbook(missing: bool, irregular: bool) -> None:
    case = make_case(missing, irregular)
    assert_close(laws_of(case, LinearGaussianFamily(case.model)), numpy_laws(case), 1e-9)


def test_tied_family_equals_its_own_kalman() -> None:
    case = make_case(missing=True)
    other = LinearGaussian(0.5 * F, G, S, C, M0, S0, B, D)
    own = laws_of(case._replace(model=other), LinearGaussianFamily(case.model))
    assert_close(laws_of(case, LinearGaussianFamily()), own, 1e-12)


def test_diagonal_family_is_exact_for_a_diagonal_model() -> None:
    f, g, s, r = (
        np.array([0.9, 0.5]),
        np.array([1.0, 0.7]),
        np.array([0.3, 0.6]),
        np.array([0.2, 0.4]),
    )
    model = LinearGaussian(f, g, s, r, M0, S0)
    system = LinearSystem.build(
        np.diag(f), np.diag(s**2), np.diag(g), np.diag(r**2), M0, np.diag(S0**2), LENGTH
    )
    ys = np.random.default_rng(4).normal(size=(LENGTH, 2))
    ys[4, 1] = np.nan
    case = Case(model, system, ys, np.zeros((LENGTH, 0)), np.ones(LENGTH))
    assert_close(laws_of(case, LinearGaussianFamily(model, diagonal=True)), numpy_laws(case), 1e-9)


@pytest.mark.parametrize("missing", [False, True])
def test_textbook_equals_the_joint_gaussian(missing: bool) -> None:
    case = make_case(missing, irregular=True)
    filtered, laws = kalman_filter(case.system, case.ys), numpy_laws(case)
    joint = gaussian_joint.posterior(case.system, case.ys)
    cov = joint.cov.reshape(LENGTH, 2, LENGTH, 2)
    at = np.arange(LENGTH)
    np.testing.assert_allclose(filtered.log_evidence[-1], joint.log_evidence, atol=1e-10)
    np.testing.assert_allclose(laws.smooth_mean, joint.mean.reshape(LENGTH, 2), atol=1e-10)
    np.testing.assert_allclose(laws.smooth_cov, cov[at, :, at], atol=1e-10)
    np.testing.assert_allclose(laws.lag_one[1:], cov[at[:-1], :, at[1:]], atol=1e-10)


@pytest.mark.long
def test_family_equals_dynamax() -> None:
    """Its solver adds 1e-9 to every diagonal, hence the tolerance; it has no missing data."""
    from dynamax.linear_gaussian_ssm.inference import (
        ParamsLGSSM,
        ParamsLGSSMDynamics,
        ParamsLGSSMEmissions,
        ParamsLGSSMInitial,
        lgssm_smoother,
    )

    case = make_case()
    params = ParamsLGSSM(
        initial=ParamsLGSSMInitial(*arrays(M0, np.diag(S0**2))),
        dynamics=ParamsLGSSMDynamics(*arrays(F, np.zeros(2), B, S @ S.T)),
        emissions=ParamsLGSSMEmissions(*arrays(G, np.zeros(3), D, C @ C.T)),
    )
    with jax.numpy_rank_promotion("allow"):
        out = jax.jit(lgssm_smoother)(params, *arrays(case.ys, case.u))
    mean = out.smoothed_means
    product = jnp.einsum("ti,tj->tij", mean[:-1], mean[1:])
    lag_one = jnp.concatenate([jnp.zeros((1, 2, 2)), out.smoothed_cross_covariances - product])
    expected = Laws(
        out.filtered_means, out.filtered_covariances, mean, out.smoothed_covariances, lag_one
    )
    assert_close(laws_of(case, LinearGaussianFamily(case.model)), expected, 1e-7)


@pytest.mark.long
def test_family_equals_cuthbert() -> None:
    """Square-root form: x_0 comes from a step with F = I and no noise out of N(m0, P0)."""
    from cuthbert import filter as run_filter
    from cuthbert import smoother as run_smoother
    from cuthbert.gaussian import kalman

    case = make_case(missing=True, irregular=True)
    first = np.arange(LENGTH)[:, None, None] == 0
    root = np.sqrt(case.dt)[:, None, None] * S
    steps = {
        "F": np.where(first, np.eye(2), case.system.F),
        "c": np.where(first[:, 0], 0.0, case.system.b),
        "chol_Q": np.where(first, 0.0, root),
        "d": case.system.d,
        "y": case.ys,
    }

    def dynamics(model_inputs):
        return model_inputs["F"], model_inputs["c"], model_inputs["chol_Q"]

    def observation(model_inputs):
        return jnp.asarray(G), model_inputs["d"], jnp.asarray(C), model_inputs["y"]

    def run(inputs):
        filter_ = kalman.build_filter(M0, np.diag(S0), dynamics, observation)
        filtered = run_filter(filter_, inputs, filter_.init_prepare())
        smoother = kalman.build_smoother(dynamics, store_gain=True)
        return filtered, run_smoother(smoother, filtered, inputs)

    with jax.numpy_rank_promotion("allow"):
        filtered, smoothed = jax.jit(run)(jax.tree.map(jnp.asarray, steps))
    cov = jnp.einsum("tij,tkj->tik", filtered.chol_cov, filtered.chol_cov)[1:]
    smooth_cov = jnp.einsum("tij,tkj->tik", smoothed.chol_cov, smoothed.chol_cov)[1:]
    lag_one = jnp.concatenate([jnp.zeros((1, 2, 2)), smoothed.gain[1:-1] @ smooth_cov[1:]])
    expected = Laws(filtered.mean[1:], cov, smoothed.mean[1:], smooth_cov, lag_one)
    assert_close(laws_of(case, LinearGaussianFamily(case.model)), expected, 1e-9)
    evidence = kalman_filter(case.system, case.ys).log_evidence[-1]
    np.testing.assert_allclose(filtered.log_normalizing_constant[-1], evidence, atol=1e-9)
