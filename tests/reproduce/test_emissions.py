"""Counts with and without particles, quick form: every method has its row."""

import pytest

from rmcvi.lab.reproduce import reproduce
from rmcvi.lab.reproduce.runner import Progress

pytestmark = pytest.mark.long


def test_every_method_has_its_row(tmp_path):
    result = reproduce("emissions", tmp_path, quick=True, progress=Progress(quiet=True))
    told = result["poisson"]
    assert set(told) == {"closed form", "particles", "both"}
    for row in told.values():
        assert 0.5 < row["rmse"] < 4.0 and row["log_score"] < 0.0
        assert 0.8 < row["coverage"][0] <= 1.0
    assert abs(told["both"]["rmse_ratio"][0] - 1.0) < 0.1
