"""`summary.json`: kept if it is of this run as it stands, else written anew."""

import json
import os
from pathlib import Path
from typing import Any

from rmcvi.report._run import Run, read
from rmcvi.report._scores import Scores, score
from rmcvi.report._scores import summarise as numbers

NAME = "summary.json"


def summarise(directory: str | os.PathLike[str], *, seconds: float | None = None) -> dict[str, Any]:
    """Write `summary.json` from the estimates, whatever was there; `seconds` is the run's time."""
    run = read(Path(directory))
    summary = numbers(run, score(run), seconds)
    replace(Path(directory) / NAME, json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    return summary


def refresh(directory: Path, run: Run, scores: Scores) -> dict[str, Any]:
    """The summary, written if it was missing, unreadable or of fewer or more rows."""
    path = directory / NAME
    kept = _kept(path)
    if kept.get("rows") == run.rows and isinstance(kept.get("overall"), dict):
        return kept
    summary = numbers(run, scores)
    replace(path, json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    return summary


def replace(path: Path, text: str) -> None:
    """Write all of a file or nothing."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _kept(path: Path) -> dict[str, Any]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}
