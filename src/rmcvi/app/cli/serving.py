"""What `rmcvi serve` runs beside its page: one stream, or many by a key."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmcvi.app.cli.groups import LearnOptions
from rmcvi.app.cli.learn import Output, Start, carry_on
from rmcvi.app.cli.resume import kept_in
from rmcvi.app.fleet.plan import FLEET, FleetPlan
from rmcvi.app.fleet.shard import Shard
from rmcvi.app.run.directory import ESTIMATES, RUN, Directory, last_lines
from rmcvi.app.run.engine import Engine
from rmcvi.app.run.length import LONG, MANY, SERVED
from rmcvi.app.run.plan import Plan
from rmcvi.app.run.progress import Progress
from rmcvi.app.run.speech import Refusal
from rmcvi.app.run.stopper import Stopper
from rmcvi.app.sources import DataError, Pace, Position, Stream, first_stream

if TYPE_CHECKING:
    from rmcvi.app.serve.hub import Hub
    from rmcvi.app.serve.intake import Intake

LEAST, ARRIVED, HEAD = 3, 30, 20_000
"""Rows of the first stream that are waited for; if their times are those of arrival, from which
three rows say little of the usual step; unless so many rows have come."""
PATIENCE, SHORTEST = 60.0, 1e-3
"""Seconds after which three rows are enough all the same; a usual step, of times of arrival: what
comes closer together came in one message, and says nothing of the step."""
JUNK = 200
"""Rows that are waited for until some can be learned from: what the reader looks at."""
NEW = "estimates-0-0.jsonl"
"""What a new fleet of one shard writes."""
PAST = 100_000
"""Lines of all streams that are looked at for those that a page shows."""


@dataclass(frozen=True)
class Room:
    """Where a service is at home."""

    out: Path
    place: str
    """The file that is followed."""
    pace: Pace
    wanted: LearnOptions
    """Of a new run; its model is said again to allow an old run's own code."""

    arrival: bool = False
    """Whether a row's time is that of its arrival."""
    trouble: Callable[[str], None] | None = None
    """Told what is wrong with the first rows, if they were pushed and more may come."""

    def read(self, *ignored: str) -> Stream:
        """The source, once its first rows are there: anybody may send junk first."""
        pace = self.pace
        while True:
            rows = _lines(self.place)
            try:
                stream = self._read(ignored)
                if self.trouble is not None:
                    self.trouble("")
                return stream
            except DataError as error:
                if self.trouble is None or rows >= JUNK or pace.stop():
                    raise
                self.trouble(f"{error}; waiting for other rows")
            while _lines(self.place) <= rows and not pace.stop():
                pace.sleep(pace.poll)

    def _read(self, ignored: tuple[str, ...]) -> Stream:
        from rmcvi.app.serve.journal import MARK, PART

        options: dict[str, Any] = {
            "follow": True,
            "pace": self.pace,
            "ignored": [MARK, PART, *ignored],
        }
        stream = self.wanted.read(self.place, **options)
        step = stream.schema.usual
        if self.arrival and (step is None or step.size < SHORTEST):
            return self.wanted.read(self.place, **options, time=())
        return stream

    def enough(self, rows: int, begun: float) -> bool:
        """Whether so many rows of a stream are enough to begin with, after so long."""
        patient = self.arrival and time.monotonic() - begun < PATIENCE
        return rows >= (ARRIVED if patient else LEAST)

    def plan(self, stream: Stream, long: int = MANY) -> Plan:
        """For rows such as the first ones; with `long` rows, one piece pays."""
        return self.wanted.plan(self.place, stream, long, follow=True)

    def check(self, plan: Plan) -> None:
        """Refuse a run that learns from something else."""
        if Path(plan.place()).resolve() != Path(self.place).resolve():
            raise Refusal(
                f"{self.out}: learns from {plan.source}, expected the same source or another --out"
            )


class OneStream:
    """A run as that of `rmcvi learn --follow`."""

    def __init__(self, room: Room):
        self._room, self._out = room, room.out
        if (room.out / FLEET).exists():
            key = FleetPlan.read(room.out).key
            raise Refusal(f"{room.out}: holds streams told apart by {key!r}, expected --key {key}")

    @property
    def estimates(self) -> Path:
        """What is written."""
        return self._out / ESTIMATES

    def prepare(self, intake: "Intake | None", max_keys: int) -> None:
        """All rows are let in."""
        del intake, max_keys

    def run(self, hub: "Hub", stopper: Stopper, progress: Progress) -> int:
        """Until somebody asks to stop; returns the exit status."""
        from rmcvi.app.serve.learned import One
        from rmcvi.app.serve.past import DAY

        start = self._resumed() if (self._out / RUN).exists() else self._begun()
        kept = {} if start.kept is None else start.kept.extra
        length = kept.get("bytes", {}).get(ESTIMATES, 0)
        past = last_lines(self._out / ESTIMATES, length, DAY) if length else []

        def begun(engine: Engine) -> None:
            hub.begin(One(engine), past)
            engine.published = lambda text: hub.publish(None, text)

        output = Output(None, None, False, False, begun, resumable=False)
        return carry_on(start, progress, stopper, output)

    def _begun(self) -> Start:
        """A new run, once its first rows are there."""
        room, begun = self._room, time.monotonic()
        while room.arrival and not room.pace.stop() and not room.enough(_lines(room.place), begun):
            room.pace.sleep(room.pace.poll)
        stream = room.read()
        plan = room.plan(stream, SERVED if len(stream.schema.columns) == 1 else LONG)
        return Start(plan, Directory.create(self._out, plan, False), stream)

    def _resumed(self) -> Start:
        """The run that is there, if it learns from this source."""
        room, plan = Directory.open(self._out)
        self._room.check(plan)
        plan = plan.trusted(self._room.wanted.model)
        room.lock()
        kept = kept_in(room)
        extra = {} if kept is None else kept.extra
        after = Position.from_json(extra["source"]) if extra.get("source") else None
        return Start(plan, room, plan.stream(after, self._room.pace), kept)


class ManyStreams:
    """A fleet of one shard, in this process."""

    def __init__(self, room: Room, key: str):
        self._room, self._out, self._key = room, room.out, key
        self._shard: Shard | None = None
        if (room.out / RUN).exists():
            raise Refusal(
                f"{room.out}: holds a run of one stream, expected another --out or no --key"
            )

    @property
    def estimates(self) -> Path:
        """What is written."""
        old = (self._out / FLEET).exists()
        return self._out / (FleetPlan.read(self._out).estimates(0) if old else NEW)

    def prepare(self, intake: "Intake | None", max_keys: int) -> None:
        """Go on with the fleet that is there; only so many keys are let in."""
        from rmcvi.app.serve.intake import Keys, keys_in

        known, offset = set[str](), 0
        if (self._out / FLEET).exists():
            fleet = FleetPlan.read(self._out)
            self._room.check(fleet.plan)
            if (fleet.key, fleet.shards) != (self._key, 1):
                what = f"holds streams told apart by {fleet.key!r} in {fleet.shards} shards"
                raise Refusal(f"{self._out}: {what}, expected {self._key!r} in one")
            self._shard = self._open()
            self._shard.residents.wake_all()  # the page ranks them
            known = set(self._shard.streams.keys)
            offset = self._shard.position.offset if self._shard.position else 0
        if intake is not None:
            known |= keys_in(intake.journal.path, self._key, offset)
            intake.keys = Keys(self._key, max_keys, known)

    def run(self, hub: "Hub", stopper: Stopper, progress: Progress) -> int:
        """Until somebody asks to stop; returns the exit status."""
        from rmcvi.app.serve.learned import Many

        shard = self._shard or self._begun(progress)
        path = self.estimates
        hub.begin(Many(shard), last_lines(path, path.stat().st_size, PAST))
        shard.published = hub.publish
        try:
            with stopper:
                for _ in shard.run():
                    pass
        finally:
            shard.close()
        return stopper.status

    def _begun(self, progress: Progress) -> Shard:
        """A new fleet, once the first stream is known."""
        plan = self._room.plan(self._first())
        FleetPlan(plan, self._key, 1).write(self._out)
        progress.say([*plan.assumed, f"Streams: by {self._key!r}."])
        return self._open()

    def _open(self) -> Shard:
        return Shard(self._out, 0, self._room.wanted.model, self._room.pace)

    def _first(self) -> Stream:
        """The first stream, when it has some rows."""
        place, pace, begun = self._room.place, self._room.pace, time.monotonic()
        while True:
            first = first_stream(self._room.read(self._key), self._key)
            many = _lines(place) == HEAD
            if many or pace.stop() or self._room.enough(len(first.head(ARRIVED)), begun):
                return first
            pace.sleep(pace.poll)


def _lines(place: str) -> int:
    """Lines of a file, up to `HEAD`."""
    with open(place, "rb") as file:
        return sum(1 for _ in islice(file, HEAD))
