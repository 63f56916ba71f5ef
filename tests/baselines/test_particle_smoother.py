"""Fixed-lag smoothing and backward sampling against the Kalman smoother."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi.baselines import fixed_lag_smoother, particle_filter, particle_smoother
from tests.baselines._linear import typical_case, z_score
from tests.reference.kalman import kalman_filter, rts_smoother

RUNS = jax.random.split(jax.random.key(2), 32)


def runs(method: Any, **settings: Any) -> Any:
    """Repeated seeds, 512 particles: the bias, 1 / N, is below the standard error."""
    case = typical_case()

    def one(key):
        return method(
            case.model, jnp.asarray(case.ys), case.inputs, key=key, num_particles=512, **settings
        )

    return jax.vmap(one)(RUNS)


def test_filter_is_kalman() -> None:
    case = typical_case()
    exact = kalman_filter(case.system, case.ys)
    got = runs(particle_filter, proposal="guided")
    assert z_score(got.mean, exact.mean) <= 5.0
    assert z_score(got.covariance, exact.cov) <= 5.0
    assert z_score(np.exp(got.log_evidence - exact.log_evidence[None]), 1.0) <= 5.0
    assert np.all(got.ess > 50.0)


@pytest.mark.parametrize("lag", [pytest.param(0, marks=pytest.mark.long), 2])
def test_fixed_lag_is_the_smoother_of_a_prefix(lag: int) -> None:
    case = typical_case()
    got, length = runs(fixed_lag_smoother, lag=lag), len(case.ys)
    filtered = kalman_filter(case.system, case.ys)
    mean, cov = [], []
    for t in range(length):
        end = min(t + lag, length - 1) + 1
        part = type(filtered)(filtered.mean[:end], filtered.cov[:end], filtered.log_evidence[:end])
        law = rts_smoother(case.system, part)
        mean.append(law.mean[t])
        cov.append(law.cov[t])
    assert z_score(got.mean, np.array(mean)) <= 5.0
    assert z_score(got.covariance, np.array(cov)) <= 5.0


def test_trajectories_have_the_smoothing_law() -> None:
    case = typical_case()
    paths = np.asarray(runs(particle_smoother, num_trajectories=128))
    law = rts_smoother(case.system, kalman_filter(case.system, case.ys))
    assert paths.shape == (32, 128, *law.mean.shape)
    assert z_score(paths.mean(1), law.mean) <= 5.0
    away = paths - law.mean
    assert z_score(np.einsum("rkti,rktj->rtij", away, away) / 128, law.cov) <= 5.0
    pairs = np.einsum("rkti,rktj->rtij", away[:, :, :-1], away[:, :, 1:]) / 128
    assert z_score(pairs, law.lag_one[1:]) <= 5.0


def test_a_lag_beyond_the_end_is_the_whole_sequence() -> None:
    case = typical_case()
    ys = jnp.asarray(case.ys[:2])
    inputs = jax.tree.map(lambda v: v[:2], case.inputs)
    one, many = (
        fixed_lag_smoother(case.model, ys, inputs, key=jax.random.key(0), num_particles=64, lag=lag)
        for lag in (1, 9)
    )
    np.testing.assert_array_equal(one.mean, many.mean)


def test_wrong_calls_are_refused() -> None:
    case = typical_case()
    with pytest.raises(ValueError, match=r"inputs\.u: got an array of shape"):
        particle_filter(case.model, jnp.asarray(case.ys[:3]), case.inputs, key=jax.random.key(0))
