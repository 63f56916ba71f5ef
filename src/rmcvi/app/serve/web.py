"""The pages and answers of a service, as an ASGI application.

Reading needs the token for reading or that for writing, if there are any; writing (rows, notes) the
one for writing. A token is never part of an address: addresses are logged.
"""

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from rmcvi.app.report.write import asset, environment
from rmcvi.app.run.output import moment
from rmcvi.app.serve.hub import Hub
from rmcvi.app.serve.inlets import Intake
from rmcvi.app.serve.payload import MOST_BYTES, Unreadable, rows_of
from rmcvi.app.sources import Schema
from rmcvi.core.files import to_json

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page fetches nothing from elsewhere, and nobody may frame it."""
LONGEST = 1000
"""Rows of a forecast."""
BEAT = 15.0
"""Seconds between two signs of life to a page that has nothing new."""
TYPES = {"application/json": False, "application/x-ndjson": False, "text/csv": True}
"""Kinds of rows that are taken by POST, and whether each is CSV."""
SILENT = 120.0
"""Seconds after which we are not well if rows wait and none is learned from."""

Answer = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Tokens:
    """What must be said to read and to write; None for nothing."""

    read: str | None = None
    write: str | None = None

    def allow(self, request: Request, writing: bool) -> bool:
        """Whether a request may."""
        if self.write is None and self.read is None:
            return True
        said = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        known = [self.write] if writing else [self.write, self.read]
        # All are compared, each in a time that does not depend on what was said.
        return any([hmac.compare_digest(said, token.encode()) for token in known if token])


class Web:
    """Answers from what the hub knows."""

    def __init__(self, hub: Hub, intake: Intake | None, tokens: Tokens):
        self.hub, self.intake, self.tokens = hub, intake, tokens

    def application(self, hosts: list[str]) -> Starlette:
        """All of it, for requests that name one of the hosts."""
        reads: dict[str, Answer] = {
            "/events": self.events,
            "/metrics": self.metrics,
            "/api/latest": self.latest,
            "/api/alarms": self.alarms,
            "/api/forecast": self.forecast,
        }
        routes = [
            Route("/", self.page),
            Route("/healthz", self.health),
            Route("/openapi.json", self.openapi),
            Route("/static/{name}", self.static),
            *(Route(path, self._guarded(answer, False)) for path, answer in reads.items()),
            Route("/api/notes", self._guarded(self.note, True), methods=["POST"]),
        ]
        if self.intake is not None:
            routes.append(Route("/rows", self._guarded(self.rows, True), methods=["POST"]))
        # A page of somebody else's that has its name point here is refused.
        known = [Middleware(TrustedHostMiddleware, allowed_hosts=hosts)]
        return Starlette(routes=routes, middleware=known)

    def _guarded(self, answer: Answer, writing: bool) -> Answer:
        async def guarded(request: Request) -> Response:
            if not self.tokens.allow(request, writing):
                return _sorry("a token is needed: Authorization: Bearer ...", 401)
            return await answer(request)

        return guarded

    async def page(self, request: Request) -> Response:
        """The page to watch; it fetches what it shows."""
        del request
        page = environment().get_template("live.html").render(name=self.hub.folder.name)
        return HTMLResponse(page, headers={"content-security-policy": POLICY})

    async def static(self, request: Request) -> Response:
        """Scripts and styles of the page."""
        name = request.path_params["name"]
        if name == "page.css":
            text = asset("uPlot.min.css", "vendor") + asset("style.css") + asset("live.css")
            return Response(text, media_type="text/css")
        if name == "page.js":
            library = asset("uPlot.iife.min.js", "vendor").partition("\n")[2]
            licence = f"/* uPlot\n{asset('uPlot.LICENSE', 'vendor').strip()} */\n"
            return Response(licence + library + asset("live.js"), media_type="text/javascript")
        return _sorry("there is no such file", 404)

    async def health(self, request: Request) -> Response:
        """200 while rows that came are learned from."""
        del request
        waiting, silent = self._waiting(), time.time() - self.hub.learned
        well = not (waiting and silent > SILENT)
        connected = self.intake is None or self.intake.connected
        plain = {"ok": well, "rows": self.hub.about()["rows"], "connected": connected}
        return JSONResponse(plain, 200 if well else 503)

    def _waiting(self) -> int:
        """Rows that came and have not been learned from."""
        engine, intake = self.hub.engine, self.intake
        if intake is None or engine is None:
            return 0
        return max(0, intake.journal.rows - (engine.rows - engine.before))

    async def latest(self, request: Request) -> Response:
        """The last row."""
        del request
        return _json(self.hub.latest())

    async def alarms(self, request: Request) -> Response:
        """Alarms, the latest first."""
        del request
        return _json(self.hub.listed())

    async def note(self, request: Request) -> Response:
        """Acknowledge an alarm."""
        try:
            said = await request.json()
            sentence, note = said["sentence"], said.get("note", "")
        except (ValueError, TypeError, KeyError, AttributeError):
            return _sorry("expected an object with sentence and note", 400)
        if not isinstance(sentence, str) or not isinstance(note, str):
            return _sorry("expected sentence and note to be text", 400)
        if not self.hub.acknowledge(sentence, note):
            return _sorry("there is no such alarm", 404)
        return _json({"ok": True})

    async def forecast(self, request: Request) -> Response:
        """The next rows, ?horizon=24&level=0.9."""
        engine = self.hub.engine
        if engine is None or not engine.rows:
            return _sorry("nothing is learned yet", 409)
        try:
            horizon = int(request.query_params.get("horizon", 24))
            level = float(request.query_params.get("level", engine.plan.level))
        except ValueError:
            return _sorry("expected numbers for horizon and level", 400)
        if not 1 <= horizon <= LONGEST or not 0.0 < level < 1.0:
            return _sorry(f"expected a horizon from 1 to {LONGEST} and a level below 1", 400)
        plan = engine.plan
        if plan.schema["inputs"]:
            return _sorry("a forecast needs the inputs of the next rows: rmcvi forecast", 409)

        def work() -> dict[str, Any]:
            times = Schema.from_json(plan.schema).next_times(engine.clock, horizon)
            known = [plan.inputs_at(np.zeros(0), t) for t in times] if plan.inputs else None
            ahead = engine.live.forecast(horizon, known, level=level)
            parts = {
                "mean": [list(map(float, row)) for row in ahead.mean],
                "low": [list(map(float, row)) for row in ahead.low],
                "high": [list(map(float, row)) for row in ahead.high],
            }
            when = [moment(t, plan.calendar) for t in times]
            return {"columns": plan.columns, "row": engine.rows, "time": when} | parts

        return _json(await asyncio.to_thread(work))

    async def rows(self, request: Request) -> Response:
        """Take rows: JSON, JSON lines or CSV with a header. Answered when they are on disk."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in TYPES or self.intake is None:
            return _sorry(f"expected a content type of {', '.join(TYPES)}", 415)
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return _sorry(f"expected at most {MOST_BYTES} bytes", 413)
        try:
            rows = rows_of(bytes(body), TYPES[kind], self.intake.arrival)
        except Unreadable as error:
            return _sorry(str(error), 400)
        await asyncio.to_thread(self.intake.journal.add, rows)
        return JSONResponse({"rows": len(rows)}, 202)

    async def events(self, request: Request) -> Response:
        """What is known, then what comes, as server-sent events."""

        async def told() -> AsyncIterator[str]:
            queue = self.hub.listen()
            try:
                yield f"event: all\ndata: {self.hub.snapshot()}\n\n"
                while not await request.is_disconnected():
                    try:
                        message = await asyncio.wait_for(queue.get(), BEAT)
                    except TimeoutError:
                        message = ": nothing new\n\n"
                    if not message:
                        return  # too slow: the page comes back and is given all
                    yield message
            finally:
                self.hub.leave(queue)

        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(told(), media_type="text/event-stream", headers=headers)

    async def metrics(self, request: Request) -> Response:
        """For Prometheus."""
        del request
        from prometheus_client import CollectorRegistry, Gauge, generate_latest

        hub, registry = self.hub, CollectorRegistry()
        about = hub.about()
        scores = about["scores"]
        numbers = {
            "rows": ("rows learned from", about["rows"]),
            "rows_waiting": ("rows that came and are not learned from", self._waiting()),
            "seconds_since_row": ("seconds since the last row", time.time() - hub.learned),
            "alarms": ("different alarms so far", len(hub.alarms)),
            "listeners": ("pages that are open", hub.listeners),
            "rmse": ("error in standard deviations", scores.get("rmse")),
            "persistence_rmse": ("the last value's error", scores.get("persistence_rmse")),
            "coverage": ("share of values in their bands", scores.get("coverage")),
            "connected": ("1 if the source is there", self.intake is None or self.intake.connected),
            "refused": ("messages that held no rows", self.intake.refused if self.intake else 0),
        }
        for name, (text, value) in numbers.items():
            if value is not None:
                Gauge(f"rmcvi_{name}", text, registry=registry).set(float(value))
        return PlainTextResponse(generate_latest(registry), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """What can be asked, for machines."""
        del request
        paths = {
            "/rows": {"post": "Take rows (JSON, JSON lines, CSV); 202 when they are on disk."},
            "/events": {"get": "All that is known, then each row, as server-sent events."},
            "/api/latest": {"get": "The last row with its prediction."},
            "/api/forecast": {"get": "The next rows; horizon, level."},
            "/api/alarms": {"get": "Alarms, the latest first."},
            "/api/notes": {"post": "Acknowledge an alarm: sentence, note."},
            "/healthz": {"get": "200 while rows that came are learned from."},
            "/metrics": {"get": "Prometheus."},
        }
        told = {
            path: {verb: {"summary": text, "responses": {"200": {"description": "as said"}}}}
            for path, verbs in paths.items()
            for verb, text in verbs.items()
        }
        about = {"title": "rmcvi serve", "version": "0.2"}
        return JSONResponse({"openapi": "3.1.0", "info": about, "paths": told})


def _json(plain: Any) -> Response:
    return Response(to_json(plain), media_type="application/json")


def _sorry(sentence: str, status: int) -> Response:
    return JSONResponse({"error": sentence}, status)
