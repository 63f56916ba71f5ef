"""Workloads in their quick form: the keys and the sense of their numbers, never their times.

`stream`, `scaling`, `rivals` and `pipeline` compile many learners: `rmcvi bench NAME --quick` tries
them.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from rmcvi.app import cli
from rmcvi.lab import bench

KEYS = {
    "gradient": {
        "speedup_over_full",
        "speedup_over_sampled",
        "variance_ratio",
        "relative_difference",
    },
    "weights": {"calibrated_over_plain"},
    "limit": {"ratio_20", "overhead_share_20", "operations_per_step_20"},
    "scaling": {"time_exponent_particles", "memory_exponent_parameters", "large_gigabytes"},
    "stream": {"run_over_scan_10", "update_over_scan_10", "late_over_early"},
    "rivals": {"speedups"},
    "fleet": {"throughput_1", "throughput_3", "gain_3"},
    "pipeline": {
        "cli_over_scan",
        "update_over_compute",
        "fleet_speedup_1",
        "fleet_speedup_8",
        "fleet_speedup_rmcvi",
    },
    "live": {"median_ms", "p99_ms", "rows_per_second", "processor_us_per_row"},
}
ALWAYS = {"name", "quick", "rows", "targets", "machine"}


def test_every_workload_is_listed(capsys: pytest.CaptureFixture) -> None:
    """With a sentence each; a wrong name is refused with the right ones."""
    assert set(KEYS) == set(bench.WORKLOADS)
    assert cli.main(["bench", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in KEYS)
    assert cli.main(["bench", "gradent"]) == 2
    assert "expected one of gradient, weights, limit" in capsys.readouterr().err


def test_pinned_to_some_cores_and_let_go_again() -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this system does not pin")
    before = os.sched_getaffinity(0)
    with bench.pinned(1):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def check(told: dict[str, Any], name: str) -> None:
    assert told.keys() >= KEYS[name] | ALWAYS
    assert told["quick"] is True and told["name"] == name
    assert told["machine"].keys() >= {"threads", "jax", "precision"}
    assert told["rows"] and told["targets"]
    times = [row["microseconds"] for row in told["rows"] if "microseconds" in row]
    assert all(time is None or (math.isfinite(time) and time > 0.0) for time in times)


@pytest.mark.long
def test_gradient_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """The table on the terminal, the numbers in the file; the window hardly truncates."""
    file = tmp_path / "gradient.json"
    assert cli.main(["bench", "gradient", "--quick", "--json", str(file)]) == 0
    told = json.loads(file.read_text())
    check(told, "gradient")
    assert told["relative_difference"] < 1e-3
    assert 0.0 < told["variance_ratio"] < 1.0
    shown = capsys.readouterr().out
    assert "windowed" in shown and "20 times faster" in shown


@pytest.mark.long
@pytest.mark.parametrize("name", ["limit", "fleet"])
def test_quick_forms(name: str) -> None:
    """Keys, rows and targets."""
    check(bench.WORKLOADS[name](quick=True).to_json(), name)
