"""Where no forecast can be made, the page says why."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rmcvi.app.report import write
from rmcvi.app.report.forecast import forecast
from rmcvi.app.run.plan import Plan
from tests.report._runs import arrays, make

OPTIONS = {
    "calendar": [],
    "follow": False,
    "on_bad_row": "error",
    "limit": None,
    "checkpoint_every": 500,
    "model": {"model": "seasonal"},
    "season": [24, None],
}
PLAN = Plan(
    source="a.csv",
    seed=0,
    columns=["a"],
    inputs=[],
    level=0.9,
    learner={"name": "seasonal", "settings": {}},
    assumed=[],
    units={"a": ""},
    time_column=None,
    step_seconds=None,
    started="2026-11-16T03:00:00+00:00",
    options=OPTIONS,
    schema={"inputs": []},
    id="1",
)


def test_the_page_says_why_there_is_none(tmp_path: Path) -> None:
    """Here, since `run.json` is not one of `learn`; the folder's name is nobody's business."""
    page = write(make(tmp_path, rows=30)).read_text(encoding="utf-8")
    told = page.split('id="forecast">')[1].split("</p>")[0]
    assert told.startswith("No forecast of the next rows: run.json: got no ")
    assert str(tmp_path) not in page and "See the forecast" not in page


@pytest.mark.parametrize(
    "change, reason",
    [
        ({}, "has no checkpoint yet"),
        ({"schema": {"inputs": ["wind", "rain"]}}, "the next values of wind, rain are not known"),
        (
            {"options": OPTIONS | {"model": {"model": "mine:make"}}},
            "`rmcvi forecast --model mine:make`",
        ),
    ],
)
def test_reasons(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    (tmp_path / "run.json").write_text(json.dumps(replace(PLAN, **change).to_json()))
    told = forecast(tmp_path, arrays(30, 1))
    assert isinstance(told, str) and reason in told and told.endswith(".")
    assert str(tmp_path) not in told
