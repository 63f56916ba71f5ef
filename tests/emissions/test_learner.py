"""The closed form with particles beside it: counts as counts, other columns as before, no NaN."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rmcvi
from rmcvi.learners.emissions import Emission, EmissionLearner
from rmcvi.learners.seasonal import SeasonalLearner

ROWS = 400


@cache
def _learner() -> EmissionLearner:
    base = SeasonalLearner(2, period=None, cross=1, own=1, plain=False, window=8)
    return EmissionLearner(base, (Emission(0, "negative-binomial"),))


@cache
def _rows() -> np.ndarray:
    """Counts, and a walk."""
    rng = np.random.default_rng(5)
    rate = np.exp(0.5 + 0.5 * np.sin(np.arange(ROWS) / 20.0))
    return np.stack([rng.poisson(rate), rng.normal(size=ROWS).cumsum()], 1).astype(float)


@cache
def _program():
    learner = _learner()
    return jax.jit(
        lambda ys: jax.lax.scan(
            lambda s, y: learner.step(s, y, rmcvi.Inputs(jnp.zeros(0), jnp.ones(()))),
            learner.init(jax.random.key(0)),
            ys,
        )
    )


def _outlier(y):
    y[150, 0] = 1e6
    return y


def _negative(y):
    y[150:153, 0] = [-3.0, np.inf, 0.5]
    return y


def _missing(y):
    y[100:140] = np.nan
    return y


def _dead(y):
    y[50:, 0] = np.nan
    return y


def _zeros(y):
    y[:, 0] = np.where(np.arange(ROWS) == 390, 3.0, 0.0)
    return y


def _level(y):
    y[200:, 0] += 500.0
    return y


FAULTS = [_outlier, _negative, _missing, _dead, _zeros, _level]


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost_and_bands_are_counts(fault):
    rows = fault(_rows().copy())
    state, info = _program()(jnp.asarray(rows))
    told = info.prediction
    later = slice(1, None)  # of the first row nobody knows anything
    for part in (told.mean, told.low, told.high):
        assert np.isfinite(np.asarray(part)[later]).all()
    low, high = np.asarray(told.low)[later, 0], np.asarray(told.high)[later, 0]
    assert (low >= 0.0).all() and (low == np.round(low)).all() and (high == np.round(high)).all()
    assert (low <= np.asarray(told.mean)[later, 0]).all()
    assert (high >= np.asarray(told.mean)[later, 0]).all()
    seen = ~np.isnan(rows).all(1)
    assert np.isfinite(np.asarray(told.log_score)[seen][1:]).all()
    assert (np.asarray(info.log_scores)[:, 0] <= 1e-9).all()  # probabilities
    for leaf in jax.tree.leaves(state.groups):
        if jnp.issubdtype(leaf.dtype, jnp.inexact):
            # History and the like may hold NaN where a value was missing, nothing else may.
            assert not np.isinf(np.asarray(leaf)).any()


def test_an_outlier_is_forgotten_and_a_level_is_followed():
    plain, struck = (_program()(jnp.asarray(y))[1] for y in (_rows(), _outlier(_rows().copy())))
    apart = np.abs(np.asarray(plain.prediction.mean - struck.prediction.mean))[160:, 0]
    assert np.median(apart) < 0.3 and apart.max() < 3.0
    rows = _level(_rows().copy())
    mean = np.asarray(_program()(jnp.asarray(rows))[1].prediction.mean)[:, 0]
    assert np.abs(mean[220:] - rows[220:, 0]).mean() < 20.0


def test_other_columns_are_to_rounding_as_without():
    """And the score of the row is the sum over columns."""
    learner, rows = _learner(), jnp.asarray(_rows())
    _, info = _program()(rows)
    _, base = rmcvi.scan(learner.base, learner.base.init(jax.random.key(0)), rows)
    for part in ("mean", "low", "high", "p_value"):
        ours, theirs = (np.asarray(getattr(i.prediction, part)) for i in (info, base))
        np.testing.assert_allclose(ours[:, 1], theirs[:, 1], rtol=1e-9)
    np.testing.assert_allclose(info.log_scores.sum(1)[1:], info.prediction.log_score[1:], rtol=1e-9)
    np.testing.assert_allclose(info.log_scores[1:, 1], base.log_densities[1:, 1], rtol=1e-9)


def test_what_it_says_of_itself():
    learner = _learner()
    assert "NaturalRMCVI" in learner.method and "negative-binomial (1)" in learner.method
    assert learner.at_level(0.5).base.level == 0.5
    state = jax.eval_shape(learner.init, jax.random.key(0))
    assert "negative-binomial.size" in jax.eval_shape(learner.parameters, state)
    with pytest.raises(ValueError, match="law"):
        EmissionLearner(learner.base, (Emission(0, "gamma"),))
    with pytest.raises(ValueError, match="column"):
        EmissionLearner(learner.base, (Emission(2, "poisson"),))
    with pytest.raises(ValueError, match="twice"):
        EmissionLearner(
            learner.base, (Emission(0, "poisson"), Emission(0, "bounded", 0.0, 1.0, 0.1))
        )


@pytest.mark.long
def test_the_conformance_of_learners():
    rmcvi.checks.learner(_learner()).raise_if_failed()
