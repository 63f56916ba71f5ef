"""`scaling`: time and memory against particles, dimension, parameters and window.

Exponents are slopes of straight lines through the logarithms of the upper half of each range, where
the leading term shows. Memory is what the compiled program says that it holds.
"""

from typing import Any

import numpy as np

from rmcvi.lab.bench.clock import take_turns
from rmcvi.lab.bench.outcome import Outcome, Target
from rmcvi.lab.bench.problem import Problem
from rmcvi.recursion import RMCVI

Case = dict[str, int]
USUAL: Case = {"particles": 100, "dim": 5, "hidden": 64, "window": 16}
RANGES = {
    "particles": (100, 200, 400, 800),
    "dim": (4, 8, 16),
    "hidden": (12, 119, 1190, 11900),
    "window": (8, 16, 32),
}
QUICK = {"particles": (10, 20), "dim": (2, 4), "hidden": (4, 8), "window": (2, 4)}
LARGE: Case = {"particles": 500, "dim": 5, "hidden": 11900, "window": 16}


def scaling(quick: bool = False) -> Outcome:
    """Fitted exponents, and a million parameters at N = 500."""
    rows, numbers = [], {}
    usual = USUAL | ({"particles": 20, "hidden": 4, "window": 4} if quick else {})
    for axis, values in (QUICK if quick else RANGES).items():
        found = [_measure(axis, usual | {axis: value}, quick) for value in values]
        rows += found
        x = [row["parameters" if axis == "hidden" else axis] for row in found]
        name = "parameters" if axis == "hidden" else axis
        numbers[f"time_exponent_{name}"] = _slope(x, [row["microseconds"] for row in found])
        numbers[f"memory_exponent_{name}"] = _slope(x, [row["megabytes"] for row in found])
    large = LARGE if not quick else usual
    found = _measure("large", large, quick)
    rows.append(found)
    per_pair = _beyond(found)
    numbers["large_parameters"] = found["parameters"]
    numbers["large_gigabytes"] = found["megabytes"] / 1e3
    numbers["large_bytes_per_particle_and_parameter"] = per_pair
    targets = [
        Target(
            f"no N x P term: {per_pair:.2f} bytes per particle and parameter, where 4 would be one",
            per_pair < 2.0,
        ),
        Target(
            f"{found['parameters']} parameters at N = {found['particles']} under 2 GB: "
            f"{found['megabytes'] / 1e3:.2f} GB",
            found["megabytes"] < 2000,
        ),
    ]
    return Outcome("scaling", "Time and memory of a learning step", numbers, rows, targets, quick)


def _measure(axis: str, case: Case, quick: bool) -> dict[str, Any]:
    steps = 2 if quick or case["hidden"] > 1000 else 8
    problem = Problem(steps, dim=case["dim"], hidden=case["hidden"])
    recursion = RMCVI(case["particles"], window=case["window"], bptt=4)
    program = problem.learning(recursion, steps, quick)
    timing = take_turns({"step": program}, 3 if quick else 5)["step"]
    return {
        "axis": axis,
        **case,
        "parameters": problem.parameters,
        **timing.to_json(),
        "megabytes": program.peak_bytes / 1e6,
    }


def _beyond(row: dict[str, Any]) -> float:
    """Bytes per particle and parameter, the optimiser's few copies of the parameters taken off."""
    copies = 10 * 4 * row["parameters"]
    return max(1e6 * row["megabytes"] - copies, 0.0) / (row["particles"] * row["parameters"])


def _slope(x: list[float], y: list[float]) -> float:
    half = max(2, (len(x) + 1) // 2)
    return float(np.polyfit(np.log(x[-half:]), np.log(y[-half:]), 1)[0])
