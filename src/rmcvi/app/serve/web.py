"""The pages and answers of a service, as an ASGI application.

Reading needs the token for reading or that for writing, if there are any; writing (rows, notes) the
one for writing. A token is never part of an address: addresses are logged.
"""

import asyncio
import hmac
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from rmcvi.app.report.write import asset, environment
from rmcvi.app.run.speech import printable
from rmcvi.app.serve.described import described
from rmcvi.app.serve.hub import LISTED, Beat, Hub
from rmcvi.app.serve.intake import Intake
from rmcvi.app.serve.learned import Unanswerable
from rmcvi.app.serve.metrics import exposition, waiting
from rmcvi.app.serve.payload import MOST_BYTES, Unreadable, rows_of
from rmcvi.core.files import to_json

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page fetches nothing from elsewhere, and nobody may frame it."""
LONGEST = 1000
"""Rows of a forecast."""
TYPES = {"application/json": False, "application/x-ndjson": False, "text/csv": True}
"""Kinds of rows that are taken by POST, and whether each is CSV."""
SILENT, STARTING = 120.0, 900.0
"""Seconds after which we are not well if rows wait and none is learned from; and while the program
is compiled, for whoever is stopped meanwhile begins it anew."""
PATIENCE = 60.0
"""Seconds that a request which writes may take: each holds one of the places that there are."""


class TooLong(Exception):
    """A request that nobody reads to its end."""


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
            "/api/smooth": self.smooth,
            "/api/streams": self.streams,
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
            try:
                async with asyncio.timeout(PATIENCE if writing else None):
                    return await answer(request)
            except TimeoutError:
                return _sorry(f"expected all of it within {PATIENCE:.0f} s", 408)
            except TooLong as error:
                return _sorry(str(error), 413)
            except ClientDisconnect:
                return Response(status_code=400)  # nobody hears it

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
        behind, silent = waiting(self.hub, self.intake), time.time() - self.hub.last
        well = not (behind and silent > (SILENT if self.hub.learned else STARTING))
        connected = self.intake is None or self.intake.connected
        plain = {"ok": well, "rows": self.hub.rows, "connected": connected}
        if self.intake is not None and self.intake.trouble:
            plain["trouble"] = printable(self.intake.trouble)
        return JSONResponse(plain, 200 if well else 503)

    async def latest(self, request: Request) -> Response:
        """The last row, ?key= of a stream."""
        return _json(self.hub.latest(request.query_params.get("key", "")))

    async def alarms(self, request: Request) -> Response:
        """Alarms, the latest first; ?key= for those of a stream."""
        return _json(self.hub.listed(request.query_params.get("key")))

    async def streams(self, request: Request) -> Response:
        """The streams by trouble, ?find=text&most=200."""
        try:
            most = max(0, int(request.query_params.get("most", LISTED)))
        except ValueError:
            return _sorry("expected a number for most", 400)
        find = request.query_params.get("find", "")
        return _json(await asyncio.to_thread(self.hub.streams, find, most))

    async def note(self, request: Request) -> Response:
        """Acknowledge an alarm."""
        try:
            said = json.loads(await _body(request))
            sentence, note, key = said["sentence"], said.get("note", ""), said.get("key", "")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return _sorry("expected an object with sentence and note", 400)
        if not all(isinstance(text, str) for text in (sentence, note, key)):
            return _sorry("expected sentence, note and key to be text", 400)
        if not self.hub.acknowledge((key, sentence), note):
            return _sorry("there is no such alarm", 404)
        return _json({"ok": True})

    async def forecast(self, request: Request) -> Response:
        """The next rows, ?horizon=24&level=0.9, of a stream with &key=."""
        return await self._asked(request, "horizon", 24, (1, LONGEST))

    async def smooth(self, request: Request) -> Response:
        """The last rows given all that came after them, ?lag=24&level=0.9, with &key=."""
        return await self._asked(request, "lag", None, (0, LONGEST))

    async def _asked(
        self, request: Request, name: str, usual: int | None, bounds: tuple[int, int]
    ) -> Response:
        """A question to the learner about so many rows."""
        learned, given = self.hub.learned, request.query_params
        if learned is None or not learned.rows:
            return _sorry("nothing is learned yet", 409)
        key = given.get("key", "")
        try:
            count = int(given[name]) if name in given else usual
            level = float(given.get("level", learned.plan.level))
        except ValueError:
            return _sorry(f"expected numbers for {name} and level", 400)
        if not (count is None or bounds[0] <= count <= bounds[1]) or not 0.0 < level < 1.0:
            return _sorry(f"expected {name} from {bounds[0]} to {bounds[1]}, a level below 1", 400)
        try:
            if name == "lag":
                work = partial(learned.smooth, key, count, level, self.hub.lines)
            else:
                work = partial(learned.forecast, key, count or 1, level)
            return _json(await asyncio.to_thread(work))
        except Unanswerable as error:
            return _sorry(str(error), 409)

    async def rows(self, request: Request) -> Response:
        """Take rows: JSON, JSON lines or CSV with a header. Answered when they are on disk."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        intake = self.intake
        if kind not in TYPES or intake is None:
            return _sorry(f"expected a content type of {', '.join(TYPES)}", 415)
        body = await _body(request)
        try:
            found = rows_of(body, TYPES[kind], intake.arrival)
        except Unreadable as error:
            return _sorry(str(error), 400)
        rows, sentence = intake.let_in(found)
        if not rows:
            return _sorry(sentence, 422)
        if seconds := intake.wait(len(rows)):
            return _sorry(
                "too many rows a second (--max-rate)", 429, retry_after=str(math.ceil(seconds))
            )
        try:
            await asyncio.to_thread(intake.journal.add, rows)
        except OSError as error:
            return _sorry(f"the rows cannot be written: {error.strerror}", 507)
        left = {"left_out": len(found) - len(rows), "error": sentence} if sentence else {}
        return JSONResponse({"rows": len(rows)} | left, 202)

    async def events(self, request: Request) -> Response:
        """What is known, then what comes, as server-sent events; ?key= for one of many streams."""
        key = request.query_params.get("key", "")

        async def told() -> AsyncIterator[str]:
            queue, beat = self.hub.listen(key), Beat(self.hub)
            try:
                yield f"event: all\ndata: {await asyncio.to_thread(self.hub.snapshot, key)}\n\n"
                while not await request.is_disconnected():
                    if beat.due():
                        yield await asyncio.to_thread(beat.message)
                    try:
                        message = await asyncio.wait_for(queue.get(), beat.patience)
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
        text = await asyncio.to_thread(exposition, self.hub, self.intake)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """What can be asked, for machines."""
        del request
        return JSONResponse(described())


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise TooLong(f"expected at most {MOST_BYTES} bytes")
    return bytes(body)


def _json(plain: Any) -> Response:
    return Response(to_json(plain), media_type="application/json")


def _sorry(sentence: str, status: int, **headers: str) -> Response:
    return JSONResponse(
        {"error": sentence}, status, {k.replace("_", "-"): headers[k] for k in headers}
    )
