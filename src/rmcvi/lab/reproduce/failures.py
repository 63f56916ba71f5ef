"""Alarms on streams whose failures are known: found, how soon, and at how many false ones.

`rmcvi learn` with its defaults, and simple rivals, on every stream named by `failures.json` in the
folder that `RMCVI_STREAMS` names; without it, on simulated streams with failures of known kind and
time. Alarms of ours are those of the default sensitivity. A rival has no threshold of its own: it
is given the one that scores best on all streams, or, left out, on the others.
"""

import importlib.util
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rmcvi.app import report
from rmcvi.app.cli.simulate import Failure, rhythm
from rmcvi.app.run.plan import make_plan
from rmcvi.app.run.speech import Refusal
from rmcvi.app.sources import read
from rmcvi.lab.reproduce.detection import Labelled, best, judge, sweep, total
from rmcvi.lab.reproduce.detectors import RIVALS
from rmcvi.lab.reproduce.experiment import (
    Arrays,
    Cell,
    Conclusion,
    Drawing,
    Experiment,
    Settings,
    Workspace,
)
from rmcvi.learners import Live
from rmcvi.learners.seasonal import SeasonalLearner

VARIABLE, WINDOWS = "RMCVI_STREAMS", "failures.json"
OURS = "rmcvi learn"
PLAN: dict[str, Any] = {"calendar": [], "season": [], "follow": False, "on_bad_row": "error"}
HOUR, START = 3600.0, 600
"""Rows of simulated streams are an hour apart; where a simulated failure may begin."""
TRIED = 200
"""Thresholds that are tried, at equal steps of the logarithm of the share of rows above them."""


def cells(settings: Settings) -> dict[str, Cell]:
    """One per stream: the anomaly score, the rows with an alarm, and the rivals' scores."""
    if settings["simulated"]:
        return {kind: _simulated(kind, settings["rows"]) for kind in settings["simulated"]}
    folder = os.environ.get(VARIABLE)
    if not folder or not (Path(folder) / WINDOWS).is_file():
        wanted = f"a folder with labelled CSV files and {WINDOWS} (experiments/failures/README.md)"
        raise Refusal(f"{VARIABLE}: got {folder!r}, expected {wanted}")
    windows = json.loads((Path(folder) / WINDOWS).read_text())
    return {Path(name).stem: _file(Path(folder) / name, ends) for name, ends in windows.items()}


def _file(path: Path, ends: list[list[str]]) -> Cell:
    def work(workspace: Workspace) -> Arrays:
        stream = read(str(path))
        options = PLAN | {"limit": None, "checkpoint_every": 500}
        plan = make_plan(str(path), stream, "seasonal", 0.9, 0, "", **options)
        rows = list(stream)
        y, dt = np.array([row.y for row in rows]), np.array([row.dt for row in rows])
        found = _follow(plan.live(), y, dt, workspace)
        time = np.array([row.time for row in rows], float)
        windows = np.array([[_seconds(end) for end in pair] for pair in ends])
        return found | {"time": time, "windows": windows}

    return work


def _simulated(kind: str, rows: int) -> Cell:
    """Hours with a day and a week; one failure in the second half."""

    def work(workspace: Workspace) -> Arrays:
        y = rhythm(rows, 1, seed=len(kind))
        start = max(START, rows // 2)
        rng = np.random.default_rng(0)
        Failure("y1", start + 1, 48, kind).apply(y, ["y1"], rng)
        live = Live(["y1"], learner=SeasonalLearner(1, period=24, long_period=168))
        time = HOUR * np.arange(rows)
        windows = np.array([[time[start], time[start + 47]]])
        return _follow(live, y, np.ones(rows), workspace) | {"time": time, "windows": windows}

    return work


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def _follow(live: Live, y: np.ndarray, dt: np.ndarray, workspace: Workspace) -> dict[str, Any]:
    """Our score and alarms, and every rival's score."""
    told = live.learn_many(y, dt=dt)
    sentences = list(dict.fromkeys(s for row in told.alarms for s in row))
    workspace.say(f"{len(y)} rows, {len(sentences)} alarms")
    scores = {name: RIVALS[name](y[:, 0]) for name in _rivals()}
    alarms = np.array([bool(row) for row in told.alarms])
    return {"alarms": alarms, OURS: told.anomaly.max(1), "sentences": sentences} | scores


def _rivals() -> list[str]:
    return [n for n in RIVALS if "river" not in n or importlib.util.find_spec("river")]


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """Windows found, delays, false episodes and the streaming score, by detector and stream."""
    labelled = {
        n: Labelled.of(np.asarray(f["time"]), _pairs(f["windows"])) for n, f in found.items()
    }
    each = {n: judge(np.asarray(f["alarms"], bool), labelled[n]) for n, f in found.items()}
    overall: dict[str, Any] = {"alarms": dict(total(list(each.values())))}
    for name in (OURS, *_rivals()):
        scores = {n: np.nan_to_num(np.asarray(f[name], float)) for n, f in found.items()}
        overall[name] = _fitted(scores, labelled)
    ours = {n: np.asarray(f[OURS], float) for n, f in found.items()}
    curve = _curve(ours, labelled, settings["sensitivities"])
    streams = {
        n: {"found": f.hits, "windows": f.windows, "false": f.false, "months": round(f.months, 2)}
        for n, f in each.items()
    }
    main = overall["alarms"]
    remarks = [
        f"Alarms of the default sensitivity: {main['hits']:.0f} of {main['windows']:.0f} windows, "
        f"{main['false']:.0f} false episodes ({main['false_per_month']:.2f} per stream and month), "
        f"streaming score {main['score']:.1f}."
    ]
    numbers = {"overall": overall, "streams": streams, "curve": curve}
    return Conclusion(numbers, _tables(overall, streams, curve), [_drawing(curve)], remarks)


def _pairs(windows: Any) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in np.asarray(windows)]


def _fitted(of: Mapping[str, np.ndarray], labelled: Mapping[str, Labelled]) -> dict[str, Any]:
    """With the threshold that scores best on all streams; and each with that of the others."""
    every, names = np.concatenate(list(of.values())), list(of)
    tried = np.unique(np.quantile(every, 1.0 - np.geomspace(1.0 / len(every), 0.1, TRIED)))
    swept = sweep(of, labelled, tried)
    others = {n: [m for m in names if m != n] or names for n in names}
    left = [swept[best(swept, others[n], "score")][n] for n in names]
    rows = swept[best(swept, names, "row_score")]
    return dict(total(list(swept[best(swept, names, "score")].values()))) | {
        "row_score": total(list(rows.values()))["row_score"],
        "left_out": dict(total(left)),
    }


def _curve(
    of: Mapping[str, np.ndarray], labelled: Mapping[str, Labelled], sensitivities: list[float]
) -> dict[str, list[float]]:
    """What rows above 1 / (1 + sensitivity) find."""
    limits = [1.0 / (1.0 + s) for s in sensitivities]
    points = [total([judge(of[n] > limit, labelled[n]) for n in of]) for limit in limits]
    return {"sensitivity": sensitivities} | {k: [p[k] for p in points] for k in points[0]}


def _tables(
    overall: Mapping[str, Any], streams: Mapping[str, Any], curve: Mapping[str, list[float]]
) -> list[report.Table]:
    heads = ["windows found", "false", "false per month", "median delay (widths)", "score"]
    keys = ["hits", "false", "false_per_month", "delay", "score"]

    def numbers(of: Mapping[str, Any]) -> list[Any]:
        return [round(float(of[key]), 2) for key in keys]

    ours = ["rmcvi learn, its alarms", *numbers(overall["alarms"]), "", ""]
    fitted = [
        [f"{name}, best threshold", *numbers(of), of["row_score"], of["left_out"]["score"]]
        for name, of in overall.items()
        if name != "alarms"
    ]
    columns = ["detector", *heads, "score of all rows", "score left out"]
    by = [
        [n, f"{s['found']} of {s['windows']}", s["false"], s["months"]] for n, s in streams.items()
    ]
    points = [
        [s, *(round(curve[key][i], 2) for key in keys)] for i, s in enumerate(curve["sensitivity"])
    ]
    return [
        report.Table(columns, [ours, *fitted], "Score: Numenta benchmark, standard profile."),
        report.Table(["stream", "found", "false episodes", "months"], by, "Our alarms by stream."),
        report.Table(["sensitivity", *heads], points, "Rows above 1 / (1 + sensitivity)."),
    ]


def _drawing(curve: Mapping[str, list[float]]) -> Drawing:
    made, axes = report.figure(width=8.0, height=3.6, columns=2)
    axes[0, 0].plot(curve["false_per_month"], curve["hits"], marker="o")
    axes[0, 0].set(xlabel="false episodes per stream and month", ylabel="windows found")
    axes[0, 1].plot(curve["sensitivity"], curve["delay"], marker="o")
    axes[0, 1].set(
        xlabel="sensitivity", ylabel="median delay in widths of the window", xscale="log"
    )
    caption = "Windows found against false episodes, and delay, as the sensitivity grows."
    return Drawing("curves", made, "Curves of detection and of delay", caption)


EXPERIMENT = Experiment("failures", "Alarms on streams whose failures are known", cells, conclude)
