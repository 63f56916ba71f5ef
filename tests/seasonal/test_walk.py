"""The last value: spikes are not followed, new levels are, and what is rounded stays rounded."""

from collections.abc import Collection, Iterable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rmcvi.learners.seasonal.walk import LONGEST, RandomWalk

GATE, NEW = 15.0, RandomWalk.unknown(1)


@jax.jit
def _row(walk: RandomWalk, y: jax.Array, far: jax.Array, dt: jax.Array) -> RandomWalk:
    return walk.wait(dt).learn(y[None], far[None], GATE)


def after(values: Iterable[float], far: Collection[int] = (), walk: RandomWalk = NEW) -> RandomWalk:
    """The walk after the values, those of some rows far from all that was expected."""
    for t, y in enumerate(values):
        walk = _row(walk, jnp.asarray(y), jnp.asarray(t in far), jnp.ones(()))
    return walk


def calm(rows: int = 30) -> list[float]:
    return list(5.0 + 0.1 * np.random.default_rng(0).standard_normal(rows))


def test_a_spike_is_not_followed() -> None:
    before = after(calm())
    spike = after([1e3], [0], before)
    assert spike.last[0] == before.last[0] == calm()[-1]
    assert spike.high[0] == before.high[0] < 6.0
    # Its square counts for 25 variances, at the rate of one row in 31.
    np.testing.assert_allclose(spike.variance, before.variance * (1.0 + 24.0 / 31.0))
    gone = after([5.0], walk=spike)
    assert (gone.last[0], gone.lasts[0], gone.doubts[0]) == (5.0, 0.0, 1.0)


def test_a_new_level_is_followed_from_its_second_row_on() -> None:
    before = after(calm())
    level = after([1e3, 1001.0, 1000.5], [0, 1], before)
    assert after([1e3, 1001.0], [0, 1], before).last[0] == 1001.0
    assert (level.last[0], level.lasts[0], level.high[0]) == (1000.5, 0.5, 1001.0)
    assert np.isnan(level.candidate[0])


def test_it_learns_that_far_values_last() -> None:
    """After k that did, and a prior that counts for one that did not, the share is k / (k + 1)."""
    values, far = [*calm(), *[1e3, 1e3, 5.0, 5.0] * 2, 1e3, 1e3], range(30, 40)
    walk = after(values, far)
    np.testing.assert_allclose(walk.lasts, 5.0 / 6.0)
    jump = after([7.0], [0], walk)
    np.testing.assert_allclose(jump.last, 1e3 + 5.0 / 6.0 * (7.0 - 1e3))


def test_a_gap_widens() -> None:
    """A change over h rows says as much about one row as its h-th part, squared."""
    walk = after(calm())
    later = after([np.nan, np.nan, 5.5], walk=walk)
    change, square = 5.5 - float(walk.last[0]), float(walk.deviation[0]) ** 2
    expected = square * (1.0 + (change**2 / (3.0 * square) - 1.0) / 31.0)
    np.testing.assert_allclose(later.variance, expected)
    assert after([np.nan] * 4, walk=walk).gap[0] == 4.0 and later.gap[0] == 0.0
    assert walk.wait(jnp.asarray(1e9)).gap[0] == LONGEST


def test_the_deviation_is_no_finer_than_the_resolution() -> None:
    """A quarter of the smallest change, however long the value stays."""
    stuck = after([*[3.0] * 20, 4.0, 6.0, *[6.0] * 300])
    assert (stuck.quantum[0], stuck.deviation[0], stuck.repeats[0]) == (1.0, 0.25, 300.0)
    assert np.sqrt(stuck.variance[0]) <= 0.25 + 1e-9


def test_the_range_forgets() -> None:
    """An absurd level that was believed is left at a rate of 1e-4 a row."""
    walk = eqx.tree_at(lambda w: w.high, after(calm()), jnp.asarray([1e6]))
    last = float(walk.last[0])
    later = after([5.0, 5.0], walk=walk)
    first = 1e6 + 1e-4 * (last - 1e6)
    np.testing.assert_allclose(later.high, first + 1e-4 * (5.0 - first))
