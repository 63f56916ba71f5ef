"""Run directories as `rmcvi learn` writes them, made up: gaps, a failing sensor, alarms."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from rmcvi.app.run.estimates import Run

DRIFT = "The level of the predictive score has changed: so has the world, or a sensor."
SENSOR = "A coordinate behaves as no healthy sensor would under this model."
NAMES = ["co", "nox", "temperature", "humidity", "ozone", "benzene", "wind", "pressure"]
UNITS = ["mg/m³", "ppb", "°C", "%", "ppb", "µg/m³", "m/s", "hPa"]


def make(
    directory: Path,
    *,
    rows: int = 600,
    columns: list[str] | int = 3,
    time: bool = True,
    inside: bool = True,
    missing: str = "some",
    seed: int = 0,
) -> Path:
    """A run of a level that wanders daily; `inside` adds states, parameters, ELBO and ESS."""
    names = NAMES[:columns] if isinstance(columns, int) else columns
    rng = np.random.default_rng(seed)
    value, mean, half = _stream(rng, rows, len(names))
    gone = _gaps(rng, rows, len(names), missing)
    seen = np.where(gone, np.nan, value)
    failure = np.clip(rng.beta(1, 12, seen.shape), 0, 1)
    broken = slice(int(0.6 * rows), int(0.72 * rows))
    if rows > 100 and missing == "some":
        seen[broken, -1] = seen[broken.start, -1] + 4.0
        failure[broken, -1] = np.linspace(0.1, 0.98, broken.stop - broken.start)
    directory.mkdir(parents=True, exist_ok=True)
    about = _about(names, rows, time)
    (directory / "run.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
    elbo = -1.2 - 4.0 / np.sqrt(np.arange(1, rows + 1)) + rng.normal(size=rows) * 0.01
    ess = np.clip(60 + 12 * rng.normal(size=rows), 2, 100)
    state = np.stack([mean[:, 0], np.gradient(mean[:, 0])], 1) if rows > 1 else mean[:, :1]
    with (directory / "estimates.jsonl").open("w", encoding="utf-8") as file:
        for i in range(rows):
            told: dict[str, Any] = {"row": i + 1, "time": _time(i) if time else i + 1}
            told |= {"log_score": _number(-0.5 * np.nansum(((seen - mean) / half)[i] ** 2))}
            told |= {"elbo": _number(elbo[i]) if inside else None}
            told |= {"ess": _number(ess[i]) if inside else None, "alarms": _alarms(i, rows)}
            for k, name in enumerate(names):
                known = i > 0
                told[name] = _number(seen[i, k])
                told[f"{name}.mean"] = _number(mean[i, k]) if known else None
                told[f"{name}.low"] = _number(mean[i, k] - half[i, k]) if known else None
                told[f"{name}.high"] = _number(mean[i, k] + half[i, k]) if known else None
                filled = mean[i, k] + 0.1 * half[i, k]
                told[f"{name}.filled"] = _number(filled) if np.isnan(seen[i, k]) else None
                told[f"{name}.failure"] = _number(failure[i, k]) if i > 50 else None
            if inside:
                for j in range(state.shape[1]):
                    told |= {f"state.{j}.mean": _number(state[i, j]), f"state.{j}.std": 0.3}
            file.write(json.dumps(told) + "\n")
    with (directory / "parameters.jsonl").open("w", encoding="utf-8") as file:
        for row in range(50, rows + 1, 50) if inside else ():
            settled = float(np.exp(-row / (0.2 * rows)))
            told = {"row": row, "rho": 0.025 * (1 + settled), "gamma": 2.5 - settled}
            file.write(json.dumps(told) + "\n")
    return directory


def arrays(rows: int, columns: int, seed: int = 0) -> Run:
    """A large run in memory, without its files."""
    rng = np.random.default_rng(seed)
    value, mean, half = _stream(rng, rows, columns)
    gone = _gaps(rng, rows, columns, "some")
    return Run(
        about=_about(NAMES[:columns], rows, True),
        columns=NAMES[:columns],
        level=0.9,
        row=np.arange(1.0, rows + 1),
        time=1.7e9 + 3600.0 * np.arange(rows),
        zoned=False,
        value=np.where(gone, np.nan, value),
        mean=mean,
        low=mean - half,
        high=mean + half,
        filled=np.where(gone, mean, np.nan),
        failure=rng.beta(1, 12, value.shape),
        anomaly=rng.beta(1, 12, value.shape),
        log_score=rng.normal(size=rows),
        elbo=rng.normal(size=rows),
        ess=rng.uniform(1, 100, size=rows),
        alarms={DRIFT: list(range(rows // 2, rows // 2 + 9))},
        state_names=["0", "1"],
        state_mean=mean[:, :2],
        state_std=half[:, :2],
        parameters={"rho": (np.arange(50.0, rows, 50.0), np.ones(len(range(50, rows, 50))))},
    )


def _stream(rng: Any, rows: int, columns: int) -> tuple[np.ndarray, ...]:
    hours = np.arange(rows)[:, None]
    phase = rng.uniform(0, 6, (1, columns))
    scale = 10.0 ** rng.uniform(0, 2, (1, columns))
    slow = np.cumsum(rng.normal(size=(rows, columns)) * 0.08, 0)
    level = 5 + np.sin(2 * np.pi * hours / 24 + phase) + 0.8 * np.tanh(slow)
    noise = 0.25 * rng.standard_t(5, (rows, columns)) / 1.29
    half = 1.645 * 0.25 * (1 + 3 * np.exp(-hours / 30)) * np.ones((1, columns))
    return scale * (level + noise), scale * level, scale * half


def _gaps(rng: Any, rows: int, columns: int, missing: str) -> np.ndarray:
    gone = np.full((rows, columns), missing == "all")
    if missing == "some":
        gone |= rng.uniform(size=gone.shape) < 0.03
        gone[int(0.3 * rows) : int(0.36 * rows), 0] = True
        gone[int(0.5 * rows) : int(0.51 * rows)] = True
    return gone


def _alarms(i: int, rows: int) -> list[str]:
    told = [DRIFT] if int(0.4 * rows) <= i < int(0.4 * rows) + 5 and rows > 100 else []
    return told + ([SENSOR] if 0.65 * rows <= i < 0.72 * rows and rows > 100 else [])


def _time(i: int) -> str:
    return (datetime(2024, 3, 10, 18) + timedelta(hours=i)).isoformat()


def _number(value: Any) -> float | None:
    return round(float(value), 4) if np.isfinite(value) else None


def _about(names: list[str], rows: int, time: bool) -> dict[str, Any]:
    return {
        "format": 1,
        "version": "0.1.0",
        "source": "station-17.csv",
        "seed": 0,
        "columns": names,
        "inputs": ["hour"],
        "level": 0.9,
        "learner": {"name": "OnlineEstimator", "settings": {"num_particles": 100, "window": 16}},
        "assumed": ["The delimiter is ';'.", "-200 means missing.", "Rows are one hour apart."],
        "units": dict(zip(names, UNITS, strict=False)),
        "time_column": "time" if time else None,
        "step_seconds": 3600.0 if time else None,
        "started": "2026-11-16T03:00:00+00:00",
        "options": {"on_bad_row": "error"},
    }
