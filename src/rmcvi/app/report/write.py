"""`report.html` of a run directory: one page that holds all it shows."""

import os
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from rmcvi.app.report import words
from rmcvi.app.report.alarms import Episode, episodes
from rmcvi.app.report.content import PARAMETERS, STATES, content
from rmcvi.app.report.curves import calibrate
from rmcvi.app.report.forecast import Forecast, forecast
from rmcvi.app.report.scores import Scores, score, summarise
from rmcvi.app.report.summary import refresh
from rmcvi.app.report.svg import histogram, reliability
from rmcvi.app.report.thin import thin
from rmcvi.app.run.estimates import Run
from rmcvi.app.run.reading import read
from rmcvi.core.files import replace
from rmcvi.learners import Live

LIMIT = 9_500_000
"""Characters of packed data that a page may hold before its rows are thinned."""
EPISODES = 200
"""Alarms that are listed one by one."""
SCRIPTS = (
    "data.js",
    "axis.js",
    "pixels.js",
    "parts.js",
    "chart.js",
    "view.js",
    "hands.js",
    "charts.js",
)
"""Ours, in the order in which they need each other; the charts are drawn by uPlot in `vendor`."""


def write(directory: str | os.PathLike[str], live: Live | None = None) -> Path:
    """Write `report.html` (and `summary.json`, if it is missing or stale); returns its path.

    The forecast is made by `live`, the learner after the last row, or from the checkpoint.
    """
    folder = Path(directory)
    run = read(folder)
    scores = score(run)
    summary = summarise(run, scores, refresh(folder, run, scores).get("seconds"))
    path = folder / "report.html"
    page = render(run, scores, summary, forecast(folder, run, live))
    replace(path, page.encode("utf-8", "replace"))
    return path


def render(
    run: Run,
    scores: Scores,
    summary: dict[str, Any],
    ahead: Forecast | str = "none was asked for.",
    limit: int = LIMIT,
) -> str:
    """The page as text.

    Args:
        run: what was learned from, and what was estimated of it.
        scores: errors of its predictions.
        summary: the numbers of the tables.
        ahead: the forecast, or why there is none.
        limit: characters of packed data above which rows are thinned.
    """
    found = episodes(run.alarms)
    every = 1
    after = None if isinstance(ahead, str) else ahead
    meta, packed = content(run, scores, found, thin(scores, every), after)
    while len(packed) > limit and every < run.rows:
        every = max(every + 1, int(np.ceil(1.03 * every * len(packed) / limit)))
        meta, packed = content(run, scores, found, thin(scores, every), after)
    calibration = calibrate(run, scores)
    return (
        environment()
        .get_template("run.html")
        .render(
            run=run,
            title=run.title,
            units=run.units,
            about=run.about,
            summary=summary,
            meta=meta,
            packed=Markup(packed),
            every=every,
            ahead=after,
            no_forecast=None if after else ahead,
            episodes=[_described(run, episode) for episode in found[:EPISODES]],
            more_episodes=max(len(found) - EPISODES, 0),
            calibration=calibration,
            reliability=calibration and reliability(calibration, run.level),
            histogram=calibration and histogram(calibration),
            failures=bool(np.isfinite(run.failure).any()),
            hidden_states=max(len(run.state_names) - STATES, 0),
            hidden_parameters=max(len(run.parameters) - PARAMETERS, 0),
            script=Markup("\n".join([_library(), *(asset(name) for name in SCRIPTS)])),
            style=Markup(asset("uPlot.min.css", "vendor") + asset("style.css")),
        )
    )


def _library() -> str:
    """The code of uPlot under its licence, as a function of the device pixels per pixel."""
    licence = asset("uPlot.LICENSE", "vendor").strip()
    code = asset("uPlot.iife.min.js", "vendor").partition("\n")[2]  # the first line is an address
    made = f"const library = (devicePixelRatio) => {{\n{code}\nreturn uPlot;\n}};"
    return f"/* uPlot\n{licence} */\n{made}"


def environment() -> jinja2.Environment:
    """Templates of ours; whatever they are given is escaped."""
    loader = jinja2.PackageLoader("rmcvi.app.report", "templates")
    made = jinja2.Environment(
        loader=loader,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": words.number,
        "percent": words.percent,
        "change": words.change,
        "duration": words.duration,
        "moment": words.moment,
        "settings": words.settings,
        "cell": words.cell,
    }
    return made


def asset(name: str, folder: str = "templates") -> str:
    """A style sheet or a part of the script."""
    return (resources.files("rmcvi.app.report") / folder / name).read_text(encoding="utf-8")


def _described(run: Run, episode: Episode) -> dict[str, Any]:
    ends = [episode.first, episode.last]
    times = None if run.time is None else [words.moment(run.time[i]) for i in ends]
    rows = [int(run.row[i]) for i in ends]
    return {"sentence": episode.sentence, "ends": rows, "times": times, "rows": episode.rows}
