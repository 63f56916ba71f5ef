"""The live page in a real browser: what its charts tell, without a learner."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rmcvi.app.serve.hub import Hub
from rmcvi.app.serve.learned import Unanswerable
from rmcvi.app.serve.server import Service
from tests.serve._running import seen

STRIP = """[...document.querySelectorAll('#charts canvas')].map(canvas => {
  const wide = canvas.getContext('2d').getImageData(0, 0, canvas.width, 20).data;
  let ink = 0;
  for (let i = 0; i < wide.length; i += 4) ink += wide[i + 3] > 200 && wide[i] > wide[i + 2] + 100;
  return ink; })"""
"""Reddish pixels at the top of each chart."""


class Known:
    """What a learner would tell of two columns."""

    plan = SimpleNamespace(columns=["flow", "heat"], units={}, level=0.9)
    rows = 90

    def about(self, key: str) -> dict[str, Any]:
        """Of any stream."""
        return {"rows": 30, "scores": {}}

    def forecast(self, *question: Any) -> dict[str, Any]:
        """None."""
        raise Unanswerable("nothing is known of the next rows")

    def ranked(self) -> list[dict[str, Any]]:
        """Three of them."""
        fared = {"failure": 0.0, "episodes": 2, "error_of_last_value": 0.8, "coverage": 0.9}
        return [{"key": f"pump {k}", "rows": 30} | fared for k in range(3)]


def line(key: str, row: int) -> str:
    """A row; one sensor fails from the twentieth on."""
    plain: dict[str, Any] = {"row": row, "key": key, "time": f"2026-01-01T18:{row:02d}:00"}
    for name in ("flow", "heat"):
        told = {"": row % 3, ".mean": 1.0, ".low": 0.0, ".high": 2.0, ".filled": None}
        told[".failure"] = 0.9 if name == "flow" and row > 20 else 0.0
        plain |= {name + part: value for part, value in told.items()}
    return json.dumps(plain | {"alarms": ["flow: stuck at 1"] if row > 20 else []})


def test_what_the_charts_tell(tmp_path: Path) -> None:
    """A strip where the sensor fails, and on no other chart; a click leads to a stream's charts."""
    hub = Hub(tmp_path, keyed=True)
    keys = [f"pump {k}" for k in range(3)]
    known: Any = Known()
    hub.begin(known, [line(key, row) for row in range(1, 31) for key in keys])
    service = Service(hub, None, None, ("127.0.0.1", 0))
    try:
        with seen(service.port, tmp_path, "pump 1") as browser:
            flow, heat = browser.run(STRIP)
            assert flow > 200 and heat == 0
            browser.resize(380, 700)
            click = "document.querySelector('#streams tr[data-key=\"pump 2\"] button').click()"
            browser.until("!!document.querySelector('#streams tr[data-key=\"pump 2\"]')")
            browser.run(click)
            browser.until("document.getElementById('shown').textContent === 'pump 2'")
            browser.until("document.getElementById('shown').getBoundingClientRect().top < 700")
            assert browser.run("document.documentElement.scrollWidth") <= 380
            assert [c for c in browser.complaints() if "409" not in c] == []
    finally:
        service.close()
