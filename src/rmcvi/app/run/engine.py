"""The loop: read a row, learn from it, write the estimates, remember where we are, stop when asked.

The checkpoint holds the learner, the place in the source and the lengths of the output files, which
are on disk before it is. Whatever comes after it is cut off and done again: the same rows by the
same program give the same bytes.
"""

import copy
import signal
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from types import FrameType
from typing import Any

from rmcvi.app.run.directory import ESTIMATES, GROWING, PARAMETERS, REJECTED, SUMMARY, Directory
from rmcvi.app.run.output import Appended, Lines, moment, to_stdout
from rmcvi.app.run.plan import Plan, anchored
from rmcvi.app.run.progress import Progress
from rmcvi.app.run.scores import RunningScores
from rmcvi.app.sources import Counts, DataError, Observation, Position, Stream
from rmcvi.core.files import to_json
from rmcvi.learners import Live

ASKED = (signal.SIGINT, signal.SIGTERM)
AGAIN = 0.1
"""Seconds after which we look whether a wait began just as we were asked, and end it."""
PARAMETERS_EVERY = 50
PATIENCE = 30.0
"""Seconds after which a checkpoint is due, however few the rows."""
SHARE = 20.0
"""A checkpoint may take one part in so many of the time."""


class Interrupted(KeyboardInterrupt):
    """Raised while we wait for a row, or if we are asked twice."""


class Stopper:
    """Catches SIGINT and SIGTERM within a `with` block, so that a row is finished first.

    After the second one nothing is waited for; more are ignored.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.waiting = False
        self._times = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stopper":
        try:
            self._before = {number: signal.signal(number, self._ask) for number in ASKED}
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._look)
        except ValueError:
            self._before = {}  # not the main thread: signals are not ours
        return self

    def __exit__(self, *_: object) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def asked(self) -> bool:
        """Whether to stop."""
        return self.signal != 0

    @property
    def status(self) -> int:
        """Exit status: 128 and the signal's number, 0 without one."""
        return 128 + self.signal if self.signal else 0

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._times += 1
        self.signal = number
        signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)
        if self._times == 2 or (self._times == 1 and self.waiting):
            raise Interrupted

    def _look(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.waiting:
            raise Interrupted


class Engine:
    """One run from where it is to where it stops."""

    def __init__(
        self,
        plan: Plan,
        live: Live,
        directory: Directory | None,
        kept: dict[str, Any],
        progress: Progress,
        form: str | None,
    ):
        self.plan, self.live, self.directory, self.progress = plan, live, directory, progress
        self.rows: int = kept.get("rows", 0)
        self.scores = RunningScores(plan.columns, kept.get("scores"))
        source = kept.get("source")
        self._position = None if source is None else Position.from_json(source)
        known = {field.name for field in fields(Counts)}
        counts = kept.get("counts", {})
        self._counts = Counts(**{name: n for name, n in counts.items() if name in known})
        self.met = self._counts
        """What the source held, rows that were not learned from included."""
        self._rejected = self._accounted = kept.get("rejected", 0)
        self._seconds: float = kept.get("seconds", 0.0)
        self._lines = Lines(plan.columns, "jsonl", plan.row_fields)
        self._stdout = None if form is None else Lines(plan.columns, form, plan.row_fields)
        self._begun = self._saved = time.perf_counter()
        self._pending, self._cost = 0, 0.0
        self._busy = self._headed = False
        self._files: dict[str, Appended] = {}
        if directory is not None:
            lengths = kept.get("bytes", {})
            for name in GROWING:
                self._files[name] = Appended(directory.path / name, lengths.get(name, 0))
            for file in self._files.values():  # once all of them are as long as they should be
                file.cut()

    def run(self, stream: Stream, stopper: Stopper, limit: int | None) -> None:
        """Learn until the stream ends, the limit is reached or somebody asks to stop."""
        stream.counts = copy.deepcopy(self._counts)
        self.met = stream.counts
        rows = iter(stream)
        self.progress.begin()
        if not self.rows:
            self.save()  # from now on, rows without a checkpoint mean that it was lost
        try:
            while not stopper.asked() and (limit is None or self.rows < limit):
                observation = _next(rows, stopper)
                if observation is None:
                    break
                self._busy = True
                self._learn(observation)
                self._reject(stream, _own_place(observation))
                self._accounted = self._rejected
                self._count(observation, stream.counts)
                self._busy = False
                self._save_if_due()
        except (DataError, BrokenPipeError):
            self.save()
            raise
        except OSError as error:
            raise self._full(error) from None
        except Interrupted:
            if self._busy:
                raise
        finally:
            self.progress.end(self.scores)
        try:
            self.save()
            self._reject(stream)  # below the last row: met again, and so written again, by a resume
        except OSError as error:
            raise self._full(error) from None

    def _full(self, error: OSError) -> OSError:
        """The same with advice; the last checkpoint stands."""
        if self.directory is None:
            return error
        advice = f"`rmcvi resume {self.directory.path}` goes on once this is mended"
        return OSError(error.errno, f"{error.strerror}; {advice}", error.filename)

    def _learn(self, observation: Observation) -> None:
        estimate = self.live.learn_one(observation.y, self.plan.known(observation), observation.dt)
        self.rows += 1
        now = moment(observation.time, self.plan.calendar)
        row = (self.rows, now, observation.y, estimate)
        self.scores.add(observation.y, estimate)
        if self._files:
            self._files[ESTIMATES].write(self._lines.line(*row))
            if self.rows % PARAMETERS_EVERY == 0:
                numbers = {k: float(f"{v:.9g}") for k, v in self.live.parameters().items()}
                if numbers:
                    self._files[PARAMETERS].write(to_json({"row": self.rows, **numbers}) + "\n")
        if observation.position is not None:
            self._position = observation.position
        self._pending += 1
        self.progress.row(self.scores)
        if self._stdout is not None:
            header = "" if self._headed else self._stdout.header(len(estimate.state_mean))
            self._headed = True
            to_stdout(header + self._stdout.line(*row))

    def _reject(self, stream: Stream, until: str = "") -> None:
        """Write down bad records, up to the one at a place."""
        while stream.rejected and stream.rejected[0].place != until:
            record = stream.rejected.popleft()
            self._rejected += 1
            if self._files:
                place = record.place.removeprefix(f"{self.plan.path}/")  # as the run was begun
                self._files[REJECTED].write(to_json(record.to_json() | {"place": place}) + "\n")

    def _count(self, observation: Observation, now: Counts) -> None:
        """What was met up to this row; a row that fills a gap comes before the one just read."""
        if observation.filled:
            self._counts = replace(self._counts, filled=now.filled)
        else:
            self._counts = replace(now, bad=dict(now.bad), first=dict(now.first))

    def _save_if_due(self) -> None:
        waited = time.perf_counter() - self._saved
        often = self._pending >= self.plan.options["checkpoint_every"]
        if self.directory is not None and (
            (often and waited >= SHARE * self._cost) or waited >= PATIENCE
        ):
            self.save()

    def save(self) -> None:
        """Write the checkpoint, output first."""
        if self.directory is None or not self._files:
            return
        begun = time.perf_counter()
        for file in self._files.values():
            file.sync()
        source = None if self._position is None else anchored(self._position, self.plan).to_json()
        self.directory.save(
            self.live,
            {
                "rows": self.rows,
                "source": source,
                "bytes": {name: file.length for name, file in self._files.items()},
                "counts": self._counts.to_json(),
                "scores": self.scores.to_json(),
                "rejected": self._accounted,
                "seconds": self.seconds,
            },
        )
        self._saved = time.perf_counter()
        self._pending, self._cost = 0, self._saved - begun

    @property
    def seconds(self) -> float:
        """Time spent on the run, by all processes that had a part in it."""
        return self._seconds + time.perf_counter() - self._begun

    def summary(self) -> dict[str, Any]:
        """The scores so far; also written to the directory."""
        summary = self.scores.summary(self.seconds, self.met.to_json())
        summary["rejected"] = self._rejected
        if self.directory is not None:
            self.directory.write(SUMMARY, summary)
        return summary

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._files = {}

    def warnings(self) -> list[str]:
        """What the source held that was not plain."""
        sentences = self.met.describe()
        if self._rejected and self.directory is not None:
            sentences.append(f"Bad records are in {self.directory.path / REJECTED}.")
        return sentences


def _own_place(observation: Observation) -> str:
    """Where a record stands that is read again after this row: the one that follows a gap."""
    source = observation.position
    return f"{source.name}, line {source.line + 1}" if observation.filled and source else ""


def _next(rows: Iterator[Observation], stopper: Stopper) -> Observation | None:
    """The next row; None at the end, or if somebody asks to stop while we wait for it."""
    try:
        stopper.waiting = True
        return next(rows, None)
    except Interrupted:
        return None
    finally:
        stopper.waiting = False
