"""Faults planted into real hourly streams: which are noticed, how soon, and alarms without any.

    python benchmarks/planted.py DIR [STREAM ...]    DIR as `packaged.py` writes it

Every column is learned alone, by `Live` with the seasonal learner and the default sensitivity, up
to each of `PLACES`; a copy then meets `ROWS` rows with a fault that begins there. It is noticed if
an alarm begins while it lasts, or within `AFTER` rows of its end. Without a fault alarms are
counted from row `FIRST` on: whether something was wrong in these streams is not known.
"""

import copy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rmcvi import Live
from rmcvi.app.sources import read
from rmcvi.learners.seasonal import SeasonalLearner

STREAMS = """
bikesharing california-load electricity seattle-temps sf-temps sf-traffic solar-power
traffic-volume wind-power
"""
DAY, WEEK, MONTH = 24, 168, 720
FIRST, PLACES, ROWS, AFTER, PAUSE = 1000, (2007, 3514, 5021, 6535), 240, 12, 25
Fault = Callable[[np.ndarray, np.ndarray, float], tuple[np.ndarray, int]]
"""From the rows to come, those before and their deviation: broken rows, and the fault's length."""


def stuck(rows: np.ndarray, before: np.ndarray, spread: float) -> tuple[np.ndarray, int]:
    """Two days of the last value."""
    return np.where(np.arange(len(rows)) < 2 * DAY, before[-1], rows), 2 * DAY


def jump(rows: np.ndarray, before: np.ndarray, spread: float) -> tuple[np.ndarray, int]:
    """Three values five deviations away."""
    return rows + 5.0 * spread * (np.arange(len(rows)) < 3), 3


def drift(rows: np.ndarray, before: np.ndarray, spread: float) -> tuple[np.ndarray, int]:
    """By three deviations in a week."""
    return rows + 3.0 * spread * np.clip(np.arange(len(rows)) / WEEK, 0.0, 1.0), WEEK


def level(rows: np.ndarray, before: np.ndarray, spread: float) -> tuple[np.ndarray, int]:
    """Two deviations higher, for good."""
    return rows + 2.0 * spread, WEEK


def rhythm(rows: np.ndarray, before: np.ndarray, spread: float) -> tuple[np.ndarray, int]:
    """Half a day late, for good."""
    return np.concatenate([before[-DAY // 2 :], rows])[: len(rows)], WEEK


FAULTS: dict[str, Fault] = {f.__name__: f for f in (stuck, jump, drift, level, rhythm)}


def begins(alarms: list[tuple[str, ...]]) -> np.ndarray:
    """Rows at which an episode begins: alarms with pauses of at most `PAUSE` rows are one."""
    rows = np.flatnonzero([bool(row) for row in alarms])
    return rows[np.diff(rows, prepend=-PAUSE - 2) > PAUSE + 1]


def columns(directory: Path, names: list[str]) -> dict[str, np.ndarray]:
    """Of the streams, one by one, without gaps."""
    found = {}
    for name in names or STREAMS.split():
        stream = read(str(directory / f"{name}.csv"))
        y = np.array([row.y for row in stream])
        found |= {f"{name} {c}": v for c, v in zip(stream.schema.columns, y.T, strict=True)}
    return found


def main(directory: Path, names: list[str]) -> None:
    """Print a row for each column, then the totals."""
    print(f"| column | alarms a month | {' | '.join(FAULTS)} |\n|---|---|{'---|' * len(FAULTS)}")
    delays: dict[str, list[float]] = {kind: [] for kind in FAULTS}
    false, months = 0, 0.0
    learner = SeasonalLearner(1, period=DAY, long_period=WEEK)
    for name, y in columns(directory, names).items():
        live, met, alarms = Live(["y"], learner=learner), 0, []
        cells: dict[str, list[float]] = {kind: [] for kind in FAULTS}
        for place in (*(p for p in PLACES if p + ROWS <= len(y)), len(y)):
            alarms += live.learn_many(y[met:place, None]).alarms
            met = place
            if place == len(y):
                break
            for kind, fault in FAULTS.items():
                before, spread = y[:place], float(np.nanstd(y[:place]))
                broken, length = fault(y[place : place + ROWS], before, spread)
                told = copy.deepcopy(live).learn_many(broken[:, None]).alarms
                # An alarm that was on already is none of the fault's.
                since = begins([*alarms[-PAUSE - 1 :], *told]) - PAUSE - 1
                late = since[(since >= 0) & (since < length + AFTER)]
                cells[kind].append(float(late[0]) if len(late) else np.nan)
        own = begins(alarms)
        false, months = false + np.sum(own >= FIRST), months + (len(y) - FIRST) / MONTH
        shown = [f"{np.isfinite(cells[k]).sum()} of {len(cells[k])}" for k in FAULTS]
        rate = np.sum(own >= FIRST) / ((len(y) - FIRST) / MONTH)
        print(f"| {name} | {rate:.2f} | {' | '.join(shown)} |", flush=True)
        for kind in FAULTS:
            delays[kind] += cells[kind]
    shown = [f"{np.isfinite(v).mean():.0%}, {np.nanmedian(v):.0f} h" for v in delays.values()]
    print(f"| noticed, median delay | {false / months:.2f} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
