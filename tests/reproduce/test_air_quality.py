"""The air-quality experiment on a made-up year: the file itself is not ours to ship."""

from pathlib import Path

import numpy as np
import pytest

from rmcvi.app.sources.uci import AirQuality
from rmcvi.lab.reproduce import air_quality
from rmcvi.lab.reproduce import reproduce as run
from rmcvi.lab.reproduce.air_failures import _break
from rmcvi.lab.reproduce.runner import Progress


def made_up(rows: int = 900) -> AirQuality:
    rng = np.random.default_rng(0)
    time = 3600.0 * np.arange(rows)
    day = np.sin(2 * np.pi * np.arange(rows) / 24)[:, None] * rng.uniform(0.5, 2.0, 8)
    slow = np.zeros((rows, 8))
    for t in range(1, rows):
        slow[t] = 0.9 * slow[t - 1] + 0.3 * rng.normal(size=8)
    y = 10.0 + day + slow
    y[rng.random(y.shape) < 0.05] = np.nan
    y[:, 1] = np.where(rng.random(rows) < 0.9, np.nan, y[:, 1])
    return AirQuality(time, y, tuple(f"c{i}" for i in range(8)))


@pytest.mark.long
def test_a_made_up_year(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(air_quality, "air_quality", made_up)
    small = {"rows": 900, "placements": 2, "lengths": [6]}
    told = run("air-quality", tmp_path, quick=True, overrides=small, progress=Progress(quiet=True))
    assert set(told["rmse"]) == set(air_quality.METHODS)
    assert told["rmse"]["seasonal"] < told["rmse"]["persistence"]
    assert told["failures"]["errors"].shape == (1, 2, 4)
    assert (tmp_path / "cumulative.png").exists() and (tmp_path / "failures.png").exists()


def test_broken_sensors() -> None:
    rng, column = np.random.default_rng(0), np.arange(100.0)
    np.testing.assert_array_equal(_break(rng, column, 50, 3, "freeze"), [49.0] * 3)
    scale = column.std()
    np.testing.assert_allclose(
        np.abs(_break(rng, column, 50, 3, "spike") - column[50:53]), 10 * scale
    )
    drift = _break(rng, column, 50, 4, "drift") - column[50:54]
    np.testing.assert_allclose(drift, scale * np.arange(1.0, 5.0))
