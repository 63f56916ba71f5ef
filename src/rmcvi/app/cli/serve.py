"""`rmcvi serve`: rows from a broker, by HTTP or from a growing file, and a page to watch."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.learn import Output, Start, carry_on
from rmcvi.app.cli.options import (
    BAD_ROWS,
    Calendar,
    Columns,
    Level,
    OnBadRow,
    Quiet,
    Seasons,
    a_level,
    listed,
    one_of,
)
from rmcvi.app.cli.resume import kept_in
from rmcvi.app.run.directory import ESTIMATES, RUN, Directory, last_lines
from rmcvi.app.run.plan import SENSITIVITY, make_plan
from rmcvi.app.run.progress import Progress
from rmcvi.app.run.speech import Refusal
from rmcvi.app.run.stopper import Stopper
from rmcvi.app.sources import Pace, Position, read

EXAMPLES = """
[bold]Examples[/bold]

rmcvi serve http --out plant.run

curl -H 'content-type: application/json' -d '{"flow": 3.1, "level": 12}' localhost:8080/rows

rmcvi serve mqtt://broker/plant/pump-7 --arrival --out pump.run --port 8081

rmcvi serve redis://localhost/readings --out readings.run

rmcvi serve kafka://host/topic --out topic.run

rmcvi serve log.csv --out log.run

RMCVI_TOKEN_FILE=token rmcvi serve http --host 0.0.0.0 --out plant.run
"""
HTTP = "http"


@app.command(epilog=EXAMPLES)
def serve(
    source: Annotated[
        str,
        typer.Argument(
            help="http (rows by POST), mqtt://host/topic, redis://host/stream,"
            " kafka://host/topic, or a text file that grows."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Run directory; one that is there is gone on with.")],
    host: Annotated[
        str, typer.Option(help="Address to listen at; another than this machine's needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the page; 0 for any.", min=0)] = 8080,
    arrival: Annotated[
        bool, typer.Option("--arrival", help="A row's time is that of its arrival.")
    ] = False,
    columns: Columns = None,
    calendar: Calendar = None,
    season: Seasons = None,
    level: Level = 0.9,
    on_bad_row: OnBadRow = "skip",
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="Where to POST each new alarm, signed.")
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Learn from rows as they come, and show them: a page, an API and metrics on one port.

    Rows that are pushed are written to rows.jsonl in the run directory before they are
    acknowledged, and learned from there: killed at any moment, the service goes on to the byte. It
    starts to learn with the third row. Tokens and passwords come from the environment
    (RMCVI_TOKEN, RMCVI_READ_TOKEN, RMCVI_BROKER_PASSWORD, each with _FILE for a file;
    RMCVI_WEBHOOK_SECRET).
    """
    try:
        from rmcvi.app.serve.hub import HISTORY, Hub
        from rmcvi.app.serve.inlets import SCHEMES, Intake, inlet_of
        from rmcvi.app.serve.journal import Journal
        from rmcvi.app.serve.server import Service
        from rmcvi.app.serve.webhook import Webhook
    except ImportError as error:
        raise Refusal(
            f"{error.name}: is not installed, expected pip install 'rmcvi[serve]'"
        ) from None
    bad = one_of("--on-bad-row", on_bad_row, BAD_ROWS) or "skip"
    scheme = source.partition("://")[0]
    pushed = source == HTTP or scheme in SCHEMES
    if "://" in source and not pushed:
        raise Refusal(f"{scheme}: got an unknown kind of address, expected {', '.join(SCHEMES)}")
    inlet = inlet_of(source) if pushed and source != HTTP else None
    progress, stopper = Progress(quiet), Stopper()
    pace, intake, place = stopper.pace, None, source
    if pushed:
        journal = Journal(out)
        intake = Intake(journal, arrival)
        pace, place = replace(pace, sleep=journal.wait), str(journal.path)
    hub = Hub(out)
    if webhook is not None:
        hub.alarmed = Webhook(webhook).tell
    service = Service(hub, intake, inlet, (host, port))
    progress.say([f"Page: http://{host if ':' not in host else f'[{host}]'}:{service.port}/"])
    try:
        if (out / RUN).exists():
            start = _resumed(out, place, pace)
        else:
            names = [listed(columns), listed(calendar), listed(season)]
            start = _begun(place, out, pace, a_level(level), names, bad)
        kept = {} if start.kept is None else start.kept.extra
        length = kept.get("bytes", {}).get(ESTIMATES, 0)
        past = last_lines(out / ESTIMATES, length, HISTORY) if length else []
        output = Output(None, None, False, False, lambda engine: hub.begin(engine, past))
        return carry_on(start, progress, stopper, output)
    finally:
        service.close()
        if intake is not None:
            intake.journal.close()


def _begun(
    place: str, out: Path, pace: Pace, level: float, names: list[list[str]], bad: str
) -> Start:
    """A new run, once its first rows are there."""
    columns, calendar, season = names
    stream = read(place, columns=columns or None, on_bad_row=bad, follow=True, pace=pace)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    options = {"calendar": calendar, "season": season, "follow": True, "on_bad_row": bad}
    plan = make_plan(
        place,
        stream,
        "seasonal",
        level,
        0,
        now,
        limit=None,
        checkpoint_every=500,
        sensitivity=SENSITIVITY,
        **options,
    )
    return Start(plan, Directory.create(out, plan, False), stream)


def _resumed(out: Path, place: str, pace: Pace) -> Start:
    """The run that is there, if it learns from this source."""
    room, plan = Directory.open(out)
    if Path(plan.place()).resolve() != Path(place).resolve():
        raise Refusal(
            f"{out}: learns from {plan.source}, expected the same source or another --out"
        )
    plan = plan.trusted(None)
    room.lock()
    kept = kept_in(room)
    extra = {} if kept is None else kept.extra
    after = Position.from_json(extra["source"]) if extra.get("source") else None
    return Start(plan, room, plan.stream(after, pace), kept)
