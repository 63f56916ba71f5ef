"""The zoo, quick form: every method has its row, and one of them is taken."""

import numpy as np
import pytest

from rmcvi.lab.reproduce import reproduce
from rmcvi.lab.reproduce.runner import Progress
from rmcvi.lab.reproduce.zoo import MODELS, in_words, mean_and_error, summary


def test_ratios_are_taken_stream_by_stream():
    """Paired: streams of different difficulty say the same."""
    names = ("rmse", "smoothing", "coverage", "log_score", "microseconds")
    own = {name: np.array([1.1, 2.2]) for name in names}
    rival = {name: np.array([1.0, 2.0]) for name in names}
    learned = {k: np.ones(1) for k in ("parameter_error", "learned_log_score", "returns", "rows")}
    row = summary(own, learned, rival, rival)
    for name in ("over_floor", "over_kalman", "smoothing_over_floor"):
        np.testing.assert_allclose(row[name], [1.1, 0.0], atol=1e-12)
    np.testing.assert_allclose(row["coverage"], [1.65, 0.55])
    assert row["parameter_error"] == [1.0, None] == mean_and_error([1.0])
    assert in_words(row["parameter_error"]) == "1" and in_words([1.0, 0.5]) == "1.000 (0.500)"


@pytest.mark.long
def test_every_method_has_its_row(tmp_path):
    result = reproduce("zoo", tmp_path, quick=True, progress=Progress(quiet=True))
    told = result["volatility"]
    (floor, _), chosen = told.pop("floor"), told.pop("chosen")
    assert 0.5 < told.pop("floor_coverage")[0] <= 1.0
    assert 0.0 < floor < 1.5
    assert chosen in told and len(told) == 6 and "volatility" in MODELS
    thorough = [row for row in told.values() if "rows" in row]
    assert len(thorough) == 3
    for row in thorough:
        assert np.isfinite(row["smoothing_over_floor"][0]) and np.isfinite(
            row["parameter_error"][0]
        )
    for row in told.values():
        assert np.isfinite(row["over_floor"][0])
        assert 0.0 <= row["coverage"][0] <= 1.0
