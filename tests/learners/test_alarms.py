"""Failures of known kind in a healthy stream, through `Live`: named, in the right column, kept."""

from pathlib import Path

import numpy as np
import pytest

import rmcvi

LENGTH, START = 1500, 1200


def stream() -> np.ndarray:
    """Two columns with a rhythm of six rows and correlated noise."""
    rng, rows = np.random.default_rng(12), np.arange(LENGTH)
    y = np.sin(rows / 6 * 2 * np.pi)[:, None] * [1.0, 5.0] + [10.0, -3.0]
    noise = rng.standard_normal((LENGTH, 2)) * [0.3, 1.5]
    for t in range(1, LENGTH):
        noise[t] += 0.5 * noise[t - 1]
    return y + noise


def live(sensitivity: float = 1.0) -> rmcvi.Live:
    learner = rmcvi.SeasonalLearner(2, period=6, long_period=None)
    return rmcvi.Live(["a", "b"], learner=learner, sensitivity=sensitivity)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("stuck", ("a: stuck",)),
        ("jump", ("a: jumped to",)),
        ("level", ("a: moved to a new level", "a: its level has changed", "a: jumped to")),
        ("drift", ("a: has drifted", "a: its level has changed")),
        ("rhythm", ("a: its rhythm has changed",)),
    ],
)
def test_each_kind_is_named(kind: str, words: tuple[str, ...]) -> None:
    """Within sixty rows (a drift: of its length), not before, and not in the other column."""
    y, after = stream(), slice(START, None)
    if kind == "stuck":
        y[after, 0] = y[START - 1, 0]
    elif kind == "jump":
        y[START, 0] += 6.0
    elif kind == "level":
        y[after, 0] += 3.0
    elif kind == "drift":
        y[after, 0] += 0.04 * np.arange(LENGTH - START)
    else:
        wave = 10.0 + np.sin(np.arange(LENGTH) / 6 * 2 * np.pi)[after]
        y[after, 0] = wave + 0.1 * (y[after, 0] - wave)
    told = live().learn_many(y)
    said = [s for row in told.alarms for s in row]
    assert said and said[0].startswith(words), said[:1]
    assert "Chance alone does this" in said[0]
    first = next(i for i, row in enumerate(told.alarms) if row)
    assert START <= first < START + (LENGTH - START if kind == "drift" else 60)
    assert not [s for s in said if s.startswith("b:")]
    assert len(dict.fromkeys(said)) <= 4
    assert told.anomaly[first, 0] > 0.5 and np.nanmax(told.anomaly[:START]) <= 0.5


def test_sensitivity_changes_alarms_alone(tmp_path: Path) -> None:
    """Scores are the same; a file may be gone on with by another sensitivity."""
    y = stream()[:500]
    y[400, 0] += 1.2
    one, many = live(1e-6), live(1e3)
    np.testing.assert_array_equal(one.learn_many(y).anomaly, many.learn_many(y).anomaly)
    one.save(tmp_path / "file")
    many.load(tmp_path / "file")
    more = stream()[500:700]
    np.testing.assert_array_equal(one.learn_many(more).anomaly, many.learn_many(more).anomaly)
    with pytest.raises(ValueError, match="sensitivity"):
        live(0.0)
