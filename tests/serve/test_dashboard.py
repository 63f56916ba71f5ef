"""The Grafana dashboard asks for what is told, and for all of it."""

import json
import re
from pathlib import Path

from rmcvi.app.serve.hub import Hub
from rmcvi.app.serve.intake import Intake
from rmcvi.app.serve.journal import Journal
from rmcvi.app.serve.metrics import exposition

BOARD = Path(__file__).parents[2] / "docs" / "guides" / "grafana.json"
LATER = {"rmcvi_rmse", "rmcvi_persistence_rmse", "rmcvi_coverage", "rmcvi_checkpoint_age"}
"""Told once there are some."""


def test_the_names_are_those_of_the_metrics(tmp_path: Path) -> None:
    intake, told = Intake(Journal(tmp_path)), set(LATER)
    for keyed in (False, True):
        text = exposition(Hub(tmp_path, keyed), intake).decode()
        told |= set(re.findall(r"^(rmcvi_\w+) ", text, re.MULTILINE))
    intake.journal.close()
    panels = json.loads(BOARD.read_text())["panels"]
    asked = {
        name for p in panels for t in p["targets"] for name in re.findall(r"rmcvi_\w+", t["expr"])
    }
    assert asked == told
    assert len({panel["id"] for panel in panels}) == len(panels)
