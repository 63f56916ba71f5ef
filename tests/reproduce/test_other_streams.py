"""The default learner elsewhere, quick form: no file is needed, and every method is scored."""

import pytest

from rmcvi.lab.reproduce import reproduce
from rmcvi.lab.reproduce.other_streams import METHODS
from rmcvi.lab.reproduce.runner import Progress


@pytest.mark.long
def test_simulated_streams(tmp_path):
    told = reproduce("other-streams", tmp_path, quick=True, progress=Progress(quiet=True))
    assert (tmp_path / "streams.png").exists()
    for stream in ("seasons", "walks"):
        assert set(told[stream]["rmse"]) == set(METHODS)
        assert 0.85 < told[stream]["coverage"]["seasonal"] < 0.98
    seasons, walks = told["seasons"]["rmse"], told["walks"]["rmse"]
    assert seasons["seasonal"] < 0.8 * seasons["persistence"]
    # Nothing beats the last value of a random walk by more than its noise.
    spread = told["walks"]["rmse_error"]["persistence"]
    assert walks["persistence"] - 3 * spread < walks["seasonal"] < 1.1 * walks["persistence"]
    # A week ahead of a daily rhythm, from a short stream: no worse than the day before.
    week = told["seasons"]["ahead"]["168"]
    assert week["values"] > 20
    spread = week["rmse_error"]["seasonal"]
    assert week["rmse"]["seasonal"] < week["rmse"]["persistence"] + 2 * spread
    assert set(told["walks"]["ahead"]) == {"1", "6", "24", "48", "168"}
