"""Quick forms of the linear-Gaussian experiments: what must hold whatever the machine."""

import json

import numpy as np
import pytest

from rmcvi.lab.reproduce import reproduce
from rmcvi.lab.reproduce.runner import Progress


def quick(name, folder):
    result = reproduce(name, folder, quick=True, progress=Progress(quiet=True))
    assert json.loads((folder / "result.json").read_text())["experiment"] == name
    assert (folder / "report.html").stat().st_size > 10_000
    return result


@pytest.mark.long
def test_streaming_learns_the_posterior(tmp_path):
    found = quick("linear-gaussian-streaming", tmp_path)
    assert (tmp_path / "training.png").exists()
    assert np.isfinite(found["posterior"]["excess_rmse_percent"][-1][0])
    gaps = [gap for gap, _ in found["posterior"]["gap_to_kalman"]]
    assert gaps[-1] < 0.7 * gaps[0]
    # The model is the true one: its ELBO is below the evidence but for rounding, and reaches it.
    short = [value for value, _ in found["posterior"]["held_out_evidence_minus_exact_elbo"]]
    assert min(short) > -1e-4
    assert short[-1] < 0.01 * short[0]


@pytest.mark.long
def test_parameters_by_every_method(tmp_path):
    found = quick("linear-gaussian-parameters", tmp_path)
    rows = {row["method"]: row for row in found["rows"]}
    exact = rows["exact recursive maximum likelihood"]
    assert exact["transition"][0][0] < found["start"]["mae_transition"]
    assert len(rows) == 4
    for row in rows.values():
        assert row["microseconds"] > 0.0
        assert 0.0 < row["emission"][0][0] < 1.0
    # Two coordinates, four moments, twenty particles: exact maximum likelihood but for its window.
    assert max(found["error_over_exact"].values()) < 1.1


@pytest.mark.long
def test_oracle_bounds_every_gradient(tmp_path):
    """All lie below the evidence; one cell update is not enough to learn from."""
    found = quick("linear-gaussian-oracle", tmp_path)
    for method in ("closed", "pathwise", "score1", "score2"):
        assert found[method]["below_evidence"][0] > 0.0
    for method in ("closed", "pathwise", "score2"):
        assert found[method]["below_evidence"][0] < 0.8 * found[method]["start"]
    assert found["score1"]["below_evidence"][0] > found["score2"]["below_evidence"][0]


@pytest.mark.long
def test_learning_speed(tmp_path):
    """All keys, and parameters on their way."""
    found = quick("learning-speed", tmp_path)
    fisher = found["volatility"]["fisher"]
    assert fisher["streams"] == 2 and len(fisher["bias_percent"]) == 3
    assert 0.0 < fisher["error_over_floor"] < 10.0
    assert set(found["chaotic"]) == {"fisher"} and (tmp_path / "speed.png").exists()
