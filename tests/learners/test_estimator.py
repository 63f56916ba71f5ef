"""The learner against the Kalman filter, and its promises about streams."""

from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rmcvi
from tests.learners._resumed import QUICK, QUIET
from tests.recursion._runs import linear_model, stream
from tests.reference import kalman

T = 400


@cache
def frozen_learner() -> rmcvi.OnlineEstimator:
    """A learner that knows the truth and trains nothing: everything it says has an exact value."""
    return rmcvi.OnlineEstimator(
        linear_model(),
        rmcvi.families.LinearGaussianFamily(),
        rmcvi.RMCVI(10, window=6, bptt=2),
        optax.sgd(0.0),
        optax.sgd(0.0),
        trainable=rmcvi.Trainable(model=False, family=False),
        draws=400,
        **QUIET,
    )


@cache
def frozen_run() -> tuple[Any, Any, Any]:
    """(observations, final state, predictions), by the one program that later rows take, too."""
    learner, ys = frozen_learner(), stream(linear_model(), T)
    state, told = learner.init(jax.random.key(0)), []
    for y in ys:
        state, info = learner.update(state, y)
        told.append(info.prediction)
    return ys, state, jax.tree.map(lambda *v: np.stack(v), *told)


@cache
def small_learner(average_from: int | None = 2) -> rmcvi.OnlineEstimator:
    """A learner that trains everything, small enough to compile quickly."""
    model = linear_model()
    return rmcvi.OnlineEstimator(
        model,
        rmcvi.families.InnovationFamily(model, hidden=4, memory=2, key=jax.random.key(0)),
        rmcvi.RMCVI(4, window=3, bptt=2),
        optax.adam(1e-3),
        optax.adam(1e-2),
        draws=10,
        average_from=average_from,
        **QUIET,
    )


@cache
def reference() -> dict[str, np.ndarray]:
    """Exact filter, smoother and one-step log evidence of `frozen_run`."""
    model, ys = linear_model(), np.asarray(frozen_run()[0])
    transition, emission = np.asarray(model.transition), np.asarray(model.emission)
    noise, obs_noise = np.diag([0.5**2, 0.4**2]), np.diag([0.3**2, 0.5**2, 0.2**2])
    system = kalman.LinearSystem.build(
        transition, noise, emission, obs_noise, np.zeros(2), np.eye(2), len(ys)
    )
    filtered = kalman.kalman_filter(system, ys)
    return {
        "filter_mean": filtered.mean,
        "filter_cov": filtered.cov,
        "log_evidence": np.diff(filtered.log_evidence, prepend=0.0),
        "smooth_mean": kalman.rts_smoother(system, filtered).mean,
    }


def same_bits(a: Any, b: Any) -> bool:
    """Whether two states are equal to the bit."""

    def data(leaf):
        typed = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if typed else leaf)

    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(data(v), data(w), equal_nan=True) for v, w in pairs)


@pytest.mark.usual_compiler
def test_updates_and_chunks_agree_to_the_bit(capsys: pytest.CaptureFixture[str]) -> None:
    """The way a stream is cut does not matter; a scan: `tests/checks/test_learner.py`, by the same
    programs; with monitors: `test_averaging.py`.
    """
    learner, ys = small_learner(), stream(linear_model(), 12)
    start = learner.init(jax.random.key(1))
    single, elbo = start, []
    for y in ys:
        single, info = learner.update(single, y)
        elbo.append(info.elbo)
    assert np.all(np.isfinite(elbo))
    looped, history = rmcvi.run(learner, list(ys), start, chunk=6, progress=True)
    line = capsys.readouterr().err.split("\r")[-1]
    assert line.startswith("12 of 12 observations")
    assert "ELBO/t" in line
    assert "ess" in line
    assert same_bits(single, looped)
    np.testing.assert_array_equal(history.elbo, elbo)
    assert not same_bits(single, start)
    assert history.elbo.shape == (12,)


def test_predictions_are_calibrated_and_scored_as_the_kalman_filter_does() -> None:
    """Coverage within 4 standard errors of 90 %; mean and log score against the exact ones."""
    ys, _, told = frozen_run()
    exact = reference()
    seen = ~np.isnan(np.asarray(ys))
    inside = ((np.asarray(ys) > told.low) & (np.asarray(ys) < told.high))[seen]
    assert abs(inside.mean() - 0.9) < 4 * np.sqrt(0.09 / inside.size) + 0.01
    scores = told.log_score
    rows = seen.any(1)
    np.testing.assert_array_equal(np.isnan(scores), ~rows)
    gap = scores[rows] - exact["log_evidence"][rows]
    assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(gap.size) + 0.03
    values = told.p_value[seen]
    assert abs(values.mean() - 0.5) < 5 * np.sqrt(1 / 12 / values.size) + 0.01


def test_filter_and_fixed_lag_smoother_are_kalmans() -> None:
    """Exact means of the filter; sampled means of the smoother within five standard errors."""
    ys, state, _ = frozen_run()
    learner, exact = frozen_learner(), reference()
    filtered = learner.filter(state)
    np.testing.assert_allclose(filtered.mean, exact["filter_mean"][-1], rtol=1e-8)
    np.testing.assert_allclose(filtered.covariance, exact["filter_cov"][-1], rtol=1e-7)
    smoothed = learner.smooth(state, 5, num=2000)
    error = np.asarray(smoothed.std) / np.sqrt(2000)
    gap = np.abs(np.asarray(smoothed.mean) - exact["smooth_mean"][-6:])
    np.testing.assert_array_less(gap, 5 * error)
    whole = learner.smooth_sequence(state, ys[-40:], num=500)
    assert whole.samples.shape == (500, 40, 2)


def test_forecast_has_the_exact_moments() -> None:
    """The model's own prediction, h steps ahead."""
    _, state, _ = frozen_run()
    learner, model = frozen_learner(), linear_model()
    forecast = learner.forecast(state, 3, num=4000)
    futures = learner.trajectories(state, 3, num=4000)
    mean = np.asarray(learner.filter(state).mean)
    for h in range(3):
        mean = np.asarray(model.transition) @ mean
        draws = np.asarray(futures.observations[:, h])
        error = draws.std(0) / np.sqrt(len(draws))
        np.testing.assert_array_less(
            np.abs(np.asarray(forecast.mean[h]) - np.asarray(model.emission) @ mean), 5 * error
        )
        inside = (draws > np.asarray(forecast.low[h])) & (draws < np.asarray(forecast.high[h]))
        assert np.all(np.abs(inside.mean(0) - 0.9) < 0.01)


def test_recent_fills_gaps_and_keeps_what_was_seen() -> None:
    """Observed values are left alone, missing ones get the posterior of the emission."""
    learner, (ys, state, _) = frozen_learner(), frozen_run()
    state, _ = learner.update(state, ys[0].at[1].set(jnp.nan))
    filled = learner.recent(state, 1, num=4000)
    np.testing.assert_array_equal(filled.mean[-1][jnp.array([0, 2])], ys[0][jnp.array([0, 2])])
    filtered, model = learner.filter(state), linear_model()
    row = np.asarray(model.emission)[1]
    spread = np.sqrt(row @ np.asarray(filtered.covariance) @ row)
    gap = abs(float(filled.mean[-1][1]) - row @ np.asarray(filtered.mean))
    assert gap < 5 * spread / np.sqrt(4000)
    assert filled.low[-1][1] < filled.mean[-1][1] < filled.high[-1][1]
    kept = state.recursion.history.y.shape[0]
    assert learner.recent(state, kept - 1).mean.shape == (kept, 3)
    for lag in (kept, 99):
        with pytest.raises(ValueError, match=f"lag: got {lag}"):
            learner.recent(state, lag)


@pytest.mark.parametrize("bad", [1e6, -1e30, np.inf, -np.inf])
def test_an_absurd_value_does_not_destroy_the_learner(bad: float) -> None:
    """After it, the filter is back within a tenth of its spread in a few steps."""
    learner, (ys, state, _) = frozen_learner(), frozen_run()
    hit, info = learner.update(state, ys[1].at[0].set(bad))
    clean, _ = learner.update(state, ys[1].at[0].set(jnp.nan))
    assert bool(info.pulled[0]) == np.isfinite(bad)
    for y in ys[2:14]:
        hit, info = learner.update(hit, y)
        clean, _ = learner.update(clean, y)
        assert np.isfinite(info.elbo)
    spread = np.sqrt(np.diagonal(learner.filter(clean).covariance))
    gap = np.abs(np.asarray(learner.filter(hit).mean - learner.filter(clean).mean))
    np.testing.assert_array_less(gap, 0.1 * spread)


def after(learner: rmcvi.OnlineEstimator, state: Any, ys: Any) -> Any:
    """One row after the other, by the program that others use, too."""
    for y in ys:
        state, _ = learner.update(state, y)
    return state


def test_freezing_stops_a_parameter_and_unfreezing_resumes_it() -> None:
    """In mid-stream, without another compilation or another state."""
    learner, ys = small_learner(), stream(linear_model(), 12)
    state = after(learner, learner.init(jax.random.key(1)), ys[:6])
    held = learner.freeze(state, model=lambda m: m.transition)
    moved = after(learner, held, ys[6:])
    np.testing.assert_array_equal(moved.theta.transition, state.theta.transition)
    assert not np.array_equal(moved.theta.emission, state.theta.emission)
    freed = learner.freeze(moved, model=lambda m: m.transition, frozen=False)
    again = after(learner, freed, ys[:6])
    assert not np.array_equal(again.theta.transition, state.theta.transition)


def test_averaged_iterates_are_their_mean() -> None:
    """Polyak-Ruppert averaging from the second observation on."""
    learner, ys = small_learner(), stream(linear_model(), 6)
    state, seen = learner.init(jax.random.key(1)), []
    for y in ys:
        state, _ = learner.update(state, y)
        seen.append(np.asarray(state.theta.emission))
    averaged = learner.model_at(state, averaged=True)
    assert isinstance(averaged, rmcvi.models.LinearGaussian)
    np.testing.assert_allclose(averaged.emission, np.mean(seen[2:], 0), rtol=1e-12)
    with pytest.raises(ValueError, match="average_from"):
        small_learner(None).model_at(state, averaged=True)


def test_wrong_calls_are_named() -> None:
    """Argument, got, expected."""
    learner = small_learner()
    state = learner.init(jax.random.key(0))
    with pytest.raises(ValueError, match=r"y: got an array of shape \(2,\), expected \(3\)"):
        learner.update(state, jnp.zeros(2))
    with pytest.raises(ValueError, match="horizon: got 0"):
        learner.forecast(state, 0)
    with pytest.raises(ValueError, match="u: got"):
        learner.update(state, jnp.zeros(3), u=jnp.ones(2))


def test_state_holds_arrays_only() -> None:
    """So that it can be scanned, donated and saved."""
    state = small_learner().init(jax.random.key(0))
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(state))


def test_parts_that_do_not_fit_are_refused_at_once() -> None:
    """Optimisers, a family of another dimension, a density that sums over coordinates."""
    model, family = linear_model(), rmcvi.families.LinearGaussianFamily()
    recursion = rmcvi.RMCVI(4, window=3, bptt=2)
    other = rmcvi.families.RecurrentFamily(3, 3, key=jax.random.key(0), memory=2, width=2)
    with pytest.raises(ValueError, match="family: got one for 3 state dimensions, expected 2"):
        recursion.init(model, other)
    with pytest.raises(ValueError, match=r"model.emission_log_prob: got a result of shape \(\)"):
        recursion.init(SummedEmission(), family)


class SummedEmission(rmcvi.models.LinearGaussian):
    """A common slip: one number for all coordinates of y."""

    def __init__(self):
        one = jnp.ones(1)
        super().__init__(one, one, one, one)

    def emission_log_prob(self, x, y, inputs):
        """The sum, which cannot be masked."""
        return jnp.sum(super().emission_log_prob(x, y, inputs))


def test_a_recursion_that_fits_q_itself_needs_no_settings() -> None:
    """It returns no gradient for the family, which then stays as it is."""
    model = rmcvi.models.ChaoticRNN(2)
    learner = rmcvi.OnlineEstimator(
        model,
        rmcvi.families.PerStepFamily(model, key=jax.random.key(0), hidden=2),
        rmcvi.PerStepRMCVI(5, num_steps=1),
        optax.adam(1e-3),
        optax.adam(1e-3),
        **QUICK,
    )
    state, _ = learner.update(learner.init(jax.random.key(1)), jnp.ones(2))
    assert int(state.skipped) == 0
    kept = eqx.filter(learner.family, eqx.is_inexact_array)
    for new, old in zip(jax.tree.leaves(state.phi), jax.tree.leaves(kept), strict=True):
        np.testing.assert_array_equal(new, old)
