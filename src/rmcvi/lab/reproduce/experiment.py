"""What an experiment is: cells that can be run one by one, and a conclusion drawn from all.

A cell is a seeded piece of work that returns numbers and arrays; it is kept on disk when done, so
that an interrupted run goes on where it stopped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rmcvi.app.report import Table

Settings = Mapping[str, Any]
"""The experiment's `config.toml`: its common part, with that of the form asked for on top."""
Arrays = Mapping[str, np.ndarray | float]


@dataclass(frozen=True)
class Workspace:
    """What a cell may use: a folder that survives an interruption, and lines of progress."""

    scratch: Path
    say: Callable[[str], None]


Cell = Callable[[Workspace], Arrays]


@dataclass(frozen=True)
class Drawing:
    """A figure with its name in the file system, and what it shows."""

    name: str
    figure: Figure
    alt: str
    caption: str


@dataclass(frozen=True)
class Conclusion:
    """What all cells together say."""

    numbers: Mapping[str, Any]
    """Top-level keys of `result.json`."""
    tables: list[Table] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """Sentences for the page and the terminal."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    title: str
    cells: Callable[[Settings], Mapping[str, Cell]]
    conclude: Callable[[Settings, Mapping[str, Arrays]], Conclusion]
