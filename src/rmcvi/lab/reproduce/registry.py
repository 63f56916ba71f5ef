"""Which experiments there are, and where their settings lie."""

import importlib
import tomllib
from pathlib import Path
from typing import Any

from rmcvi.core.checks import check_option
from rmcvi.lab.reproduce.experiment import Experiment

MODULES = {
    "air-quality": "air_quality",
    "backward-sampling": "backward_sampling",
    "chaotic-offline": "chaotic_offline",
    "chaotic-streaming": "chaotic_streaming",
    "chaotic-table1": "chaotic_table",
    "forgetting": "forgetting",
    "linear-gaussian-oracle": "linear_oracle",
    "linear-gaussian-parameters": "linear_parameters",
    "linear-gaussian-streaming": "linear_streaming",
    "other-streams": "other_streams",
}


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
