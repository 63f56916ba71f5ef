"""What Prometheus is told."""

import time
from typing import Any

from rmcvi.app.serve.hub import Hub
from rmcvi.app.serve.intake import Intake


def waiting(hub: Hub, intake: Intake | None) -> int:
    """Rows that came and are not learned from."""
    if intake is None:
        return 0
    come = intake.journal.left + intake.journal.rows
    return max(0, come - (0 if hub.learned is None else hub.learned.met))


def exposition(hub: Hub, intake: Intake | None) -> bytes:
    """All numbers in its text format."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()
    for name, (text, value) in (_of_all(hub, intake) | _of_scores(hub)).items():
        if value is not None:
            Gauge(f"rmcvi_{name}", text, registry=registry).set(float(value))
    return generate_latest(registry)


def _of_all(hub: Hub, intake: Intake | None) -> dict[str, tuple[str, Any]]:
    keys = None if intake is None else intake.keys
    return {
        "rows": ("rows learned from", hub.rows),
        "rows_waiting": ("rows that came and are not learned from", waiting(hub, intake)),
        "seconds_since_row": ("seconds since the last row", time.time() - hub.last),
        "checkpoint_age": ("seconds since all was saved", _age(hub)),
        "alarms": ("different alarms so far", len(hub.alarms)),
        "listeners": ("pages that are open", hub.listeners),
        "connected": ("1 if the source is there", intake is None or intake.connected),
        "refused": ("messages that held no rows", intake.refused if intake else 0),
        "rows_left_out": (
            "bad rows, rows without a key, and rows of too many streams",
            (keys.refused if keys else 0) + (hub.learned.left_out if hub.learned else 0),
        ),
    }


def _age(hub: Hub) -> float | None:
    path = None if hub.learned is None else hub.learned.checkpoint
    return time.time() - path.stat().st_mtime if path is not None and path.exists() else None


def _of_scores(hub: Hub) -> dict[str, tuple[str, Any]]:
    if hub.keyed:
        told = hub.streams(most=0)
        return {
            "streams": ("streams that are learned", told["total"]),
            "streams_alarmed": ("streams whose last row has an alarm", told["alarmed"]),
            "streams_failing": ("streams with a sensor that fails", told["failing"]),
        }
    scores = hub.about()["scores"]
    return {
        "rmse": ("error in standard deviations", scores.get("rmse")),
        "persistence_rmse": ("the last value's error", scores.get("persistence_rmse")),
        "coverage": ("share of values in their bands", scores.get("coverage")),
    }
