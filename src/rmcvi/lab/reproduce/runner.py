"""Run an experiment: its cells in turn, then `result.json`, the figures and one page."""

import datetime
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import rmcvi
from rmcvi.app import report
from rmcvi.core.files import replace, to_json
from rmcvi.lab.reproduce import registry
from rmcvi.lab.reproduce.experiment import Conclusion, Experiment, Workspace
from rmcvi.lab.reproduce.machine import machine
from rmcvi.lab.reproduce.progress import Progress
from rmcvi.lab.reproduce.store import Store, fingerprint


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
