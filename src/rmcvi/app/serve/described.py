"""What a service can be asked, for machines."""

from typing import Any

PATHS = {
    "/rows": {"post": "Take rows (JSON, JSON lines, CSV); 202 when they are on disk."},
    "/events": {"get": "All that is known, then each row, as server-sent events; key."},
    "/api/streams": {"get": "Streams, the most troubled first; find, most."},
    "/api/latest": {"get": "The last row with its prediction; key."},
    "/api/forecast": {"get": "The next rows; horizon, level, key."},
    "/api/smooth": {"get": "The last rows, given all that came after them; lag, level, key."},
    "/api/alarms": {"get": "Alarms, the latest first; key."},
    "/api/notes": {"post": "Acknowledge an alarm: sentence, note, key."},
    "/healthz": {"get": "200 while rows that came are learned from."},
    "/metrics": {"get": "Prometheus."},
}


def described() -> dict[str, Any]:
    """As OpenAPI."""
    told = {
        path: {verb: {"summary": text, "responses": {"200": {"description": "as said"}}}}
        for path, verbs in PATHS.items()
        for verb, text in verbs.items()
    }
    about = {"title": "rmcvi serve", "version": "0.2"}
    return {"openapi": "3.1.0", "info": about, "paths": told}
