"""Faults that used to destroy the learner: new levels, absurd first values, noise beyond all."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rmcvi
from rmcvi.learners.seasonal import SeasonalLearner
from rmcvi.learners.seasonal.predict import Row, predict, standardised
from tests.seasonal._streams import seasonal
from tests.seasonal.test_seasonal import learner, prediction

CODES = (32767.0, 65535.0, 1e10, 9.96921e36, -3.4028235e38)
ROWS = 300
"""Rows for which `test_seasonal` has the loop compiled already."""
SMALL = SeasonalLearner(1, period=None, cross=1, own=1, window=8)
"""In single precision, everywhere: one program."""


def run(ys: np.ndarray, model: SeasonalLearner | None = None) -> tuple[Any, Any]:
    model = learner() if model is None else model
    return rmcvi.scan(model, model.init(jax.random.key(0)), ys, collect=prediction)


def errors(state: Any, y: np.ndarray) -> np.ndarray:
    """Each component's error about the next row, in its own units."""
    model, learned = learner(), state.learned
    row = Row(jnp.zeros(0), state.clock + 1.0, jnp.ones(()))

    def one(component, asinh, mask):
        season = component.season(learned.columns, row.phase, model.design)
        predicted, _ = predict(component, component.path, season, mask, row, model.design)
        z, _ = standardised(component, learned.columns, asinh, jnp.asarray(y))
        return z - predicted.mu

    kind = model.ensemble.kind
    return np.asarray(jax.jit(jax.vmap(one))(learned.components, kind.asinh, kind.mask))


@pytest.mark.parametrize("deviations", [1e3, -1e3])
def test_components_go_to_a_new_level(deviations: float) -> None:
    """All of them within ten rows, and the other columns do not notice."""
    ys = 20.0 + 0.1 * seasonal(ROWS + 1, 3)
    moved = ys.copy()
    moved[-11:, 0] += deviations * np.std(ys[:, 0])
    state, got = run(moved[:ROWS])
    assert np.all(np.abs(errors(state, moved[ROWS])) < 3.0)
    usual, apart = run(ys[:ROWS])[1], np.std(ys, 0)[1:]
    np.testing.assert_array_less(np.abs(got.mean - usual.mean)[:, 1:] / apart, 1.0)


def test_lags_go_to_a_new_level() -> None:
    """When components move there, so do the last rows in their states: they lie together."""
    ys = 20.0 + 0.1 * seasonal(ROWS, 3)
    ys[-6:, 0] += 1e3 * np.std(ys[:, 0])
    state, _ = run(ys)
    lags = np.asarray(state.learned.components.path.state.mean).reshape(3, 4, 3)[:, :3, 0]
    assert np.all(np.ptp(lags, 1) < 5.0), lags


@pytest.mark.parametrize(("end", "scale"), [(ROWS, 1e-3), (ROWS - 11, 1.0)])
def test_a_new_level_with_another_scale(end: int, scale: float) -> None:
    """Values a thousandth as far apart, and back: units and noise follow at once, both ways."""
    ys = 20.0 + 0.1 * seasonal(ROWS, 3)
    usual, there = scale * np.std(ys[:, 0]), slice(ROWS - 80, end)
    ys[there, 0] = 1e2 + 1e-3 * ys[there, 0]
    found = run(ys)[0].learned.components
    assert 0.2 < found.units.variance[0, 0] ** 0.5 / usual < 5.0
    assert np.all(found.noise.variance[:, 0] > 0.01)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_an_absurd_first_value_is_as_good_as_none(precision: str) -> None:
    """From row 60 on, known for a code or not; the band's ends are a while in coming back."""
    model = SMALL if precision == "float32" else learner()
    ys = seasonal(ROWS, model.dim_obs)
    with jax.enable_x64(precision == "float64"):
        ys[7, 0] = np.nan
        without = run(ys, model)[1]
        for code in CODES:
            ys[7, 0] = code
            got = run(ys, model)[1]
            np.testing.assert_allclose(got.mean[60:], without.mean[60:], rtol=0.06)
            width = np.asarray(without.high - without.low)
            for name in ("low", "high"):
                away = np.abs(np.asarray(getattr(got, name)) - np.asarray(getattr(without, name)))
                assert np.all(away[60:] < 0.25 * width[60:]), (code, name)
                assert np.all(away[180:] < 0.06 * width[180:]), (code, name)


def test_counts_have_no_negative_bands() -> None:
    """Where no value was below 0, nor is a prediction, nor an end of its interval."""
    rng = np.random.default_rng(2)
    hours = np.zeros((ROWS, 1))  # of rain: they rise one by one, then it is dry again
    for t in range(1, ROWS):
        goes_on = rng.random() < (0.8 if hours[t - 1] else 0.05)
        hours[t] = goes_on * (hours[t - 1] + 1.0)
    for ys in (rng.poisson(0.7, (ROWS, 1)) + 0.0, hours):
        with jax.enable_x64(False):
            got = run(ys, SMALL)[1]
        assert np.all(got.low[1:] >= 0.0) and np.all(got.mean[1:] >= 0.0)
        assert np.any(got.low[24:] == 0.0)


def test_a_stuck_column_keeps_its_scale() -> None:
    """The short regression is as sure after a thousand equal values as it was before them."""
    ys = seasonal(ROWS, 1)
    with jax.enable_x64(False):
        state, _ = run(ys, SMALL)
        before = np.asarray(state.learned.short.scale)
        for _ in range(4):
            stuck = np.full((ROWS, 1), ys[-1, 0])
            state, _ = rmcvi.scan(SMALL, state, stuck, collect=prediction)
        np.testing.assert_array_equal(state.learned.short.scale, before)


def test_noise_whose_square_is_no_number() -> None:
    """In single precision: nothing is lost, and the column is well again when it is gone."""
    ys, rng = seasonal(ROWS, 1), np.random.default_rng(1)
    with jax.enable_x64(False):
        usual = run(ys, SMALL)[1]
        ys[100:200] = 1e25 * rng.standard_normal((100, 1))
        got = run(ys, SMALL)[1]
    assert np.isfinite(np.stack([got.mean, got.low, got.high])[:, 2:]).all()
    error, least = (np.mean((told.mean - ys)[220:] ** 2) for told in (got, usual))
    assert error < 1.2 * least


def test_long_lags_follow_the_period() -> None:
    assert SeasonalLearner(1, period=48).design.long == (47, 48, 49)
