"""Months in forecasts, the season in the plan, late rows in the summary."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmcvi.app.run.output import moment
from rmcvi.app.run.plan import Plan, make_plan
from rmcvi.app.sources import read
from rmcvi.app.sources.cells import parse_time
from rmcvi.learners.seasonal import SeasonalLearner
from tests.cli._runs import CHEAP, MODEL, call

ENDS = ("2023-07-31", "2023-08-31", "2023-09-30", "2023-10-31", "2023-11-30", "2023-12-31")


def test_forecasts_of_months_have_their_dates(
    capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """End of month stays end of month; a late row is left out, counted and said."""
    monkeypatch.chdir(tmp_path)
    Path("cheap.py").write_text(CHEAP)
    rows = [f"{day},{i}.5" for i, day in enumerate((*ENDS[:3], ENDS[1], *ENDS[3:]))]
    Path("sales.csv").write_text("\n".join(["date,sold", *rows, ""]))
    done = call(capsys, "learn", "sales.csv", *MODEL, "--out", "a.run", "--no-report")
    assert done.status == 0 and "the usual step is 1 month" in done.err
    assert "1 time before its predecessor; the first: sales.csv, line 5" in done.err
    summary = json.loads(Path("a.run/summary.json").read_text())
    assert summary["rows"] == 6 and '"backward": 1' in json.dumps(summary)
    schema = read("sales.csv").schema
    times = schema.next_times(parse_time([ENDS[-1]], "iso"), 4)
    days = [str(moment(time, True))[:10] for time in times]
    assert days == ["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30"]
    refused = call(capsys, "learn", "sales.csv", *MODEL, "--season", 12, "--out", "b.run")
    assert refused.status == 2 and "--season: got 12, which --model cheap:make" in refused.err


def _plan(text: str, *said: str) -> Plan:
    options: dict[str, Any] = {"calendar": [], "season": list(said), "follow": False}
    options |= {"on_bad_row": "error", "limit": None, "checkpoint_every": 500}
    plan = make_plan("-", read(io.StringIO(text)), "seasonal", 0.9, 0, "now", **options)
    return Plan.from_json(json.loads(json.dumps(plan.to_json())), "run.json")


def _periods(plan: Plan) -> tuple[int, ...]:
    learner = plan.live().learner
    assert isinstance(learner, SeasonalLearner)
    return learner.design.periods


def test_the_season_is_kept_in_the_plan() -> None:
    """Found in rows without times, or said; the learner of a resumed run is the same."""
    rng = np.random.default_rng(0)
    wave = np.sin(2.0 * np.pi * np.arange(190) / 12.0) + 0.2 * rng.standard_normal(190)
    text = "a\n" + "".join(f"{v:.4f}\n" for v in wave)
    found = _plan(text)
    assert "Season: 12 rows, found in the first 190 rows." in found.assumed
    assert _periods(found) == (12,)
    said = _plan(text, "8", "40")
    assert "Season: 8 and 40 rows, as you said." in said.assumed and _periods(said) == (8, 40)
    assert _periods(_plan(text, "none")) == ()
