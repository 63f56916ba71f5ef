"""The service as people and machines meet it: real processes, real requests."""

import errno
import hmac
import json
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from rmcvi.app.run.speech import Refusal
from rmcvi.app.serve.hub import Hub
from rmcvi.app.serve.intake import Intake, Keys, Rate
from rmcvi.app.serve.journal import Journal
from rmcvi.app.serve.server import Service, tokens
from rmcvi.app.serve.webhook import SIGNATURE, Webhook
from tests.cli._runs import call
from tests.fleet._fleets import CHEAP, MODEL
from tests.serve._brokers import until
from tests.serve._running import JSON, Running, ask, row, shown

SECRET, OTHER = "a-token-for-all-of-it", "a-token-for-reading"


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """Starts a service that has learned nothing yet; gives its port."""
    closing: list[Callable[[], None]] = []

    def start(**secrets: str) -> int:
        for name, value in secrets.items():
            monkeypatch.setenv(name, value)
        intake = Intake(Journal(tmp_path / "run"))
        made = Service(Hub(tmp_path / "run"), intake, None, ("127.0.0.1", 0))
        closing.extend([made.close, intake.journal.close])
        return made.port

    yield start
    for close in closing:
        close()


def test_before_the_first_row(service: Callable[..., int]) -> None:
    port = service()
    assert ask(port, "/healthz") == (200, {"ok": True, "rows": 0, "connected": True})
    assert ask(port, "/api/latest") == (200, None)
    assert ask(port, "/api/forecast")[0] == 409
    assert ask(port, "/api/alarms") == (200, [])
    status, page = ask(port, "/")
    assert status == 200 and "<h1>run</h1>" in page and "http://" not in page.replace("w3.org", "")
    status, script = ask(port, "/static/page.js")
    assert status == 200 and "uPlot" in script and "Permission is hereby granted" in script
    assert ask(port, "/static/../hub.py")[0] == 404
    assert "rmcvi_rows 0.0" in ask(port, "/metrics")[1]
    assert set(ask(port, "/openapi.json")[1]["paths"]) >= {"/rows", "/events", "/api/forecast"}


def test_what_is_refused(service: Callable[..., int], tmp_path: Path) -> None:
    """Each with a sentence, and nothing is written."""
    port = service()
    rows: list[tuple[Any, dict[str, str], int]] = [
        (b"junk", {"content_type": "application/json"}, 400),
        (b'{"a": 1}', {"content_type": "text/plain"}, 415),
        (b'{"a": 1}', {}, 415),
        (b" " * 2_000_000, {"content_type": "application/json"}, 413),
    ]
    for body, headers, status in rows:
        found = ask(port, "/rows", body, **headers)
        assert found[0] == status and found[1]["error"]
    assert ask(port, "/", Host="evil.example")[0] == 400
    assert ask(port, "/api/notes", {"sentence": "no such"}, **JSON)[0] == 404
    assert ask(port, "/api/notes", b" " * 2_000_000, **JSON)[0] == 413
    assert ask(port, "/api/notes", b"[" * 100_000, **JSON)[0] == 400
    assert (tmp_path / "run/rows.jsonl").read_bytes() == b""
    assert ask(port, "/rows", b"a,b\n1,2\n", content_type="text/csv") == (202, {"rows": 1})
    assert (tmp_path / "run/rows.jsonl").read_text() == '{"a": 1.0, "b": 2.0}\n'


def test_how_long_a_start_may_take(tmp_path: Path) -> None:
    """Longer than a row later: who is believed ill while it compiles would compile for ever."""
    intake, hub = Intake(Journal(tmp_path)), Hub(tmp_path)
    made = Service(hub, intake, None, ("127.0.0.1", 0))
    try:
        assert ask(made.port, "/rows", [{"v": 1}], **JSON)[0] == 202
        found = []
        for silent, learned in ((600.0, None), (1000.0, None), (600.0, Mock(met=0, rows=0))):
            hub.last, hub.learned = time.time() - silent, learned
            found.append(ask(made.port, "/healthz")[0])
        assert found == [200, 503, 503]
    finally:
        made.close()
        intake.journal.close()


def test_whoever_does_not_come_to_an_end(
    service: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Is told so in the end, or has gone: either is nothing to write home about."""
    monkeypatch.setattr("rmcvi.app.serve.web.PATIENCE", 0.2)
    port = service()
    head = "POST /rows HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    begun = f"{head}Content-Length: 1000\r\n\r\n[".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=240.0) as slow:
        slow.sendall(begun)
        assert slow.recv(12) == b"HTTP/1.1 408"
    monkeypatch.setattr("rmcvi.app.serve.web.PATIENCE", 240.0)
    with socket.create_connection(("127.0.0.1", port)) as gone:
        gone.sendall(begun)
    time.sleep(0.2)
    assert ask(port, "/rows", b"a,b\n1,2\n", content_type="text/csv") == (202, {"rows": 1})
    assert "Traceback" not in capfd.readouterr().err


def test_what_there_is_no_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many rows a second, too many streams, a full disk: said, and the next row is taken."""
    intake = Intake(Journal(tmp_path), keys=Keys("id", 1), rate=Rate(0.2))
    made = Service(Hub(tmp_path, keyed=True), intake, None, ("127.0.0.1", 0))
    try:
        rows = [{"id": "a", "v": 1}, {"id": "b", "v": 2}]
        status, told = ask(made.port, "/rows", rows, **JSON)
        assert (status, told["rows"], told["left_out"]) == (202, 1, 1)
        assert ask(made.port, "/rows", rows[1:], **JSON)[0] == 422
        assert ask(made.port, "/rows", rows[:1] * 2, **JSON)[0] == 429
        with monkeypatch.context() as patch:
            full = OSError(errno.ENOSPC, "No space left on device")
            patch.setattr("rmcvi.app.serve.journal.os.statvfs", Mock(side_effect=full))
            status, told = ask(made.port, "/rows", rows[:1], **JSON)
            assert status == 507 and "No space" in told["error"]
        assert "rmcvi_rows_left_out 2.0" in ask(made.port, "/metrics")[1]
        assert ask(made.port, "/api/streams")[1]["streams"] == []
    finally:
        made.close()
        intake.journal.close()
    assert intake.journal.path.read_text() == '{"id": "a", "v": 1}\n'


def test_tokens(service: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading and writing apart; only health and the empty page need none."""
    port = service(RMCVI_TOKEN=SECRET, RMCVI_READ_TOKEN=OTHER)

    def with_token(path: str, token: str, body: Any = None) -> int:
        return ask(port, path, body, authorization=f"Bearer {token}", **JSON)[0]

    assert ask(port, "/api/latest")[0] == 401
    assert ask(port, f"/api/latest?token={SECRET}")[0] == 401
    assert with_token("/api/latest", OTHER) == 200 == with_token("/metrics", SECRET)
    assert with_token("/api/latest", "x" * 20) == 401
    assert with_token("/rows", OTHER, {"a": 1}) == 401
    assert with_token("/rows", SECRET, {"a": 1}) == 202
    assert ask(port, "/healthz")[0] == 200 == ask(port, "/")[0]
    monkeypatch.delenv("RMCVI_TOKEN")
    with pytest.raises(Refusal, match="others can reach"):
        tokens("0.0.0.0")
    monkeypatch.setenv("RMCVI_TOKEN", "short")
    with pytest.raises(Refusal, match="at least"):
        tokens("127.0.0.1")


def test_a_webhook_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second attempt is taken; it is signed; an alarm is told once, old ones not at all."""
    monkeypatch.setenv("RMCVI_WEBHOOK_SECRET", SECRET)
    taken: list[tuple[bytes, str]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            taken.append((body, self.headers[SIGNATURE]))
            self.send_response(500 if len(taken) == 1 else 204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        webhook = Webhook(f"http://127.0.0.1:{server.server_port}/alarms", soonest=0.05)
        hub = Hub(tmp_path)
        hub.alarmed = webhook.tell
        for number in (1, 2):
            hub.publish(
                None, json.dumps({"row": number, "time": None, "alarms": ["a: stuck"]}) + "\n"
            )
        end = time.monotonic() + 30.0
        while not webhook.sent:
            assert time.monotonic() < end
            time.sleep(0.02)
        webhook.close()
        server.shutdown()
    assert len(taken) == 2 and taken[0] == taken[1]
    body, signed = taken[1]
    assert json.loads(body) == {
        "run": tmp_path.name,
        "sentence": "a: stuck",
        "row": 1,
        "time": None,
    }
    assert signed == hmac.new(SECRET.encode(), body, "sha256").hexdigest()
    with pytest.raises(Refusal, match="--webhook"):
        Webhook("file:///etc/passwd")


def waiting(service: Running) -> float:
    found = re.search(r"^rmcvi_rows_waiting (.*)$", ask(service.port, "/metrics")[1], re.MULTILINE)
    assert found is not None
    return float(found[1])


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[[], Running]]:
    """Starts the service; none outlives the test."""
    made: list[Running] = []

    def start() -> Running:
        made.append(Running(tmp_path, "--model", MODEL))
        return made[-1]

    (tmp_path / "cheap_fleet.py").write_text(CHEAP)

    yield start
    for each in made:
        each.kill()


@pytest.mark.slow
def test_killed_it_goes_on_to_the_byte(
    running: Callable[[], Running], tmp_path: Path, subtests: Any, monkeypatch: Any, capsys: Any
) -> None:
    """Rows by POST, a kill, the rest; the estimates are those of `rmcvi learn` on all rows."""
    first = running()
    assert ask(first.port, "/rows", [row(i) for i in range(60)], **JSON) == (202, {"rows": 60})
    first.wait_for(60)
    assert ask(first.port, "/rows", [row(i) for i in range(60, 90)], **JSON)[0] == 202
    first.end(signal.SIGKILL)
    second = running()
    assert waiting(second) >= 30, "starting takes longer than asking"
    second.wait_for(90)
    assert waiting(second) == 0
    for i in range(90, 200, 10):
        ask(second.port, "/rows", [row(j) for j in range(i, i + 10)], **JSON)
    until(lambda: ask(second.port, "/api/latest")[1]["row"] == 200)  # told after it is learned
    latest = ask(second.port, "/api/latest")[1]
    assert latest["time"] == "2026-01-09T07:00:00"
    ahead = ask(second.port, "/api/forecast?horizon=3")[1]
    assert ahead["time"][0] == "2026-01-09T08:00:00" and len(ahead["mean"]) == 3
    past = ask(second.port, "/api/smooth?lag=2")[1]
    assert past["row"] == [198, 199, 200] and past["mean"][-1][1] == latest["level"]
    assert ask(second.port, "/api/smooth?lag=-1")[0] == 400
    (alarm,) = [a for a in ask(second.port, "/api/alarms")[1] if "level" in a["sentence"]][:1]
    note = {"sentence": alarm["sentence"], "note": "being looked at"}
    assert ask(second.port, "/api/notes", note, **JSON)[0] == 200
    assert alarm["sentence"] in {
        a["sentence"] for a in ask(second.port, "/api/alarms")[1] if a["note"]
    }
    with subtests.test("page"):
        page = shown(second.port, tmp_path)
        assert 'data-rows="200"' in page and "being looked at" in page
        assert page.count("<canvas") == 2
    assert second.end(signal.SIGTERM) == 128 + signal.SIGTERM
    (tmp_path / "x.csv").write_text("a\n1\n2\n3\n")
    monkeypatch.chdir(tmp_path)
    refused = call(capsys, "serve", "x.csv", "--out", "run", "--port", "0")
    assert refused.status == 2 and "learns from run/rows.jsonl" in refused.err
    words = ("--out", "whole", "--quiet", "--no-report", "--model", MODEL)
    assert call(capsys, "learn", "run/rows.jsonl", *words).status == 0
    whole, found = (tmp_path / name / "estimates.jsonl" for name in ("whole", "run"))
    assert found.read_bytes() == whole.read_bytes()
