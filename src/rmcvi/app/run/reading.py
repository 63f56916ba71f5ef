"""A run directory as arrays: what was learned from, and what was estimated at each row.

`run.json` says what the run is, `estimates.jsonl` holds a flat object per row, `parameters.jsonl`
one per fifty. A last line without its end (the writer was stopped) is left out.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rmcvi.app.run.directory import ESTIMATES, PARAMETERS, read_about
from rmcvi.app.run.estimates import FIELDS, TEXTS, TIME, Field, Run, field_names, state_names
from rmcvi.app.run.speech import Refusal

_CHUNK = 4096
"""Rows that are turned into an array at a time: numbers as Python objects take five times more."""


def read(directory: Path) -> Run:
    """The run in a directory."""
    about = read_about(directory)
    columns = [str(name) for name in about["columns"]]
    names, times, alarms, table = _estimates(directory / ESTIMATES, columns)
    place = {name: i for i, name in enumerate(names)}
    states = state_names(names, columns)

    def array(field: Field) -> np.ndarray:
        repeated = {"column": columns, "state": states}.get(field.per, [""])
        wanted = [field.name.replace(f"{{{field.per}}}", name) for name in repeated]
        found = np.full((len(table), len(wanted)), np.nan)
        for i, name in enumerate(wanted):
            if name in place:
                found[:, i] = table[:, place[name]]
        return found[:, 0] if field.per == "row" else found

    time, zoned = _clock(times)
    return Run(
        about=about,
        columns=columns,
        level=float(about.get("level") or 0.9),
        zoned=zoned,
        state_names=states,
        parameters=_parameters(directory / PARAMETERS),
        time=time,
        alarms=alarms,
        **{f.attribute: array(f) for f in FIELDS if f.kind not in (TIME, TEXTS)},
    )


def _estimates(
    path: Path, columns: list[str]
) -> tuple[list[str], list[Any], dict[str, list[int]], np.ndarray]:
    """Names of the numbers, times, alarms by sentence, and the numbers (rows, names)."""
    names: list[str] = field_names(columns, ())[:1]
    times: list[Any] = []
    alarms: dict[str, list[int]] = {}
    done: list[np.ndarray] = []
    chunk: list[list[Any]] = []
    for number, line in objects(path):
        if not times:
            names = [name for name in line if name not in ("time", "alarms")]
        for sentence in dict.fromkeys(line.pop("alarms", None) or ()):
            alarms.setdefault(str(sentence), []).append(len(times))
        times.append(line.pop("time", None))
        if len(line) != len(names):
            raise Refusal(f"{path}, line {number}: got {len(line)} fields, expected {len(names)}")
        chunk.append([line.get(name) for name in names])
        if len(chunk) == _CHUNK:
            done.append(_numbers(path, number, chunk))
            chunk = []
    done.append(_numbers(path, len(times), chunk).reshape(len(chunk), len(names)))
    return names, times, alarms, np.concatenate(done)


def _numbers(path: Path, line: int, rows: list[list[Any]]) -> np.ndarray:
    try:
        return np.array(rows, float)
    except (TypeError, ValueError) as error:
        where = f"{path}, up to line {line}"
        raise Refusal(f"{where}: got {error}, expected numbers or null") from None


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of a file that grows, from 1, each an object; half a line at its end is none."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
            except (RecursionError, ValueError):
                if not text.endswith(b"\n"):
                    return
                line = None
            if not isinstance(line, dict):
                shown = text[:40].decode("utf-8", "replace").strip()
                raise Refusal(f"{path}, line {number}: got {shown!r}, expected a JSON object")
            yield number, line


def _clock(times: list[Any]) -> tuple[np.ndarray | None, bool]:
    """Seconds, if all times are ISO strings that do not go back."""
    try:
        moments = [datetime.fromisoformat(time) for time in times]
    except (TypeError, ValueError):
        return None, False
    zoned = bool(moments) and moments[0].tzinfo is not None
    placed = (m if m.tzinfo else m.replace(tzinfo=UTC) for m in moments)
    seconds = np.array([m.timestamp() for m in placed], float)
    if len(seconds) < 2 or np.any(np.diff(seconds) < 0.0) or seconds[0] == seconds[-1]:
        return None, False
    return seconds, zoned


def _parameters(path: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found: dict[str, tuple[list[float], list[float]]] = {}
    for _, line in objects(path):
        row = line.pop("row", None)
        for name, value in line.items():
            if isinstance(row, int | float) and isinstance(value, int | float):
                rows, values = found.setdefault(name, ([], []))
                rows.append(float(row))
                values.append(float(value))
    return {name: (np.array(rows), np.array(values)) for name, (rows, values) in found.items()}
