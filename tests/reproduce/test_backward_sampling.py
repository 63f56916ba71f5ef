"""Backward expectations, quick form."""

import pytest

from rmcvi.lab.reproduce import reproduce
from rmcvi.lab.reproduce.runner import Progress

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("backward")
    result = reproduce("backward-sampling", folder, quick=True, progress=Progress(quiet=True))
    assert (folder / "backward.png").exists()
    return result


def test_drawn_indices_are_noisier_than_all_weights(told):
    errors = {row["method"]: row["error"][0] for row in told["sizes"]}
    assert errors["all weights"] < errors["M = 2"] < errors["M = 1"]
    assert errors["M = 5"] < errors["M = 2"]


def test_a_window_of_all_steps_is_the_forward_gradient(told):
    forward, whole = told["windows"]
    assert whole["truncation"] < 1e-9
    assert whole["error"][0] == pytest.approx(forward["error"][0], rel=1e-6)


def test_at_the_posterior_the_sampled_entropy_is_quieter(told):
    at = {r["entropy"]: r["error"][0] for r in told["entropy"] if r["family"] == "the posterior"}
    assert at["sampled"] < at["closed"]
