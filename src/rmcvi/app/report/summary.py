"""`summary.json`: kept if it is of this run as it stands, else written anew."""

import json
import os
from pathlib import Path
from typing import Any

from rmcvi.app.report.scores import Scores, score
from rmcvi.app.report.scores import summarise as numbers
from rmcvi.app.run.estimates import Run
from rmcvi.app.run.reading import read
from rmcvi.core.files import replace, to_json

NAME = "summary.json"


def summarise(directory: str | os.PathLike[str], *, seconds: float | None = None) -> dict[str, Any]:
    """Write `summary.json` from the estimates, whatever was there; `seconds` is the run's time."""
    run = read(Path(directory))
    summary = numbers(run, score(run), seconds)
    _write(Path(directory) / NAME, summary)
    return summary


def refresh(directory: Path, run: Run, scores: Scores) -> dict[str, Any]:
    """The summary, written if it was missing, unreadable or of fewer or more rows."""
    path = directory / NAME
    kept = _kept(path)
    if kept.get("rows") == run.rows and isinstance(kept.get("overall"), dict):
        return kept
    summary = numbers(run, scores)
    _write(path, summary)
    return summary


def _write(path: Path, summary: dict[str, Any]) -> None:
    replace(path, f"{to_json(summary, indent=1, ensure_ascii=False)}\n".encode("utf-8", "replace"))


def _kept(path: Path) -> dict[str, Any]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}
