"""Which experiments there are, where their settings lie, and whether a run found what we expect.

In `expected.json` a list of two numbers is a mean with its standard error (null if there was one
run), and a table `X_error` beside `X` holds the standard errors of `X`. What was measured with an
error must agree within it, anything else within a small tolerance. Times belong to a machine and
are not compared; ratios of times are, loosely.
"""

import importlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rmcvi.core.checks import check_option
from rmcvi.lab.reproduce.experiment import Experiment

MODULES = {
    "air-quality": "air_quality",
    "backward-sampling": "backward_sampling",
    "chaotic-offline": "chaotic_offline",
    "chaotic-streaming": "chaotic_streaming",
    "chaotic-table1": "chaotic_table",
    "emissions": "emissions",
    "failures": "failures",
    "forgetting": "forgetting",
    "learning-speed": "learning_speed",
    "linear-gaussian-oracle": "linear_oracle",
    "linear-gaussian-parameters": "linear_parameters",
    "linear-gaussian-streaming": "linear_streaming",
    "other-streams": "other_streams",
    "zoo": "zoo",
}
STANDARD_ERRORS = 3.0
"""Of the difference of two runs: one honest number in 400 lies further out."""
RELATIVE, ABSOLUTE = 0.05, 0.002
"""Without a standard error: seeds are fixed, but compilers round differently and some of the
streams are chaotic. What the READMEs claim is coarser than this."""
ROUNDED = 1e-3
"""Expected numbers are kept to four digits or more."""
CHAOTIC = {"log_score.lstm": 0.02, "log_score.ovsmc": 0.2}
"""Log scores of the air-quality year that rounding decides: a change of the data by a millionth
moves them by a third of this (.006 and .06)."""
FACTOR = 2.0
"""Ratios of times differ by about half between runs on a shared machine (benchmarks/README.md)."""
RATIOS = frozenset(
    {
        "compute_ratio_at_equal_accuracy",
        "compute_ratio_at_rivals_error",
        "cost_over_ovsmc",
        "cost_over_rls",
        "relative_time",
        "time_ratio",
    }
)
TIMES = frozenset(
    {
        "microseconds",
        "ms_per_gradient",
        "ms_per_observation",
        "ms_per_step",
        "rival",  # these two are chosen by their times
        "ours",
    }
)


def names() -> list[str]:
    """Every experiment that is here."""
    here = Path(__file__).parent
    return [name for name, module in MODULES.items() if (here / f"{module}.py").exists()]


def find(name: str) -> Experiment:
    """One experiment by its name."""
    check_option("experiment", name, names())
    return importlib.import_module(f"rmcvi.lab.reproduce.{MODULES[name]}").EXPERIMENT


def folder(name: str) -> Path:
    """Its settings and expected numbers: inside the package, or beside it in a clone."""
    inside = Path(__file__).parent / "experiments" / name
    return inside if inside.exists() else Path(__file__).parents[4] / "experiments" / name


def settings(name: str, quick: bool) -> dict[str, Any]:
    """`config.toml`: the common part, overridden by [quick] or [full]."""
    kept = tomllib.loads((folder(name) / "config.toml").read_text())
    forms = {form: kept.pop(form, {}) for form in ("quick", "full")}
    return kept | forms["quick" if quick else "full"]


def differences(name: str, result: Mapping[str, Any]) -> list[str]:
    """Sentences about what differs in the `result.json` of an experiment; none if all agrees."""
    kept = json.loads((folder(name) / "expected.json").read_text())
    return list(_differences(kept, result, "", ""))


def _differences(want: Any, got: Any, where: str, key: str) -> Iterator[str]:
    """Of one entry, `where` in the file, under its nearest `key`."""
    if key in TIMES:
        return
    if isinstance(want, Mapping) and isinstance(got, Mapping):
        for name in want:
            place = f"{where}.{name}" if where else name
            if name not in got:
                yield f"{place}: missing"
            elif not name.endswith("_error"):
                yield from _differences(_entry(want, name), _entry(got, name), place, name)
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        if len(want) == 2 and _is_number(want[0]) and _is_number(got[0]):
            yield from _apart(want, got, where, key)
            return
        for i, (a, b) in enumerate(zip(want, got, strict=True)):
            yield from _differences(a, b, f"{where}[{i}]", key)
    elif _is_number(want) and _is_number(got):
        yield from _apart([want, None], [got, None], where, key)
    elif want != got:
        yield f"{where}: got {got!r}, expected {want!r}"


def _entry(table: Mapping[str, Any], name: str) -> Any:
    """What stands under a name, with its standard errors if they stand beside it."""
    errors = table.get(f"{name}_error")
    if errors is None:
        return table[name]
    return {key: [value, errors[key]] for key, value in table[name].items()}


def _apart(want: list[Any], got: list[Any], where: str, key: str) -> Iterator[str]:
    """A sentence if two values with their standard errors do not agree."""
    a, b = float(want[0]), float(got[0])
    if key in RATIOS:
        if not 1.0 / FACTOR < b / a < FACTOR:
            yield f"{where}: got {b:.4g}, expected {a:.4g} within a factor of {FACTOR:.0f}"
        return
    if want[1] is None or got[1] is None:
        allowed = max(RELATIVE * abs(a), ABSOLUTE, CHAOTIC.get(where, 0.0))
    else:
        allowed = STANDARD_ERRORS * float(np.hypot(want[1], got[1])) + ROUNDED * abs(a)
    if not abs(a - b) <= allowed:
        yield f"{where}: got {b:.4g}, expected {a:.4g} within {allowed:.2g}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
