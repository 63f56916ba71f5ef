"""`pipeline`: what a row costs from file to file, beside the learner's own work.

`rmcvi learn` with its defaults reads a file of 8 columns and writes its run, in this process and
after a short run has compiled everything; `scan` is the same learner (in double precision, as it is
there) over the same rows as one array. `update` and fleets are measured with the same learner.
River's linear regressions, one per column with the lags of ours, have the rows as one array, too.
"""

import importlib
import importlib.util
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from rmcvi.app.cli import main
from rmcvi.app.cli.simulate import rhythm, table
from rmcvi.app.run.directory import SUMMARY, Directory
from rmcvi.lab.bench.measure import Outcome, Target, Timing, take_turns
from rmcvi.lab.bench.stream_bench import fleet_program
from rmcvi.lab.bench.stream_bench import learner as particle_learner
from rmcvi.learners import SeasonalLearner, scan
from rmcvi.scale import Fleet

SEASON = (24, 168)
LAGS, OWN = (1, 2), (3, 23, 24, 25)
"""Lags of all columns, and of a column itself: those of the default learner."""
STREAMS = 100


class Turns:
    """Work that is done again and again, on the clock."""

    def __init__(self, work: Callable[[], Any], units: int):
        self.work, self.units = work, units
        began = time.perf_counter()
        jax.block_until_ready(work())
        self.compile_seconds = time.perf_counter() - began

    def run(self) -> tuple[float, float]:
        """Seconds per unit: by the clock, and of the processor."""
        began, busy = time.perf_counter(), time.process_time()
        jax.block_until_ready(self.work())
        ended, idle = time.perf_counter(), time.process_time()
        return (ended - began) / self.units, (idle - busy) / self.units


def pipeline(quick: bool = False) -> Outcome:
    """A row from file to file, one by one, and of many streams, over the learner's own scan."""
    length, columns, rounds = (120, 2, 1) if quick else (20_000, 8, 3)
    rows: list[dict[str, Any]] = []
    numbers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        numbers |= _end_to_end(Path(folder), length, columns, rounds, rows)
    numbers |= _updates(columns, 40 if quick else 400, 1 if quick else 5, rows)
    for width in (1, columns):
        numbers |= _fleet(width, 3 if quick else STREAMS, 1 if quick else 5, rows)
    if columns != 8:
        numbers["fleet_speedup_8"] = numbers[f"fleet_speedup_{columns}"]
    numbers |= _particles(3 if quick else STREAMS, quick, rows)
    return Outcome("pipeline", "A row from file to file", numbers, rows, _targets(numbers), quick)


def _targets(found: dict[str, Any]) -> list[Target]:
    asked = [
        ("cli_over_scan", "end to end within 2 times of scan", lambda v: v <= 2.0),
        ("update_over_compute", "update within 3 times of computing", lambda v: v <= 3.0),
        ("fleet_speedup_1", "100 streams of 1 column: 5 times one", lambda v: v >= 5.0),
        ("fleet_speedup_8", "100 streams of 8 columns: 2 times one", lambda v: v >= 2.0),
        ("fleet_speedup_rmcvi", "100 streams of RMCVI, N = 20: 8 times one", lambda v: v >= 8.0),
        ("memory_growth_mb", "peak memory grows by less than 20 MB", lambda v: v < 20.0),
    ]
    targets = []
    if "river_over_cli" in found:
        asked.append(("river_over_cli", "River takes longer per row", lambda v: v > 1.0))
        better = f"RMSE below River's: {found['rmse']:.3g}, {found['river_rmse']:.3g}"
        targets.append(Target(better, found["rmse"] < found["river_rmse"]))
    for key, text, is_met in asked:
        targets.append(Target(f"{text}: {found[key]:.3g}", is_met(found[key])))
    return targets


def _end_to_end(
    folder: Path, length: int, columns: int, rounds: int, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """`rmcvi learn` on a file, `scan` on the array, and River."""
    names, values = [f"c{i}" for i in range(columns)], rhythm(length, columns, seed=1)
    values = np.array([[float(f"{v:.6g}") for v in row] for row in values])
    for name, part in (("short", values[:300]), ("long", values)):
        (folder / f"{name}.csv").write_text(table(names, part))

    def learn(name: str) -> None:
        season = ",".join(map(str, SEASON))
        words = ["learn", str(folder / f"{name}.csv"), "--out", str(folder / name), "--force"]
        status = main([*words, "--season", season, "--no-report", "--quiet"])
        assert status == 0, f"rmcvi learn ended with status {status}"

    learn("short")
    learner = Directory.open(folder / "short")[1].live().learner
    state = learner.init(jax.random.key(0))
    turns = {
        "rmcvi learn": Turns(lambda: learn("long"), length),
        "scan": Turns(lambda: scan(learner, state, values, collect=_nothing)[0], length),
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    timings = take_turns(turns, rounds)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    cost = {name: timing.cost for name, timing in timings.items()}
    rmse = json.loads((folder / "long" / SUMMARY).read_text())["overall"]["rmse"]
    for name, timing in timings.items():
        error = rmse if name != "scan" else None
        rows.append(_line(name, timing, error))
    found = {"cli_over_scan": cost["rmcvi learn"] / cost["scan"], "rmse": rmse}
    found["memory_growth_mb"] = grown
    if importlib.util.find_spec("river") is None:
        return found
    seconds, error = _river(values[: min(length, 5000)])
    unknown = dict.fromkeys(rows[-1])
    rows.append(unknown | {"what": "River", "per_second": 1.0 / seconds, "rmse": error})
    return found | {"river_over_cli": seconds / cost["rmcvi learn"], "river_rmse": error}


def _line(what: str, timing: Timing, rmse: float | None = None) -> dict[str, Any]:
    return {"what": what, "per_second": 1.0 / timing.cost, "rmse": rmse, **timing.to_json()}


def _river(values: np.ndarray) -> tuple[float, float]:
    """Seconds of the processor per row, and the RMSE in standard deviations."""
    linear, scaler, pipe = (
        importlib.import_module(f"river.{name}")
        for name in ("linear_model", "preprocessing", "compose")
    )
    width, far = values.shape[1], max(OWN)
    parts = (scaler.StandardScaler, linear.LinearRegression)
    models = [pipe.Pipeline(*(part() for part in parts)) for _ in range(width)]
    errors = np.zeros((len(values) - far, width))
    busy = time.process_time()
    for t in range(far, len(values)):
        recent = {(lag, k): values[t - lag, k] for lag in LAGS for k in range(width)}
        for k, model in enumerate(models):
            x = recent | {(lag, k): values[t - lag, k] for lag in OWN}
            errors[t - far, k] = values[t, k] - model.predict_one(x)
            model.learn_one(x, values[t, k])
    seconds = (time.process_time() - busy) / len(errors)
    return seconds, float(np.sqrt(np.mean((errors / values.std(0)) ** 2)))


def _updates(columns: int, length: int, rounds: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """`update` for each row against `scan`."""
    learner, values = _learner(columns), rhythm(length, columns, seed=2)
    state, _ = scan(learner, learner.init(jax.random.key(0)), values, collect=_nothing)

    def one_by_one() -> Any:
        now = state
        for y in values:
            now, _ = learner.update(now, y)
        return now

    turns = {
        "update": Turns(one_by_one, length),
        "its scan": Turns(lambda: scan(learner, state, values, collect=_nothing)[0], length),
    }
    timings = take_turns(turns, rounds)
    for name, timing in timings.items():
        rows.append(_line(name, timing))
    return {"update_over_compute": timings["update"].cost / timings["its scan"].cost}


def _fleet(columns: int, count: int, rounds: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Streams together against one, per stream and row, after the warm-up."""
    learner, length = _learner(columns), 64
    fleet = Fleet(learner, count)
    many = np.stack([rhythm(length, columns, seed) for seed in range(count)], 1)
    states = fleet.scan(fleet.init(jax.random.key(0)), many, collect=_nothing)[0]
    state, one = fleet.stream(states, 0), np.tile(many[:, 0], (8, 1))
    single, together = f"1 stream of {columns}", f"{count} streams of {columns}"
    turns = {
        single: Turns(lambda: scan(learner, state, one, collect=_nothing)[0], 8 * length),
        together: Turns(lambda: fleet.scan(states, many, collect=_nothing)[0], length * count),
    }
    timings = take_turns(turns, rounds)
    for name, timing in timings.items():
        rows.append(_line(name, timing))
    return {f"fleet_speedup_{columns}": timings[single].cost / timings[together].cost}


def _particles(count: int, quick: bool, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The same with particles, by the learner of the workload `fleet`; a unit is a step of all."""
    who = particle_learner(*((5, 4, 2) if quick else (20, 16, 8)))
    names = {f"a step of {n} streams by RMCVI": n for n in (1, count)}
    programs = {name: fleet_program(Fleet(who, n), quick) for name, n in names.items()}
    timings = take_turns(programs, 1 if quick else 5)
    one, many = (timing.cost / names[name] for name, timing in timings.items())
    for name, timing in timings.items():
        rows.append(_line(name, timing) | {"per_second": names[name] / timing.cost})
    return {"fleet_speedup_rmcvi": one / many}


def _learner(columns: int) -> SeasonalLearner:
    return SeasonalLearner(columns, period=SEASON[0], long_period=SEASON[1])


def _nothing(learner: Any, state: Any, info: Any) -> Any:
    """All that is kept of a row."""
    del learner, state
    return info.prediction.log_score
