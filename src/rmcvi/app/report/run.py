"""A run directory as arrays: what was learned from, and what was told of each row.

`run.json` says what the run is, `estimates.jsonl` holds a flat object per row, `parameters.jsonl`
one per fifty. A last line without its end (the writer was stopped) is left out.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

PARTS = ("", ".mean", ".low", ".high", ".filled", ".failure")
"""What is told of a column, by the end of its name."""
_CHUNK = 4096
_STATE = re.compile(r"state\.(.+)\.(mean|std)")


@dataclass(frozen=True)
class Run:
    """Rows in order; NaN where nothing was told. Arrays are (rows, columns) or (rows,)."""

    about: dict[str, Any]
    columns: list[str]
    level: float
    row: np.ndarray
    time: np.ndarray | None
    """Seconds since 1970 (rows,), if every row has a time; they do not decrease."""
    zoned: bool
    """Whether the times said their zone; they are in UTC then."""
    value: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    filled: np.ndarray
    failure: np.ndarray
    log_score: np.ndarray
    elbo: np.ndarray
    ess: np.ndarray
    alarms: dict[str, list[int]]
    """Sentence to the indices of its rows."""
    state_names: list[str]
    state_mean: np.ndarray
    state_std: np.ndarray
    parameters: dict[str, tuple[np.ndarray, np.ndarray]]
    """Name to rows and values."""

    @property
    def rows(self) -> int:
        """How many rows were learned from."""
        return len(self.row)

    @property
    def units(self) -> dict[str, str]:
        """Units by column; empty if unknown, or if the column's name says it."""
        given = self.about.get("units") or {}
        told = {name: str(given.get(name) or "") for name in self.columns}
        return {name: "" if f"[{u}]" in name or f"({u})" in name else u for name, u in told.items()}

    @property
    def title(self) -> str:
        """The source without its folders."""
        source = str(self.about.get("source") or "")
        return "standard input" if source == "-" else Path(source).name or "A run"


def read(directory: Path) -> Run:
    """The run in a directory."""
    about = _about(directory / "run.json")
    columns = [str(name) for name in about["columns"]]
    names, times, alarms, table = _estimates(directory / "estimates.jsonl", columns)
    place = {name: i for i, name in enumerate(names)}

    def pick(wanted: list[str]) -> np.ndarray:
        places = [place.get(name, -1) for name in wanted]
        found = [table[:, i] if i >= 0 else np.full(len(table), np.nan) for i in places]
        return np.stack(found, 1) if found else np.empty((len(table), 0))

    value, mean, low, high, filled, failure = (
        pick([column + part for column in columns]) for part in PARTS
    )
    taken = {column + part for column in columns for part in PARTS}
    states = [m[1] for name in names if name not in taken and (m := _STATE.fullmatch(name))]
    states = list(dict.fromkeys(states))
    time, zoned = _clock(times)
    return Run(
        about=about,
        columns=columns,
        level=float(about.get("level") or 0.9),
        row=pick(["row"])[:, 0],
        time=time,
        zoned=zoned,
        value=value,
        mean=mean,
        low=low,
        high=high,
        filled=filled,
        failure=failure,
        log_score=pick(["log_score"])[:, 0],
        elbo=pick(["elbo"])[:, 0],
        ess=pick(["ess"])[:, 0],
        alarms=alarms,
        state_names=states,
        state_mean=pick([f"state.{name}.mean" for name in states]),
        state_std=pick([f"state.{name}.std" for name in states]),
        parameters=_parameters(directory / "parameters.jsonl"),
    )


def _about(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"directory: got {str(path.parent)!r}, expected one with a run.json")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{path}: got no JSON ({error}), expected what a run writes") from None
    if not isinstance(about, dict) or about.get("format") != 1 or not about.get("columns"):
        raise ValueError(f"{path}: got another format, expected format 1 with columns")
    return about


def _estimates(
    path: Path, columns: list[str]
) -> tuple[list[str], list[Any], dict[str, list[int]], np.ndarray]:
    names: list[str] = ["row", *columns]
    times: list[Any] = []
    alarms: dict[str, list[int]] = {}
    done: list[np.ndarray] = []
    chunk: list[list[Any]] = []
    for line, told in _objects(path):
        if not times:
            names = [name for name in told if name not in ("time", "alarms")]
        for sentence in dict.fromkeys(told.pop("alarms", None) or ()):
            alarms.setdefault(str(sentence), []).append(len(times))
        times.append(told.pop("time", None))
        if len(told) != len(names):
            raise ValueError(f"{path}, line {line}: got {len(told)} fields, expected {len(names)}")
        chunk.append([told.get(name) for name in names])
        if len(chunk) == _CHUNK:
            done.append(_numbers(path, line, chunk))
            chunk = []
    done.append(_numbers(path, len(times), chunk).reshape(len(chunk), len(names)))
    return names, times, alarms, np.concatenate(done)


def _numbers(path: Path, line: int, rows: list[list[Any]]) -> np.ndarray:
    try:
        return np.array(rows, float)
    except (TypeError, ValueError) as error:
        where = f"{path}, up to line {line}"
        raise ValueError(f"{where}: got {error}, expected numbers or null") from None


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                told = json.loads(text)
            except (RecursionError, ValueError):
                if not text.endswith(b"\n"):
                    return
                told = None
            if not isinstance(told, dict):
                shown = text[:40].decode("utf-8", "replace").strip()
                raise ValueError(f"{path}, line {line}: got {shown!r}, expected a JSON object")
            yield line, told


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
    for _, told in _objects(path):
        row = told.pop("row", None)
        for name, value in told.items():
            if isinstance(row, int | float) and isinstance(value, int | float):
                rows, values = found.setdefault(name, ([], []))
                rows.append(float(row))
                values.append(float(value))
    return {name: (np.array(rows), np.array(values)) for name, (rows, values) in found.items()}
