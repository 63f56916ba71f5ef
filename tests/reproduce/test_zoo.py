"""The zoo, quick form: every method has its row, and one of them is taken."""

import numpy as np
import pytest

from rmcvi.lab.reproduce import reproduce
from rmcvi.lab.reproduce.runner import Progress

pytestmark = pytest.mark.long


def test_every_method_has_its_row(tmp_path):
    result = reproduce("zoo", tmp_path, quick=True, progress=Progress(quiet=True))
    told = result["volatility"]
    floor, chosen = told.pop("floor"), told.pop("chosen")
    assert 0.0 < floor < 1.5
    assert chosen in told and len(told) == 6
    for row in told.values():
        assert np.isfinite(row["rmse"]) and 0.0 <= row["coverage"] <= 1.0
        assert np.isfinite(row["parameter_error"])
