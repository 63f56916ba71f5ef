"""How experts are weighed, and the forecasts by which they are judged."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rmcvi.core.student import quantile
from rmcvi.learners.seasonal.columns import Columns
from rmcvi.learners.seasonal.component import Component
from rmcvi.learners.seasonal.design import Design
from rmcvi.learners.seasonal.experts import Experts, Skill, score
from rmcvi.learners.seasonal.panel import place_of
from rmcvi.learners.seasonal.pull import Pull
from rmcvi.learners.seasonal.settings import Settings
from rmcvi.learners.seasonal.trial import Trial
from rmcvi.learners.seasonal.units import LocationScale
from rmcvi.learners.seasonal.walk import RandomWalk
from tests.reference.experts import nearest

SETTINGS = Settings(keep=1.0, slow=0.003, slow_slopes=0.004, degrees=6, memory=1000.0, gate=15.0)
LEVEL = 0.9
TINY = Design(size=1, width=0, cross=1, own=1, long=(), periods=(), harmonics=0)


@jax.jit
def judged(skill: Skill, locations: jax.Array, deviations: jax.Array, ys: jax.Array) -> Any:
    """Skill, weights and means after each row of one column with two experts."""
    walk, one = RandomWalk.unknown(1), jnp.ones(1)

    def row(skill, given):
        location, deviation, y = given
        laws = LocationScale(location[:, None], deviation[:, None])
        experts = Experts(laws, (False, False), jnp.ones((2, 1), bool), jnp.zeros(1))
        here = skill.at(experts)
        mixed = here.mixed(experts, one, walk, 6, quantile(0.95, 6))
        new = score(skill, experts, y[None], one, walk, SETTINGS, LEVEL).skill
        told = new.weights(experts)[:, 0], mixed.mean[0], mixed.away[:, 0]
        skill = skill.put(new, experts.here)
        return skill, (skill, *told)

    return jax.lax.scan(row, skill, (locations, deviations, ys))[1]


def run(skill: Skill, locations: np.ndarray, deviations: list[float], ys: np.ndarray) -> Any:
    wide = np.broadcast_to(deviations, locations.shape)
    return judged(skill, *map(jnp.asarray, (locations, wide, ys)))


def test_weights_move_within_a_dozen_rows() -> None:
    """To the better expert, though the other was ahead by all that it can be."""
    rng = np.random.default_rng(0)
    behind = eqx.tree_at(
        lambda s: s.scores, Skill.unknown(2, 1), replace_fn=lambda v: v.at[0].set(-12.0)
    )
    locations = np.tile([0.0, 4.0], (12, 1))
    _, weights, *_ = run(behind, locations, [1.0, 1.0], rng.standard_t(6, 12))
    assert weights[0, 0] < 0.01 < 0.99 < weights[-1, 0]


def test_an_expert_that_falls_silent_does_not_lead() -> None:
    """The best has nothing more to say: the others are weighed as if it had never been."""
    rng, one, walk = np.random.default_rng(3), jnp.ones(1), RandomWalk.unknown(1)
    laws = LocationScale(jnp.array([[0.0], [3.0], [jnp.nan]]), jnp.ones((3, 1)))
    valid = jnp.array([[True], [True], [False]])
    experts = Experts(laws, (False,) * 3, valid, jnp.zeros(1))
    skill = eqx.tree_at(
        lambda s: s.scores, Skill.unknown(3, 1), replace_fn=lambda v: v.at[:2].set(-12.0)
    )

    @jax.jit
    def learn(skill, y):
        new = score(skill, experts, y[None], one, walk, SETTINGS, LEVEL).skill
        return skill.put(new, experts.here)

    for y in rng.standard_normal(300):
        skill = learn(skill, jnp.asarray(y))
    assert skill.at(experts).weights(experts)[0, 0] > 0.999


def test_widths_become_right() -> None:
    """Of an expert whose deviations are three times too large, a third; the interval covers."""
    rng = np.random.default_rng(1)
    locations, ys = np.zeros((3000, 2)), rng.standard_t(6, 3000)
    skills, *_ = run(Skill.unknown(2, 1), locations, [3.0, 1.0], ys)
    width = np.exp(np.mean(skills.width[1000:, :, 0, 0], 0))
    np.testing.assert_allclose(width, [1.0 / 3.0, 1.0], rtol=0.05)
    assert skills.count[-1, 0, 0] == 3000.0 and np.all(skills.count[-1, 1:] == 0.0)


def test_the_pull_has_the_least_squared_error() -> None:
    """Of y - m on the distances of both experts: the mean comes to where nothing is left."""
    rng = np.random.default_rng(2)
    locations = 3.0 * rng.standard_normal((1000, 2))
    truth = locations @ [0.7, 0.3]
    ys = truth + 0.5 * rng.standard_normal(1000)
    skills, _, *rest = run(Skill.unknown(2, 1), locations, [1.0, 1.0], ys)
    mean, away = map(np.asarray, rest)
    last = jax.tree.map(lambda v: v[-1], skills.pull)
    left = mean + away @ np.asarray(last.shares())[:, 0, 0] - truth
    assert np.mean(left**2) < 0.01 < np.mean((mean - truth) ** 2)
    # From the 25th on, discounted by 0.9995 a row, in units of the last expert's error.
    unit = np.sqrt(np.asarray(skills.pull.square)[23:-1, 0, 0])
    x, e = away[24:] / unit[:, None], (ys - mean)[24:] / unit
    fade = 0.9995 ** np.arange(976)[::-1]
    np.testing.assert_allclose(last.products[:, 0, 0], (fade * e) @ x, rtol=1e-6)
    np.testing.assert_allclose(last.squares[:, :, 0, 0], (fade * x.T) @ x, rtol=1e-6)


def test_shares_stay_in_the_simplex() -> None:
    """Against non-negative least squares with a slack: 300 random sums, all three edges, inside."""
    rng = np.random.default_rng(4)
    away, b = rng.standard_normal((300, 8, 2)), 30.0 * rng.standard_normal((300, 2))
    squares = 10.0 * np.einsum("nki,nkj->nij", away, away)
    pull = Pull(jnp.asarray(np.moveaxis(squares, 0, 2)), jnp.asarray(b.T), jnp.ones(300))
    expected = [nearest(a + 20 * np.eye(2), p) for a, p in zip(squares, b, strict=True)]
    np.testing.assert_allclose(pull.shares().T, expected, atol=1e-6)
    assert {tuple(np.round(x, 6) > 0.0) for x in np.asarray(expected)} == {
        (False, False),
        (False, True),
        (True, False),
        (True, True),
    }


@jax.jit
def _onward(trial: Trial, component: Component, walk: RandomWalk) -> tuple[Trial, Component]:
    return trial.onward(
        component, Columns.unknown(TINY), walk, jnp.ones((), bool), jnp.zeros((), bool)
    )


def test_lengths_of_trials_are_the_ruler_sequence() -> None:
    """Each starts from the filter as it is then; its rows are 1, 2, .. from the last value."""
    lengths = [8, 16, 8, 32, 8, 16, 8, 64]
    trial, component, walk = Trial.none(TINY), Component.prior(TINY), RandomWalk.unknown(1)
    assert not trial.running
    starts, horizons = [], []
    for t in range(sum(lengths) + 1):
        here = jnp.full(2, float(t), float)
        component = eqx.tree_at(lambda c: c.path.state.mean, component, here)
        number = int(trial.number)
        trial, component = _onward(trial, component, walk)
        if trial.number > number:
            starts.append(t)
        horizons.append(float(trial.horizon[0]))
        assert component.trial.path.state.mean[0] == starts[-1]
    np.testing.assert_array_equal(np.diff(starts), lengths)
    expected = [h for length in lengths for h in range(1, length + 1)]
    np.testing.assert_array_equal(horizons, [*expected, 1])


def test_the_longest_trial() -> None:
    """Has 512 rows; if the last value was two rows old at its start, it is two rows further off."""
    trial, component, walk = Trial.none(TINY), Component.prior(TINY), RandomWalk.unknown(1)
    walk = eqx.tree_at(lambda w: (w.last, w.gap), walk, (jnp.full(1, 7.0), jnp.full(1, 2.0)))
    late = eqx.tree_at(lambda t: (t.number, t.age), trial, (jnp.asarray(128), jnp.asarray(510.0)))
    late, component = _onward(late, component, walk)
    assert (late.number, late.horizon[0]) == (128, 512.0)
    late, _ = _onward(late, component, walk)
    assert (late.number, late.horizon[0], late.walk.last[0]) == (129, 3.0, 7.0)


def test_horizons_beyond_the_next_row_share_their_bins() -> None:
    """Bins 1, 2-3, 4-7, .., the last without end; what is said goes from one to the next in steps
    no larger than the logarithm's, and the next row has a bin of its own.
    """
    horizons = np.arange(1, 700)
    none = LocationScale(jnp.zeros((1, 699)), jnp.ones((1, 699)))
    place = place_of(jnp.asarray(horizons, float))
    experts = Experts(none, (False,), jnp.ones((1, 699), bool), place)
    np.testing.assert_array_equal(experts.bins, np.minimum(np.log2(horizons + 1e-9).astype(int), 9))
    kinks = jnp.arange(10.0)[:, None] ** 2 + jnp.zeros((10, 699))
    skill = eqx.tree_at(lambda s: s.cover, Skill.unknown(1, 699), kinks)
    said, middles = skill.between(experts).cover, np.log2(horizons[1:]) - 0.5
    assert said[0] == 0.0
    expected = np.interp(np.clip(middles, 1, 9), np.arange(10), np.arange(10.0) ** 2)
    np.testing.assert_allclose(said[1:], expected, atol=2e-3)  # 1e-4 of a bin, at a slope of 17
