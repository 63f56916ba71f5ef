"""A learner without any rate: Fisher steps, averages of the parameters, and answers from them."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rmcvi
from rmcvi.baselines import KalmanRecursion
from rmcvi.baselines.kalman import log_evidence, score
from rmcvi.learners.best import Best, go_on
from rmcvi.learners.migrations import migrate
from rmcvi.models import LinearGaussian
from rmcvi.monitors.health import Health
from rmcvi.optim import fisher

OFF: dict[str, Any] = {"draws": 0, "health": False, "drift": False, "sensors": False}
TRUTH = LinearGaussian(jnp.array([[0.9, 0.1], [-0.1, 0.8]]), jnp.eye(2), 0.4, 0.6)
START = LinearGaussian(jnp.array([[0.3, 0.0], [0.0, 0.3]]), jnp.eye(2), 1.0, 1.0)


def learned(model: Any) -> Any:
    """Transition and both noises."""
    return model.transition, model.raw_transition_noise, model.raw_emission_noise


def exact(**options: Any) -> rmcvi.OnlineEstimator:
    """Recursive maximum likelihood from START."""
    trainable = rmcvi.Trainable(model=rmcvi.only(START, learned))
    return rmcvi.OnlineEstimator(START, None, KalmanRecursion(), trainable=trainable, **options)


def leaves_equal(a: Any, b: Any) -> None:
    """Bit by bit."""
    for v, w in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if not jnp.issubdtype(v.dtype, jax.dtypes.prng_key):
            np.testing.assert_array_equal(v, w)


def test_without_any_rate_it_is_as_good_as_maximum_likelihood() -> None:
    """Likelihood of the average: at most 4 of 8 parameters' worth below its maximum.

    2 (max - value) is s' (T J)^-1 s for the exact score s at the average; 8 / 3 in the mean for
    weights that grow like t, and 8 for the truth itself.
    """
    ys = rmcvi.simulate(TRUTH, jax.random.key(0), 5000)[1]
    learner = exact(**OFF)
    state, _ = rmcvi.scan(learner, learner.init(jax.random.key(0)), ys)
    model: Any = learner.model_at(state)
    slope = np.concatenate(
        [np.ravel(v) for v in jax.tree.leaves(score(model, ys, trainable=learner.trainable))]
    )
    information = np.asarray(state.theta_ascent.memory.blocks[0].information[0])
    assert slope @ np.linalg.solve(len(ys) * information, slope) <= 8.0
    assert log_evidence(model, ys) > log_evidence(TRUTH, ys)


def test_averages_have_polynomial_weights() -> None:
    """With power 1, weights 1, 2, 3, ... from the chosen row on; the iterates do not change."""
    ys = rmcvi.simulate(TRUTH, jax.random.key(1), 60)[1]
    plain = exact(model_optimiser=optax.sgd(1e-3), **OFF)
    learner = exact(model_optimiser=optax.sgd(1e-3), average=1.0, average_from=10, **OFF)
    before, state = plain.init(jax.random.key(0)), learner.init(jax.random.key(0))
    seen = []
    for y in ys:
        before, _ = plain.update(before, y)
        state, _ = learner.update(state, y)
        seen.append(np.asarray(state.theta.transition))
    leaves_equal(before.theta, state.theta)
    mean = np.average(seen[10:], axis=0, weights=np.arange(1, 51))
    averaged: Any = learner.model_at(state, averaged=True)
    np.testing.assert_allclose(averaged.transition, mean, rtol=1e-12)
    last: Any = learner.model_at(state)
    np.testing.assert_array_equal(last.transition, seen[-1])


def test_single_rows_a_scan_and_a_resumed_run_agree_to_the_bit(tmp_path: Path) -> None:
    """Across warm-up, refreshes, missing rows and a file."""
    ys = np.array(rmcvi.simulate(TRUTH, jax.random.key(2), 250)[1])
    ys[120:130] = np.nan
    ys[140, 0] = np.nan
    learner = exact(draws=20)
    fresh = learner.init(jax.random.key(0))
    part, _ = rmcvi.scan(learner, fresh, ys[:125])
    whole, _ = rmcvi.scan(learner, part, ys[125:])
    rmcvi.save(tmp_path / "run", learner, part)
    resumed, _ = rmcvi.load(tmp_path / "run", learner)
    for y in ys[125:]:
        resumed, _ = learner.update(resumed, y)
    leaves_equal(whole, resumed)
    rows = whole.theta_ascent.memory.blocks[0].rows
    assert int(rows.max()) <= 240  # rows without an observation do not count


def test_answers_use_the_average_if_told_to() -> None:
    """By default with Fisher steps; the recursion itself does not see it."""
    ys = rmcvi.simulate(TRUTH, jax.random.key(3), 100)[1]
    options: dict[str, Any] = OFF | {"draws": 20, "screen_width": None}
    one, two = (exact(answer_averaged=v, **options) for v in (True, False))
    states = [rmcvi.scan(v, v.init(jax.random.key(0)), ys)[0] for v in (one, two)]
    for v, w in zip(*(jax.tree.leaves(s.theta) for s in states), strict=True):
        np.testing.assert_allclose(v, w, rtol=1e-9)
    average = states[0].theta_ascent.average.transition
    np.testing.assert_array_equal(one.parameters(states[0])["transition"], average)
    np.testing.assert_array_equal(
        two.parameters(states[1])["transition"], states[1].theta.transition
    )
    assert one.predict(states[0]).mean.tolist() != two.predict(states[1]).mean.tolist()
    with pytest.raises(ValueError, match="answer_averaged: got True"):
        exact(model_optimiser=optax.sgd(0.1), answer_averaged=True)
    with pytest.raises(ValueError, match="average: got -1"):
        exact(average=-1.0)


def test_the_way_back_takes_the_average_along() -> None:
    """Unless the parameter is frozen."""
    learner = exact(model_optimiser=fisher(), average=1.0, draws=20)
    state = learner.init(jax.random.key(0))
    far = jax.tree.map(lambda v: v + 5.0, state.theta)
    best = Best(state.theta, state.phi, jnp.asarray(1.0), jnp.zeros((), int), None)
    state = learner.freeze(state, model=lambda m: m.raw_emission_noise)
    state = eqx.tree_at(
        lambda s: (s.theta, s.theta_ascent.average, s.best), state, (far, far, best)
    )
    health = Health()
    lost = eqx.tree_at(
        lambda h: (h.lost, h.recent, h.count),
        health.init(2),
        (jnp.asarray(True), jnp.asarray(-50.0), jnp.asarray(1000)),
    )
    back = go_on(health, lost, state)
    np.testing.assert_array_equal(back.theta_ascent.average.transition, START.transition)
    np.testing.assert_array_equal(
        back.theta_ascent.average.raw_emission_noise, far.raw_emission_noise
    )


def test_files_of_the_last_schema_are_read() -> None:
    """`average_from` has moved."""
    old = {"class": "Ascent", "optimiser": "optimiser", "guard": None, "average_from": 7}
    fields = {"class": "Averaging", "start": 7, "power": 0.0, "answers": False}
    assert migrate(old, 2)["averaging"] == fields
    assert migrate(old | {"average_from": None}, 2)["averaging"] is None
