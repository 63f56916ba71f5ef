"""A state cannot silently rot, whatever the learner."""

import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import rmcvi
from rmcvi.baselines import Persistence
from rmcvi.contract import Prediction
from rmcvi.learners.monitors import Values
from rmcvi.learners.soundness import Soundness, is_sound


class Told(eqx.Module):
    """As little as a learner may tell."""

    prediction: Prediction


class State(eqx.Module):
    """A level, and the last rows with their gaps."""

    level: Any
    past: Any


class Fragile(rmcvi.AbstractLearner):
    """The last value, until a row above `limit`; then `poison` is all it knows."""

    poison: float
    limit: float
    dim_obs: int
    dim_input: int
    level: float = 0.9

    def init(self, key: Any) -> State:
        """Nothing known."""
        del key
        return State(jnp.zeros(self.dim_obs), jnp.full((3, self.dim_obs), jnp.nan))

    def step(self, state: State, y: Any, inputs: Any) -> tuple[State, Told]:
        """Follow each value."""
        del inputs
        told = Prediction.gaussian(state.level, jnp.ones(self.dim_obs), y, 0.9)
        level = jnp.where(jnp.isnan(y), state.level, y)
        level = jnp.where(jnp.any(y > self.limit), self.poison, level)
        return State(level, jnp.concatenate([y[None], state.past[:-1]])), Told(told)


def shell(poison: float, limit: float = 100.0) -> rmcvi.Live:
    """Two columns in their own units."""
    learner = Fragile(poison=poison, limit=limit, dim_obs=2, dim_input=0)
    return rmcvi.Live(["a", "b"], learner=learner, standardiser=False)


def rows(bad: slice, length: int = 40) -> np.ndarray:
    """Small steps with gaps, and rows that the learner cannot bear."""
    ys = np.random.default_rng(1).standard_normal((length, 2))
    ys[5:9, 1] = np.nan
    ys[bad, 0] = 200.0
    return ys


def test_a_row_that_ruins_the_state_is_not_learned() -> None:
    """NaN: found at once, said once, counted; the next predictions are as before the row."""
    live, ys = shell(np.nan), rows(slice(20, 21))
    told = [live.learn_one(y) for y in ys]
    assert np.isfinite([t.mean for t in told[1:]]).all()
    np.testing.assert_allclose(told[21].mean, ys[19], rtol=1e-6)
    sentence = (
        "The learner's prediction or state at row 21 was no sensible number: "
        "it went back to its last sound state."
    )
    assert [i for i, t in enumerate(told) if sentence in t.alarms] == [20, 21, 22]
    assert [told[i].recoveries for i in (19, 20, 39)] == [0, 1, 1]
    assert live.recoveries == 1


def test_an_absurd_prediction_is_replaced_and_the_learner_starts_afresh() -> None:
    """1e18 is finite: only its prediction tells; what cannot be saved learns anew."""
    live, ys = shell(1e18), rows(slice(20, 21))
    told = [live.learn_one(y) for y in ys]
    means = np.array([t.mean for t in told])
    assert np.abs(means[1:]).max() < 300.0
    np.testing.assert_allclose(means[22], ys[21], rtol=1e-6)
    assert all(t.low[0] < t.mean[0] < t.high[0] and np.isfinite(t.log_score) for t in told[21:])
    afresh = [i for i, t in enumerate(told) if any("started afresh" in s for s in t.alarms)]
    assert len(afresh) == 1 and 21 <= afresh[0] <= 27
    np.testing.assert_allclose(means[-1], ys[-2], rtol=1e-6)


def test_what_was_unsound_survives_a_checkpoint(tmp_path: Path) -> None:
    """Strikes and sentences are part of what is saved: to the bit the same."""
    live, ys = shell(1e18), rows(slice(20, 21))
    for y in ys[:23]:
        live.learn_one(y)
    live.save(tmp_path / "live.ckpt")
    again = shell(1e18)
    again.load(tmp_path / "live.ckpt")
    for y in ys[23:]:
        one, other = live.learn_one(y), again.learn_one(y)
        np.testing.assert_array_equal([one.mean, one.high], [other.mean, other.high])
        assert (one.alarms, one.recoveries) == (other.alarms, other.recoveries)


def test_gaps_are_no_fault() -> None:
    """NaN in a history is where it belongs."""
    live = shell(np.nan)
    ys = np.random.default_rng(2).standard_normal((60, 2))
    ys[np.random.default_rng(3).uniform(size=ys.shape) < 0.5] = np.nan
    ys[30:40] = np.nan
    assert all(not live.learn_one(y).alarms for y in ys) and live.recoveries == 0
    quiet = rmcvi.Live(2, learner=Persistence(2))
    for y in ys:
        quiet.learn_one(y)
    assert quiet.recoveries == 0
    assert np.isnan(quiet.state.past.y).any()
    rest = eqx.tree_at(lambda s: s.past, quiet.state, None)
    assert all(np.isfinite(v).all() for v in jax.tree.leaves(rest))


def test_a_column_that_is_stuck_or_dead_keeps_its_reach() -> None:
    """Or, after a year of it, a prediction of its usual values would seem absurd."""
    now, one, yes = Soundness.fresh(2), jnp.ones(2), jnp.asarray(True)
    told = Prediction.gaussian(0.0 * one, one, one, 0.9)
    moved = now.conclude(told, Values(one, one, 3.0 * one, one), yes, yes)
    still = moved.conclude(told, Values(one, one, jnp.array([0.0, jnp.nan]), one), yes, yes)
    np.testing.assert_array_equal(still.reach, moved.reach)
    faded = still.conclude(told, Values(one, one, one, one), yes, yes)
    assert np.all(np.asarray(faded.reach) < 3.0)


def test_one_absurd_number_is_found_wherever_it_is() -> None:
    """In arrays short and long, whose lengths divide and do not; not where NaN belongs."""
    shapes = [(), (7,), (0,), (3, 8, 15, 5), (601,), (64, 17)]
    check, rng = jax.jit(is_sound), np.random.default_rng(0)
    strict = np.ones(len(shapes) + 1, bool)
    whole = [rng.normal(size=shape) for shape in shapes] + [np.arange(3)]
    assert check(whole, strict)
    assert check([np.arange(3), np.zeros((0, 2))], strict[:2])
    for i, shape in enumerate(shapes):
        for place in {0, math.prod(shape) // 3, math.prod(shape) - 1} if math.prod(shape) else ():
            for value in (np.nan, -np.inf, 1e30):
                spoiled = [v.copy() for v in whole]
                spoiled[i].reshape(-1)[place] = value
                assert not check(spoiled, strict)
                assert check(spoiled, np.arange(len(strict)) != i)
