"""Learning that makes predictions worse is undone, and said; other learning is left alone."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rmcvi
from rmcvi.baselines import KalmanRecursion
from rmcvi.baselines.kalman import log_evidence
from rmcvi.families import ExtendedKalmanFamily, LinearGaussianFamily
from rmcvi.learners.trial import Trial
from rmcvi.models import LinearGaussian
from rmcvi.monitors.paired import PairedState

TRUTH = LinearGaussian(jnp.array([[0.9, 0.1], [-0.1, 0.8]]), jnp.eye(2), 0.4, 0.6)
START = LinearGaussian(0.1 * jnp.eye(2), jnp.eye(2), 1.2, 0.6)


QUIET: dict[str, Any] = {"drift": False, "sensors": False}
"""Nothing else watched."""


def drifting(rate: float) -> optax.GradientTransformation:
    """An optimiser that moves every parameter by the same amount, whatever the gradient."""
    return optax.stateless(lambda updates, _: jax.tree.map(lambda v: 0.0 * v + rate, updates))


def told(learner, state, info):
    return info.alarms, info.prediction.log_score


def run(learner, rows: int, truth: LinearGaussian = TRUTH):
    ys = rmcvi.simulate(truth, jax.random.key(5), rows)[1]
    state = eqx.filter_jit(learner.init)(jax.random.key(0))
    state, (alarms, score) = rmcvi.scan(learner, state, ys, collect=told)
    return state, np.asarray(alarms), np.asarray(score)


def learned(model: LinearGaussian) -> rmcvi.Trainable:
    return rmcvi.Trainable(
        model=rmcvi.only(model, lambda m: (m.transition, m.raw_transition_noise))
    )


def test_a_healthy_learner_is_left_alone():
    """It learns, and becomes its own reference."""
    learner = rmcvi.OnlineEstimator(
        START, LinearGaussianFamily(), KalmanRecursion(), trainable=learned(START), **QUIET
    )
    state, alarms, _ = run(learner, 8000)
    flags = int(rmcvi.Alarm.FAMILY_WORSE | rmcvi.Alarm.MODEL_WORSE)
    assert not np.any(alarms & flags)
    assert int(state.trial.returns) == 0
    assert float(state.trial.theta_rate) == 1.0
    assert not np.allclose(state.trial.theta.transition, START.transition)


def test_a_model_that_drifts_off_goes_back():
    learner = rmcvi.OnlineEstimator(
        TRUTH,
        LinearGaussianFamily(),
        KalmanRecursion(),
        drifting(6e-4),
        trainable=rmcvi.Trainable(model=rmcvi.only(TRUTH, lambda m: m.raw_transition_noise)),
        **QUIET,
    )
    state, alarms, score = run(learner, 8000)
    assert np.any(alarms & int(rmcvi.Alarm.MODEL_WORSE))
    assert float(state.trial.theta_rate) < 1.0
    # Left to itself it would be here, or further, in the last two thousand rows.
    far = eqx.tree_at(lambda m: m.raw_transition_noise, TRUTH, TRUTH.raw_transition_noise + 3.6)
    ys = rmcvi.simulate(TRUTH, jax.random.key(5), 8000)[1]
    assert score[-2000:].mean() > float(log_evidence(far, ys[-2000:])) / 2000.0 + 0.1


def paired(mean: float, error: float) -> PairedState:
    """After a hundred blocks."""
    count, zero = 100.0, jnp.zeros((), int)
    return PairedState(*map(jnp.asarray, (0.0, zero, count, mean, 99.0 * error**2)))


@pytest.mark.parametrize(
    ("model", "rival", "back", "adopt"),
    [
        (-0.3, -0.01, True, False),  # worse with plain filters, and the learner is no better
        (-0.3, 0.2, False, False),  # the learner makes up for it
        (-0.1, -0.1, False, False),  # three standard errors do not suffice
        (0.3, 0.2, False, True),
        (0.3, -0.2, False, False),
    ],
)
def test_what_the_comparisons_decide(model, rival, back, adopt):
    learner = rmcvi.OnlineEstimator(START, LinearGaussianFamily(), KalmanRecursion())
    verdict = Trial()._judge(learner, paired(0.0, 0.03), paired(rival, 0.03), paired(model, 0.03))
    assert (bool(verdict.theta_back), bool(verdict.adopt)) == (back, adopt)
    assert not verdict.phi_back


@pytest.mark.long
def test_a_family_that_drifts_off_goes_back():
    family = ExtendedKalmanFamily(TRUTH, key=jax.random.key(1), hidden=4, memory=1, diagonal=False)
    learner = rmcvi.OnlineEstimator(
        TRUTH,
        family,
        rmcvi.RMCVI(4, window=2, bptt=1),
        optax.sgd(0.0),
        drifting(2e-3),
        trainable=rmcvi.Trainable(model=False),
        **QUIET,
    )
    state, alarms, _ = run(learner, 3000)
    flag = int(rmcvi.Alarm.FAMILY_WORSE)
    (at,) = np.flatnonzero(alarms & flag)[:1]
    assert "went back to its start" in rmcvi.Alarm(int(alarms[at])).sentences[-1]
    assert float(state.trial.phi_rate) < 1.0
    # Since the return it has moved by a quarter of the rate at most.
    moved = state.phi.start_shift - family.start_shift
    assert float(jnp.max(jnp.abs(moved))) <= 1.001 * 0.5e-3 * (3000 - at)


@pytest.mark.parametrize("setting", [{"draws": 0}, {"health": False}, {"trial": False}])
def test_without_predictions_or_damping_there_is_no_trial(setting):
    learner = rmcvi.OnlineEstimator(START, LinearGaussianFamily(), KalmanRecursion(), **setting)
    started = eqx.filter_eval_shape(learner.init, jax.random.key(0))
    assert learner.trial is None and started.trial is None
