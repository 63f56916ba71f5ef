"""Inputs and phases, on tiny streams."""

from typing import Any

import jax
import numpy as np
import pytest

import rmcvi
from rmcvi.learners.seasonal import SeasonalLearner
from tests.seasonal._streams import seasonal

ROWS = 400
MODEL = SeasonalLearner(
    1, 2, phase_input=True, period=6, long_period=None, long=(6,), harmonics=2, cross=1, own=1,
    plain=False, window=8,
)  # fmt: skip
"""One learner for all tests: it takes a while to compile."""


def run(ys: np.ndarray, phase: np.ndarray, u: np.ndarray) -> Any:
    inputs = np.concatenate([phase, u], 1)
    return rmcvi.scan(MODEL, MODEL.init(jax.random.key(0)), ys, inputs)[1].prediction


def test_a_phase_given_is_a_phase_counted() -> None:
    """An unknown phase goes on from the last one, `dt` later; from 0, if none was ever known."""
    ys, nothing = seasonal(ROWS, 1), np.full((ROWS, 1), np.nan)
    counted = run(ys, nothing, nothing)
    hours = np.arange(ROWS + 0.0)[:, None] + 606.0
    hours[50] = np.nan
    given = run(ys, hours, nothing)
    np.testing.assert_allclose(given.mean, counted.mean, rtol=1e-9)
    np.testing.assert_allclose(given.log_score, counted.log_score, rtol=1e-7)


def test_an_input_in_any_units_explains() -> None:
    """It halves the error, the same in all units; NaN is no input."""
    rng = np.random.default_rng(0)
    phase, u = np.full((ROWS, 1), np.nan), rng.standard_normal((ROWS, 1))
    ys = 5.0 + 2.0 * u + 0.5 * rng.standard_normal((ROWS, 1))
    u[200] = np.nan
    got = run(ys, phase, 1e4 + 300.0 * u)
    error = np.asarray(ys - got.mean)[100:]
    assert np.sqrt(np.median(error**2)) < 0.5 * np.std(ys)
    assert np.all(np.isfinite(got.mean))
    again = run(ys, phase, u)
    np.testing.assert_allclose(again.mean, got.mean, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("dim_obs", {"dim_obs": 0}),
        ("dim_input", {"dim_obs": 1, "phase_input": True}),
        ("own", {"dim_obs": 1, "cross": 3, "own": 2}),
        ("long", {"dim_obs": 1, "long": (3,)}),
        ("long_period", {"dim_obs": 1, "long_period": 24}),
        ("degrees", {"dim_obs": 1, "degrees": 5}),
    ],
)
def test_wrong_settings_are_named(name: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{name}: got"):
        SeasonalLearner(**settings)
