"""Run an experiment: its cells in turn, then `result.json`, the figures and one page.

Cells are kept on disk: done ones are read, not repeated.
"""

import contextlib
import datetime
import hashlib
import io
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

import rmcvi
from rmcvi.app import report
from rmcvi.core.files import replace, to_json
from rmcvi.lab.reproduce import registry
from rmcvi.lab.reproduce.experiment import Conclusion, Experiment, Workspace

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy")


def machine() -> dict[str, Any]:
    """Processor, threads, precision and versions."""
    return {
        "rmcvi": rmcvi.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": jax.devices()[0].platform,
        "precision": str(jnp.zeros(()).dtype),
        "flags": os.environ.get("XLA_FLAGS", ""),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _commit() -> str | None:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


class Progress:
    """A bar over the cells of an experiment; silent with `quiet`."""

    def __init__(self, quiet: bool = False):
        self.console = Console(stderr=True, quiet=quiet)
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )

    @contextlib.contextmanager
    def over(self, name: str, cells: int) -> Iterator[None]:
        """Show the bar while the cells are run."""
        self.name = name
        self.task = self.bar.add_task(name, total=cells)
        with self.bar:
            yield

    def begin(self, cell: str) -> None:
        """A cell is being worked on."""
        self.bar.update(self.task, description=f"{self.name}: {cell}")

    def done(self) -> None:
        """A cell is finished."""
        self.bar.advance(self.task)

    def say(self, text: str) -> None:
        """A line of its own above the bar."""
        self.console.print(text, style="dim", highlight=False)


def fingerprint(settings: Mapping[str, Any], version: str) -> str:
    """Changes whenever the settings or the version do."""
    text = json.dumps([settings, version], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Store:
    """One folder per fingerprint, one file per cell."""

    def __init__(self, root: Path, mark: str):
        self.root = root / mark
        self.root.mkdir(parents=True, exist_ok=True)

    def scratch(self, cell: str) -> Path:
        """A folder in which the cell may keep what must survive an interruption."""
        path = self.root / f"{cell}.part"
        path.mkdir(exist_ok=True)
        return path

    def read(self, cell: str) -> dict[str, np.ndarray] | None:
        """What the cell found, or None if it is not done."""
        path = self._path(cell)
        if not path.exists():
            return None
        with np.load(path) as kept:
            return {name: kept[name] for name in kept.files}

    def write(self, cell: str, found: Mapping[str, Any]) -> None:
        """Keep it, all or nothing."""
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer, allow_pickle=False, **{k: np.asarray(v) for k, v in found.items()}
        )
        replace(self._path(cell), buffer.getvalue())

    def _path(self, cell: str) -> Path:
        return self.root / f"{cell}.npz"


def reproduce(
    name: str,
    out: Path,
    *,
    quick: bool = False,
    overrides: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run (or finish) the experiment in the folder `out`; returns what `result.json` holds.

    Cells that an earlier run finished with the same settings and version are not repeated.
    """
    experiment = registry.find(name)
    settings = registry.settings(name, quick) | dict(overrides or {})
    out = Path(out)
    store = Store(out / "cells", fingerprint(settings, rmcvi.__version__))
    progress = progress or Progress()
    cells = experiment.cells(settings)
    found, seconds = {}, {}
    with progress.over(name, len(cells)):
        for cell, work in cells.items():
            kept = store.read(cell)
            if kept is None:
                progress.begin(cell)
                begun = time.perf_counter()
                arrays = dict(work(Workspace(store.scratch(cell), progress.say)))
                arrays["cell_seconds"] = time.perf_counter() - begun
                store.write(cell, arrays)
                jax.clear_caches()  # some dozens of programs, and LLVM has no room for more
                kept = store.read(cell)
                assert kept is not None
            seconds[cell] = float(kept.pop("cell_seconds"))
            found[cell] = kept
            progress.done()
    with report.style():
        conclusion = experiment.conclude(settings, found)
    result = {
        "experiment": name,
        "quick": quick,
        **conclusion.numbers,
        "remarks": conclusion.remarks,
        "settings": settings,
        "seconds": seconds,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
    }
    replace(out / "result.json", to_json(_plain(result), indent=1).encode())
    _publish(experiment, conclusion, result, out)
    return result


def _publish(
    experiment: Experiment, conclusion: Conclusion, result: Mapping[str, Any], out: Path
) -> None:
    pictures = []
    for drawing in conclusion.drawings:
        report.save(drawing.figure, out / drawing.name)
        pictures.append(report.Picture(drawing.figure, drawing.alt, drawing.caption))
    form = "Quick form: smoke, not evidence. " if result["quick"] else ""
    made = f"{form}rmcvi {result['machine']['rmcvi']}, {result['machine']['processor']}, "
    made += f"{sum(result['seconds'].values()):.0f} seconds of work, {result['finished']}."
    sections = [
        report.Section("What was found", [*conclusion.remarks, *conclusion.tables, *pictures]),
        report.Section("Settings", [_listed(result["settings"]), made]),
    ]
    report.page(experiment.title, sections, out / "report.html")


def _listed(settings: Mapping[str, Any]) -> report.Table:
    return report.Table(["setting", "value"], [[k, str(v)] for k, v in settings.items()])


def _plain(value: Any) -> Any:
    """Numbers, lists and dicts in place of arrays."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
