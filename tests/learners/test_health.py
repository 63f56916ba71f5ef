"""Alarms and shortened steps, from scores that are made up."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import rmcvi
from rmcvi import Alarm
from rmcvi.learners.best import Best, go_on

HEALTH = rmcvi.Health()


def follow(
    scores: np.ndarray,
    ess: float = 10.0,
    beyond: float = 0.0,
    fails: bool = False,
    health: rmcvi.Health = HEALTH,
    scale: np.ndarray | float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """(alarms, factors) for a stream of log scores of two coordinates of noise of that scale."""
    ys = scale * np.random.default_rng(0).standard_normal((len(scores), 2))

    def step(state: Any, row: Any) -> Any:
        y, score = row
        told = jnp.asarray(ess), jnp.asarray(beyond), jnp.asarray(fails)
        state, alarms = health.step(state, y, score, told)
        return state, (alarms, state.factor)

    rows = (jnp.asarray(ys), jnp.asarray(scores))
    _, (alarms, factors) = jax.jit(lambda s: jax.lax.scan(step, s, rows))(health.init(2))
    return np.asarray(alarms), np.asarray(factors)


def noise(length: int, level: float = -2.5) -> np.ndarray:
    """Scores of a calibrated prediction: two coordinates, chi-square about `level`."""
    draws = np.random.default_rng(1).standard_normal((length, 2))
    return level - 0.5 * (draws**2).sum(1) + 1.0


def test_a_sound_learner_is_left_alone() -> None:
    """No alarm, full steps: steady, improving, with gaps, and after one absurd value."""
    steady = noise(3000)
    improving = noise(3000) - 20.0 * np.exp(-np.arange(3000) / 300)
    gaps = np.where(np.arange(3000) % 3 == 0, np.nan, noise(3000))
    absurd = noise(3000)
    absurd[1500] = -1e30
    for scores in (steady, improving, gaps, absurd):
        alarms, factors = follow(scores)
        np.testing.assert_array_equal(alarms, 0)
        np.testing.assert_array_equal(factors, 1.0)


def test_a_stream_that_is_less_predictable_for_a_while_is_no_fault_of_the_learner() -> None:
    """Noise of six times the scale for 200 rows, known to the learner: its scores fall by 1.8."""
    scale = np.where((np.arange(3000) >= 1500) & (np.arange(3000) < 1700), 6.0, 1.0)[:, None]
    alarms, factors = follow(noise(3000) - 2.0 * np.log(scale[:, 0]), scale=scale)
    np.testing.assert_array_equal(alarms, 0)
    np.testing.assert_array_equal(factors, 1.0)


def test_steps_shorten_while_predictions_get_worse_and_grow_back() -> None:
    """Halved again and again down to the smallest factor, and back to 1."""
    scores = np.concatenate([noise(1000), noise(600, -12.0), noise(9000)])
    alarms, factors = follow(scores)
    np.testing.assert_array_equal(alarms[:1000], 0)
    assert int(Alarm.UNSTABLE) in alarms[1000:1060]
    assert factors[1599] < 0.02
    assert factors[1599] >= HEALTH.shortest
    assert factors[-1] == 1.0
    assert np.all(alarms[-5000:] == 0)
    _, undamped = follow(scores, health=rmcvi.Health(damp=False))
    np.testing.assert_array_equal(undamped, 1.0)


def test_worse_than_no_model_at_all_is_unstable() -> None:
    """Scores three nats below the running mean and variance, from the first observation on."""
    alarms, factors = follow(noise(2000, -9.0))
    assert np.mean(alarms[200:] & int(Alarm.UNSTABLE) > 0) > 0.3
    assert factors[-1] < 0.1


def test_collapsed_weights_and_short_windows_raise_their_flags() -> None:
    """And the sentences say what to do."""
    alarms, _ = follow(noise(400), ess=1.2, beyond=0.4)
    flags = Alarm(int(alarms[-1]))
    assert flags == Alarm.WEIGHTS_COLLAPSED | Alarm.WINDOW_SHORT
    assert [s.split(":")[0] for s in flags.sentences] == [
        "Most backward weights rest on fewer than two particles",
        "More than a tenth of the gradient's mass lies beyond the window",
    ]
    assert Alarm.NONE.sentences == []


def test_a_posterior_that_the_family_misses_is_named_with_its_remedy() -> None:
    alarms, _ = follow(noise(400), fails=True)
    assert np.all(alarms[:199] == 0) and Alarm(int(alarms[-1])) == Alarm.FAMILY_MISFIT
    (sentence,) = Alarm.FAMILY_MISFIT.sentences
    assert "components=4" in sentence and "Pareto k" in sentence


class Ascent(eqx.Module):
    """As much of an optimiser's state as is of interest here."""

    gate: Any
    average: Any = None


class Kept(eqx.Module):
    """As much of a learner's state as is of interest here."""

    theta: Any
    phi: Any
    best: Best
    theta_ascent: Ascent
    phi_ascent: Ascent
    em: Any

    @classmethod
    def of(cls, value: float, best: Best | None = None) -> "Kept":
        """All parameters and EM's statistics equal to `value`; phi is frozen."""
        theta, phi = jnp.full(2, value), jnp.full(1, value)
        gates = Ascent(jnp.ones(())), Ascent(jnp.zeros(()))
        return cls(theta, phi, best or Best.of(theta, phi, theta), *gates, theta)


def test_a_lost_learner_goes_back_to_its_best_time() -> None:
    """Parameters that predicted well are kept, come back when nothing else helps, and only once.

    A frozen one stays where it is.
    """
    health = rmcvi.Health(warmup=10)
    well, lost = (
        eqx.tree_at(
            lambda s: (s.count, s.recent, s.yardstick, s.lost),
            health.init(2),
            (jnp.asarray(500), jnp.asarray(score), jnp.asarray(-1.0), jnp.asarray(bad)),
        )
        for score, bad in ((0.0, False), (-9.0, True))
    )
    good = go_on(health, well, Kept.of(1.0, Kept.of(0.0).best))
    np.testing.assert_array_equal(good.best.theta, 1.0)
    np.testing.assert_allclose(good.best.merit, 1.0)
    worse = go_on(health, lost, Kept.of(7.0, good.best))
    np.testing.assert_array_equal(worse.theta, 1.0)
    np.testing.assert_array_equal(worse.em, 1.0)
    np.testing.assert_array_equal(worse.phi, 7.0)
    assert int(worse.best.returns) == 1
    again = go_on(health, lost, Kept.of(8.0, worse.best))
    np.testing.assert_array_equal(again.theta, 8.0)
    assert int(again.best.returns) == 1
