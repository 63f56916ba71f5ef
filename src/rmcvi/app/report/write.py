"""`report.html` of a run directory: one page that holds all it shows."""

import json
import math
import os
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from rmcvi.app.report.calibration import calibrate, histogram, reliability
from rmcvi.app.report.content import PARAMETERS, STATES, content
from rmcvi.app.report.forecast import Forecast, forecast
from rmcvi.app.report.scores import (
    FEWEST,
    Episode,
    Scores,
    episodes,
    refresh,
    score,
    summarise,
    thin,
)
from rmcvi.app.run.estimates import Run
from rmcvi.app.run.horizons import PARTS
from rmcvi.app.run.reading import read
from rmcvi.core.files import replace
from rmcvi.learners import Live

LIMIT = 9_500_000
"""Characters of packed data that a page may hold before its rows are thinned."""
EPISODES = 200
"""Alarms that are listed one by one."""
SCRIPTS = ("data.js", "axis.js", "parts.js", "chart.js", "view.js", "charts.js")
"""Ours, in the order in which they need each other; the charts are drawn by uPlot in `vendor`."""
NOTHING = "\u2013"


def write(directory: str | os.PathLike[str], live: Live | None = None) -> Path:
    """Write `report.html` (and `summary.json`, if it is missing or stale); returns its path.

    The forecast is made by `live`, the learner after the last row, or from the checkpoint.
    """
    folder = Path(directory)
    run = read(folder)
    scores = score(run)
    kept = refresh(folder, run, scores)
    summary = summarise(run, scores, kept.get("seconds")) | {"horizons": kept.get("horizons")}
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
            horizons=_horizons(summary.get("horizons")),
            seasonal=bool(_season(run.about.get("options"))),
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


def _horizons(tables: Any) -> list[dict[str, Any]]:
    """Of all columns, what `learn` wrote; nothing if there is none, or if somebody else did."""
    rows = tables.get("") if isinstance(tables, dict) else None
    keys = ("from", "to", "values", *PARTS, "coverage")
    return [
        row
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
        and all(isinstance(row.get(key), int | float) for key in keys)
        and row["values"] >= FEWEST
    ]


def _season(options: Any) -> Any:
    """Rows in a season, if there is one."""
    season = options.get("season") if isinstance(options, dict) else None
    return season[0] if isinstance(season, list) and season else None


def _library() -> str:
    """The code of uPlot under its licence, as a function of the device pixels per pixel."""
    licence = asset("uPlot.LICENSE", "vendor").strip()
    code = asset("uPlot.iife.min.js", "vendor").partition("\n")[2]  # the first line is an address
    made = f"const library = (devicePixelRatio) => {{\n{code}\nreturn uPlot;\n}};"
    return f"/* uPlot\n{licence} */\n{made}"


def environment() -> jinja2.Environment:
    """Templates of ours; whatever they are given is escaped."""
    loader = jinja2.PackageLoader("rmcvi.app.report", "templates")
    made = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    ours = (number, percent, change, duration, moment, settings, cell)
    made.filters |= {function.__name__: function for function in ours}
    return made


def asset(name: str, folder: str = "templates") -> str:
    """A style sheet or a part of the script."""
    return (resources.files("rmcvi.app.report") / folder / name).read_text(encoding="utf-8")


def _described(run: Run, episode: Episode) -> dict[str, Any]:
    ends = [episode.first, episode.last]
    times = None if run.time is None else [moment(run.time[i]) for i in ends]
    rows = [int(run.row[i]) for i in ends]
    return {"sentence": episode.sentence, "ends": rows, "times": times, "rows": episode.rows}


def number(value: Any, digits: int = 4) -> str:
    """A number to some significant digits; a dash if there is none."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return NOTHING
    if isinstance(value, float) and not (value.is_integer() and abs(value) < 1e6):
        value = float(text := f"{value:.{digits}g}")
        if "e+" not in text or abs(value) >= 1e6:
            return text.replace("-", "\u2212")
    return f"{int(value):,}".replace(",", "\u202f").replace("-", "\u2212")


def percent(value: Any, digits: int = 1) -> str:
    """A share as per cent; a dash if there is none."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return NOTHING
    return f"{100 * value:.{digits}f} %".replace("-", "\u2212").replace(" ", "\u202f")


def change(value: Any) -> str:
    """A relative difference as per cent with its sign."""
    return ("+" if isinstance(value, float) and value > 0 else "") + percent(value)


def duration(seconds: Any) -> str:
    """Seconds as people say them; a dash if unknown."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return NOTHING
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def moment(seconds: float) -> str:
    """A time to the second, or to the minute if it is a full one."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S" if moment.second else "%Y-%m-%d %H:%M")


def settings(given: Any) -> list[tuple[str, str]]:
    """Names and values of a (nested) dictionary, one line each."""
    lines: list[tuple[str, str]] = []
    for name, value in given.items() if isinstance(given, dict) else ():
        if isinstance(value, dict):
            lines += [(f"{name}.{inner}", text) for inner, text in settings(value)]
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append((str(name), text))
    return lines


def cell(value: Any) -> str:
    """A table's cell: words as they are, numbers short, a pair as number and standard error."""
    if isinstance(value, tuple) and len(value) == 2:
        return f"{number(value[0])} \u00b1 {number(value[1], 2)}"
    return value if isinstance(value, str) else number(value)
