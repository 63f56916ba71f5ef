"""Quick forms of the chaotic experiments."""

from pathlib import Path
from typing import Any

import pytest

from rmcvi.lab.reproduce import reproduce
from rmcvi.lab.reproduce.chaotic_table import equal_accuracy
from rmcvi.lab.reproduce.runner import Progress


@pytest.mark.long
def test_table(tmp_path: Path) -> None:
    small = {"length": 30, "timed": 5, "rounds": 2, "floor_particles": 1000}
    told = reproduce(
        "chaotic-table1", tmp_path, quick=True, overrides=small, progress=Progress(True)
    )
    assert {"compute_ratio_at_equal_accuracy", "rows", "floor", "raw"} <= set(told)
    for row in told["rows"]:
        assert row["filter"][0] < 0.8 * told["raw"]
        assert abs(row["filter_over_floor"][0]) < 0.25
    assert (tmp_path / "frontier.png").exists()


@pytest.mark.long
def test_stream(tmp_path: Path) -> None:
    told = reproduce("chaotic-streaming", tmp_path, quick=True, progress=Progress(quiet=True))
    assert {"filter_over_floor", "smooth_over_floor", "parameter_error"} <= set(told)
    assert abs(told["filter_over_floor"]) < 0.25
    assert told["methods"]["natural"]["gamma"] > 1.6  # from 1.5 towards 2.5
    assert {p.name for p in tmp_path.glob("*.png")} == {"learning.png", "held-out.png"}


def row(kind: str, over: float, cost: float) -> dict[str, Any]:
    errors = {"filter_over_floor": (over, 0.0), "one_step_over_floor": (over, 0.0)}
    return errors | {"kind": kind, "ms_per_observation": cost}


def test_equal_accuracy_lets_both_sides_save() -> None:
    rivals = [row("regression", 0.002, 10.0), row("regression", 0.009, 4.0)]
    coarse = row("regression", 0.05, 1.0)
    ours = [row("natural", 0.011, 0.5), row("natural", 0.02, 0.1), row("gradient", 0.0, 2.0)]
    rival, best = equal_accuracy([*rivals, coarse, *ours])
    assert (rival["ms_per_observation"], best and best["ms_per_observation"]) == (4.0, 0.5)
    assert equal_accuracy([*rivals, ours[1]])[1] is None
