"""The seasonal learner against plain NumPy, the Kalman filter that knows all, and bad streams."""

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

import rmcvi
import rmcvi.checks
from rmcvi.learners.seasonal import SeasonalLearner
from tests.reference.kalman import LinearSystem, kalman_filter
from tests.reference.seasonal import Reference
from tests.seasonal._streams import broken, seasonal

LONG, PERIODS = (6, 7), (6, 12)


def learner(size: int = 3, **settings: Any) -> SeasonalLearner:
    return SeasonalLearner(
        size, period=6, long_period=12, long=LONG, harmonics=2, window=40, **settings
    )


def prediction(_: Any, __: Any, info: Any) -> Any:
    return info.prediction


@cache
def after_broken() -> tuple[SeasonalLearner, Any, Any]:
    model = learner()
    return model, *rmcvi.scan(model, model.init(jax.random.key(0)), broken(300), collect=prediction)


def test_equals_plain_numpy() -> None:
    """Holes, empty rows, outliers, new levels, a stuck column: 300 rows, every number."""
    _, state, got = after_broken()
    reference = Reference(3, PERIODS, LONG, 2, ((False, True), (True, True), (False, False)))
    told = [reference.step(y) for y in broken(300)]
    for name in ("mean", "low", "high", "log_score"):
        expected = np.array([row[name] for row in told])
        np.testing.assert_allclose(getattr(got, name), expected, rtol=1e-6, atol=1e-6)
    assert np.all(state.learned.columns.known)


def test_p_values_match_the_interval() -> None:
    """A value at an end of a component's interval has the p-value 1 - level; here on average."""
    _, _, got = after_broken()
    ys, p = broken(300), np.asarray(got.p_value)
    seen = ~np.isnan(ys)
    np.testing.assert_array_equal(np.isnan(p), ~seen)
    inside = (ys >= got.low) & (ys <= got.high)
    agree = (inside == (p >= 0.1))[seen]
    # It has the mean of quantiles, not the mixture's, and is calibrated; the more experts differ
    # (seven of them, and faults everywhere in these rows), the less the two agree: .895.
    assert agree.mean() > 0.85
    assert p[100, 0] < 1e-6 < 0.01 < np.median(p[seen])


def test_nothing_breaks_it() -> None:
    """All predictions are finite and in their intervals, after 1e6 and through empty rows."""
    _, state, got = after_broken()
    for values in (got.mean, got.low, got.high):
        assert np.all(np.isfinite(values))
    assert np.all((got.low <= got.mean) & (got.mean <= got.high))
    assert np.all(np.abs(got.mean[110:, ::2]) < 1e3)
    assert np.all(np.abs(got.mean[250:]) < 2e3)
    arrays = jax.tree.leaves((state.learned.components, state.learned.columns, state.learned.skill))
    assert all(np.all(np.isfinite(leaf)) for leaf in arrays)


def test_forecast_is_what_it_says_of_empty_rows() -> None:
    model, state, _ = after_broken()
    _, told = rmcvi.scan(model, state, np.full((300, 3), np.nan), collect=prediction)
    ahead = model.forecast(state, 48)
    assert ahead.mean.shape == (48, 3)
    for name in ("mean", "low", "high"):
        np.testing.assert_allclose(getattr(ahead, name), getattr(told, name)[:48], rtol=1e-9)
    with pytest.raises(ValueError, match="horizon"):
        model.forecast(state, 0)


def test_long_forecasts() -> None:
    """Four of 48 rows: better than the last value, and their intervals hold what comes."""
    ys = seasonal(1200 + 48, 3)
    model, _, _ = after_broken()
    state, error, last, inside = model.init(jax.random.key(0)), [], [], []
    for end in range(300, 1201, 300):
        state, _ = rmcvi.scan(model, state, ys[end - 300 : end], collect=prediction)
        band, truth = model.forecast(state, 48), ys[end : end + 48]
        assert np.all((band.low <= band.mean) & (band.mean <= band.high))
        error.append(band.mean - truth)
        last.append(ys[end - 1] - truth)
        inside.append((band.low <= truth) & (truth <= band.high))
    assert np.mean(np.square(error)) < 0.5 * np.mean(np.square(last))
    assert 0.8 < np.mean(inside) < 0.98


def test_present_and_recent() -> None:
    """What was seen is returned; what was not lies in an interval, narrower with hindsight."""
    model, _, _ = after_broken()
    ys = broken(300)
    ys[295:297, 0] = np.nan
    ys[-1, 1] = np.nan
    state, _ = rmcvi.scan(model, model.init(jax.random.key(0)), ys, collect=prediction)
    now, past = model.present(state), model.recent(state, 19)
    seen = ~np.isnan(ys[-20:])
    np.testing.assert_array_equal(past.mean[seen], ys[-20:][seen])
    np.testing.assert_allclose(past.mean[-1], now.mean, rtol=1e-3)
    np.testing.assert_allclose(past.high[-1], now.high, rtol=1e-2)
    assert np.all(past.low[~seen] < past.mean[~seen])
    assert np.all(past.mean[~seen] < past.high[~seen])
    with pytest.raises(ValueError, match="lag"):
        model.recent(state, 40)


def test_conforms() -> None:
    """Scan = update to the bit, a state of arrays, checkpoints: the package's own checks."""
    small = learner(2, warm=8, cross=1, own=1, plain=False)
    report = rmcvi.checks.learner(small)
    assert report.ok, str(report)


def test_a_linear_gaussian_stream() -> None:
    """Within 3 % of the Kalman filter with the true parameters; coverage within five errors."""
    rng, length = np.random.default_rng(3), 2100
    F = np.array([[0.9, 0.3], [-0.3, 0.7]])
    G, q, r = np.array([[1.0, 0.5], [-0.5, 1.0], [1.0, 0.0]]), 0.5, 0.3
    x, ys = np.zeros(2), []
    for _ in range(length):
        x = F @ x + q * rng.standard_normal(2)
        ys.append(50.0 + 8.0 * (G @ x + r * rng.standard_normal(3)))
    ys = np.array(ys)
    z = (ys - 50.0) / 8.0
    eye = np.eye(2)
    system = LinearSystem.build(F, q**2 * eye, G, r**2 * np.eye(3), np.zeros(2), eye, length)
    filtered = kalman_filter(system, z)
    best = np.zeros_like(z)
    best[1:] = filtered.mean[:-1] @ F.T @ G.T
    model, _, _ = after_broken()
    state, parts = model.init(jax.random.key(0)), []
    for rows in ys.reshape(7, 300, 3):  # pieces of a length for which the loop is compiled
        state, part = rmcvi.scan(model, state, rows, collect=prediction)
        parts.append(part)
    got = jax.tree.map(lambda *v: np.concatenate(v), *parts)
    late = slice(500, None)
    error = np.sqrt(np.mean(((ys - got.mean) / 8.0)[late] ** 2))
    assert error < 1.03 * np.sqrt(np.mean((z - best)[late] ** 2))
    inside = ((ys >= got.low) & (ys <= got.high))[late].mean(1)
    assert abs(inside.mean() - 0.9) < 5.0 * inside.std() / np.sqrt(len(inside))
