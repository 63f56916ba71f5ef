"""The rivals pass the suite that users run on their own work."""

from typing import Any

import pytest

import rmcvi
from rmcvi import baselines, checks
from tests.checks._small import small_model


@pytest.mark.parametrize(
    "learner",
    [baselines.Persistence(2), baselines.RecursiveLeastSquares(2, lags=(1,))],
    ids=["persistence", "least squares"],
)
def test_learners_conform(learner: rmcvi.AbstractLearner) -> None:
    """Nothing is peeked at, nothing grows, nothing breaks."""
    report = checks.learner(learner)
    assert report.ok, str(report)


@pytest.mark.parametrize(
    "recursion",
    [
        pytest.param(baselines.KalmanRecursion(), id="kalman"),
        pytest.param(baselines.LocalKalmanRecursion(1), id="local", marks=pytest.mark.long),
        pytest.param(
            baselines.ParticleRecursion(16, gradient=True), id="particles", marks=pytest.mark.long
        ),
    ],
)
def test_recursions_conform(recursion: Any) -> None:
    """With no family at all."""
    report = checks.recursion(recursion, small_model(), None)
    assert report.ok, str(report)
