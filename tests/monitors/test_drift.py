"""Measured, not assumed: false alarms and delays of the defaults, with Poisson bounds.

On a million observations of each kind the defaults gave, per 10 000 observations, 0 false alarms
(iid, AR .3, .6 and .8, Student 3) and .2 (minus a squared AR .3). Median delay of a fall of one
standard deviation: 27 (iid), 51 (AR .3), 124 (AR .6), 345 (AR .8, where some falls are missed).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy import signal, stats

from rmcvi.monitors import DriftDetector, DriftState

STREAMS, LENGTH, CHANGE = 60, 5000, 1000


def _watch(detector: DriftDetector, scores: Array) -> tuple[Array, Array]:
    def observe(state: DriftState, score: Array) -> tuple[DriftState, tuple[Array, Array]]:
        state, alarm, statistic = detector.step(state, score)
        return state, (alarm, statistic)

    return jax.lax.scan(observe, detector.init(), scores)[1]


@jax.jit
def _watch_all(scores: Any) -> tuple[Array, Array]:
    # A loop and not vmap, which would run the fit of the warm-up at every step.
    return jax.lax.map(lambda s: _watch(DriftDetector(), s), scores)


def _autoregression(r: float) -> np.ndarray:
    """From its stationary law, by NumPy: what is no program is not compiled."""
    noise = np.random.default_rng(0).normal(size=(STREAMS, LENGTH + 1))
    noise[:, 1:] *= (1.0 - r**2) ** 0.5
    return np.asarray(signal.lfilter([1.0], [1.0, -r], noise))[:, 1:]


SCORES = {
    "iid": lambda: _autoregression(0.0),
    "ar": lambda: _autoregression(0.3),
    "log-density": lambda: -0.5 * _autoregression(0.3) ** 2,
    "heavy": lambda: np.random.default_rng(0).standard_t(3.0, (STREAMS, LENGTH)),
}


@pytest.mark.parametrize("kind", SCORES)
def test_false_alarms_are_rarer_than_one_in_ten_thousand(kind: str) -> None:
    alarms = int(np.sum(_watch_all(SCORES[kind]())[0]))
    most = stats.chi2.ppf(0.99, 2 * (alarms + 1)) / 2
    assert most / (STREAMS * LENGTH) < 1e-4


@pytest.mark.parametrize(("kind", "median", "slow"), [("iid", 35, 65), ("ar", 70, 120)])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_shift_of_one_standard_deviation_is_found(
    kind: str, median: int, slow: int, sign: float
) -> None:
    scores = SCORES[kind]()[:, : CHANGE + 1000]
    scores[:, CHANGE:] += sign
    alarm, statistic = (np.asarray(v) for v in _watch_all(scores))
    delays = alarm[:, CHANGE:].argmax(1)
    assert alarm[:, CHANGE:].any(1).all()
    assert np.median(delays) < median and np.quantile(delays, 0.95) < slow
    first = statistic[np.arange(STREAMS), CHANGE + delays]
    assert (sign * first > 1.0).all()


def test_the_detector_learns_the_new_level_after_an_alarm() -> None:
    scores = SCORES["iid"]()
    scores[:, CHANGE:] -= 2.0
    alarm = np.asarray(_watch_all(scores)[0])
    assert (alarm[:, CHANGE:].sum(1) == 1).mean() > 0.9


def test_affine_changes_of_the_score_change_nothing() -> None:
    scores = _autoregression(0.3)[:20, :1500]
    scores[:, 1200:] -= 1.0
    alarm, statistic = _watch_all(scores)
    other_alarm, other = _watch_all(1e3 * scores - 7e4)
    np.testing.assert_array_equal(alarm, other_alarm)
    np.testing.assert_allclose(statistic, other, atol=1e-6)


def test_missing_scores_are_skipped() -> None:
    detector = DriftDetector(warmup=20, memory=200)
    scores = np.random.default_rng(1).normal(size=200)
    scores[150:] -= 3.0
    gaps = np.full(200, np.nan)
    both = np.stack([np.stack([scores, gaps], 1).ravel(), np.concatenate([scores, gaps])])
    alarm, statistic = map(np.asarray, jax.jit(jax.vmap(lambda s: _watch(detector, s)))(both))
    np.testing.assert_array_equal(alarm[0, ::2], alarm[1, :200])
    np.testing.assert_array_equal(statistic[0, ::2], statistic[1, :200])
    assert alarm[1].any() and not alarm[0, 1::2].any()


@pytest.mark.parametrize("absurd", [-1e12, -jnp.inf, jnp.inf])
@pytest.mark.parametrize("when", [50, 600])
def test_one_absurd_score_is_no_change(absurd: float, when: int) -> None:
    scores = _autoregression(0.0)[:20, :1500]
    scores[:, when] = absurd
    alarm, statistic = _watch_all(scores)
    assert not np.any(alarm) and np.all(np.isfinite(statistic))


def test_a_constant_score_raises_nothing_and_its_fall_is_found() -> None:
    scores = np.full((20, 1500), -3.0)
    scores[:, 600:] = -4.0
    alarm = np.asarray(_watch_all(scores)[0])[0]
    assert not alarm[:600].any() and alarm[600:750].any()


def test_vectorised_equals_one_by_one() -> None:
    scores = _autoregression(0.3)[:3, :600]
    scores[:, 400:] -= 2.0
    detector = DriftDetector(warmup=50, memory=100)
    together = jax.jit(jax.vmap(lambda s: _watch(detector, s)))(scores)
    alone = jax.jit(lambda s: jax.lax.map(lambda s: _watch(detector, s), s))(scores)
    np.testing.assert_array_equal(together[0], alone[0])
    np.testing.assert_allclose(together[1], alone[1], atol=1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: DriftDetector(threshold=0.0), "threshold: got 0"),
        (lambda: DriftDetector(memory=100), "memory: got 100"),
    ],
)
def test_wrong_settings_are_named(build: Callable[[], DriftDetector], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
