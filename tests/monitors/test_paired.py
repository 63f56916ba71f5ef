"""Paired scores decide for the better predictor, and not at all between equals."""

import jax
import jax.numpy as jnp
import numpy as np

from rmcvi.monitors.paired import BLOCK, FEWEST, PairedState

ROWS = 6000


def decisions(mean: float, seeds: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """First row at which each stream of skewed differences is called worse, or better."""

    def run(key):
        noise = jax.random.exponential(key, (ROWS,)) - 1.0

        def step(state, difference):
            state = state.add(difference, jnp.asarray(True))
            return state, jnp.stack(state.beyond(0.01))

        return jax.lax.scan(step, PairedState.fresh(), mean + 0.3 * noise)[1]

    flags = np.asarray(jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), seeds)))
    first = np.where(flags.any(1), flags.argmax(1), ROWS)
    return first[:, 0], first[:, 1]


def test_what_is_worse_is_called_so_soon():
    worse, better = decisions(-0.1)
    assert np.all(better == ROWS)
    assert np.all(worse >= BLOCK * FEWEST - 1)
    # 5 standard errors of .3 / sqrt(rows) are .1 after 225 rows; few rows make them uncertain.
    assert np.all(worse < 3 * BLOCK * FEWEST)


def test_what_is_better_is_called_so():
    worse, better = decisions(0.1)
    assert np.all(worse == ROWS) and np.all(better < ROWS)


def test_equals_are_left_alone():
    """375 looks at each of 40 streams."""
    worse, better = decisions(0.0)
    assert np.sum(worse < ROWS) + np.sum(better < ROWS) <= 1


def test_rows_without_a_score_count_for_nothing():
    state = PairedState.fresh().add(jnp.asarray(jnp.nan), jnp.asarray(True))
    state = state.add(jnp.asarray(-1.0), jnp.asarray(False))
    assert int(state.rows) == 0 and float(state.total) == 0.0
