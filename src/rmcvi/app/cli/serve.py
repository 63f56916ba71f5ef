"""`rmcvi serve`: rows from a broker, by HTTP or from a growing file, and a page to watch."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.grouping import grouped
from rmcvi.app.cli.groups import LearnOptions
from rmcvi.app.cli.options import OnBadRow, Quiet
from rmcvi.app.cli.serving import ManyStreams, OneStream, Room
from rmcvi.app.run.directory import FLEET, RUN, check_free
from rmcvi.app.run.progress import Progress
from rmcvi.app.run.speech import Refusal
from rmcvi.app.run.stopper import Stopper
from rmcvi.core.checks import nearest

EXAMPLES = """
[bold]Examples[/bold]

rmcvi serve http --out plant.run

curl -H 'content-type: application/json' -d '{"flow": 3.1, "level": 12}' localhost:8080/rows

rmcvi serve mqtt://broker/plant/pump-7 --arrival --out pump.run --port 8081

rmcvi serve redis://localhost/readings --out readings.run

rmcvi serve kafka://host/topic --out topic.run

rmcvi serve log.csv --out log.run

rmcvi serve mqtt://broker/plant/+ --key topic --to mqtt://broker/estimates --out plant.run

RMCVI_TOKEN_FILE=token rmcvi serve http --host 0.0.0.0 --out plant.run
"""
HTTP = "http"


@dataclass(frozen=True)
class ServedOptions(LearnOptions):
    """As those of `learn`; a bad row is no reason to stop, and a model is said at each start."""

    model: Annotated[
        str | None, typer.Option(help="As for `rmcvi learn`; my_module:make at each start.")
    ] = None
    on_bad_row: OnBadRow = "skip"


@dataclass(frozen=True)
class IntakeOptions:
    """Which rows come in."""

    key: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="Many streams, told apart by this field; 'topic' for that of a message.",
        ),
    ] = None
    arrival: Annotated[
        bool, typer.Option("--arrival", help="A row's time is that of its arrival.")
    ] = False
    max_keys: Annotated[int, typer.Option(help="Most streams of --key.", min=1)] = 10_000
    max_rate: Annotated[float, typer.Option(help="Most rows a second.", min=1.0)] = 10_000.0
    keep_rows: Annotated[
        str,
        typer.Option(
            metavar="SIZE|DAYS",
            help="Rows that were learned from and are kept: 10GB, 30d or all.",
        ),
    ] = "10GB"


@dataclass(frozen=True)
class PageOptions:
    """Who may look."""

    host: Annotated[
        str, typer.Option(help="Address to listen at; one that others can reach needs a token.")
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option(help="Port of the page; 0 for any.", min=0, max=65_535)] = (
        8080
    )
    max_connections: Annotated[
        int, typer.Option(help="Most requests at a time, open pages among them.", min=1)
    ] = 500


@dataclass(frozen=True)
class SendingOptions:
    """Who is told."""

    to: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where estimates go, such as mqtt://host/topic (alarms: topic/alarms).",
        ),
    ] = None
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="Where to POST each new alarm, signed.")
    ] = None


@app.command(epilog=EXAMPLES)
@grouped
def serve(
    source: Annotated[
        str,
        typer.Argument(
            help="http (rows by POST), mqtt://host/topic, redis://host/stream,"
            " kafka://host/topic, or a text file that grows."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Run directory; one that is there is gone on with.")],
    *,
    rows: IntakeOptions,
    page: PageOptions,
    wanted: ServedOptions,
    sending: SendingOptions,
    quiet: Quiet = False,
) -> int:
    """Learn from rows as they come, and show them: a page, an API and metrics on one port.

    Rows that are pushed are written to rows.jsonl in the run directory before they are
    acknowledged, and learned from there: killed at any moment, the service goes on to the byte. It
    starts to learn with the third row (with --arrival the thirtieth, or after a minute), with --key
    that of the first stream. Tokens and passwords come from the environment (RMCVI_TOKEN,
    RMCVI_READ_TOKEN, RMCVI_BROKER_PASSWORD, each with _FILE for a file; RMCVI_WEBHOOK_SECRET).
    """
    try:
        from rmcvi.app.serve.hub import Hub
        from rmcvi.app.serve.inlets import SCHEMES, inlet_of
        from rmcvi.app.serve.intake import Intake, Rate
        from rmcvi.app.serve.journal import Journal
        from rmcvi.app.serve.outlets import Sender, check_outlet
        from rmcvi.app.serve.parts import Keep, Keeper
        from rmcvi.app.serve.server import Service
        from rmcvi.app.serve.webhook import Webhook
    except ImportError as error:
        raise Refusal(
            f"{error.name}: is not installed, expected pip install 'rmcvi[serve]'"
        ) from None
    scheme = source.partition("://")[0]
    pushed = source == HTTP or scheme in SCHEMES
    if "://" in source and not pushed:
        raise Refusal(f"{scheme}: got an unknown kind of address, expected {', '.join(SCHEMES)}")
    if not pushed and not Path(source).exists():
        near = nearest(source, [HTTP, *(path.name for path in Path().iterdir())])
        hint = f"; did you mean {near!r}?" if near else ""
        raise Refusal(f"{source}: no such file, expected http, an address or a text file{hint}")
    inlet = inlet_of(source) if pushed and source != HTTP else None
    if sending.to is not None:
        check_outlet(sending.to, source)
    keep = Keep.of(rows.keep_rows)
    if not any((out / name).exists() for name in (RUN, FLEET)):
        check_free(out, force=False)
    stopper = Stopper()
    pace, intake, place = stopper.pace, None, source
    if pushed:
        journal = Journal(out)
        intake = Intake(journal, rows.arrival, rate=Rate(rows.max_rate))
        pace, place = replace(pace, sleep=journal.wait), str(journal.path)
    hub = Hub(out, keyed=rows.key is not None)
    if sending.webhook is not None:
        hub.alarmed = Webhook(sending.webhook).tell
    complain = None if intake is None else intake.complain
    room = Room(out, place, pace, wanted, rows.arrival, complain)
    work = OneStream(room) if rows.key is None else ManyStreams(room, rows.key)
    with ExitStack() as parts:
        if intake is not None:
            parts.callback(intake.journal.close)
            parts.callback(Keeper(intake.journal, keep).close)
        work.prepare(intake, rows.max_keys)
        service = Service(hub, intake, inlet, (page.host, page.port), page.max_connections)
        parts.callback(service.close)
        if sending.to is not None:
            sender = Sender(sending.to, work.estimates)
            hub.grown = sender.more.set
            parts.callback(sender.close)
        progress, host = Progress(quiet), page.host
        progress.say(
            [
                f"Page: http://{host if ':' not in host else f'[{host}]'}:{service.port}/",
                "The first rows wait until the program is compiled, which takes half a minute.",
            ]
        )
        status = work.run(hub, stopper, progress)
        progress.say(["Stopped; the same command goes on."])
        return status
