"""The loop: read rows, learn from them, write estimates, remember where we are, stop when asked.

As many rows as are there go through the learner together; before the source has to wait, those that
it gave are learned. The files do not depend on how the rows were cut.

The checkpoint holds the learner, the place in the source and the lengths of the output files, which
are on disk before it is. Whatever comes after it is cut off and done again: the same rows by the
same program give the same bytes.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from rmcvi.app.run.directory import ESTIMATES, GROWING, PARAMETERS, REJECTED, SUMMARY, Directory
from rmcvi.app.run.horizons import horizon_rows
from rmcvi.app.run.output import Appended, Lines, moment, to_stdout
from rmcvi.app.run.plan import Plan, anchored
from rmcvi.app.run.progress import Progress
from rmcvi.app.run.scores import RunningScores
from rmcvi.app.run.stopper import Interrupted, Stopper, next_row
from rmcvi.app.sources import Counts, DataError, Observation, Position, Stream
from rmcvi.core.files import to_json
from rmcvi.learners import CAPACITY, Live

PARAMETERS_EVERY = 50
PATIENCE = 30.0
"""Seconds after which a checkpoint is due, however few the rows."""
SHARE = 20.0
"""A checkpoint may take one part in so many of the time."""


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
        self._taken: list[Observation] = []
        self._headed = False
        self.before = self.rows
        """Rows that earlier processes learned from."""
        self.published: Callable[[str], None] = lambda text: None
        """Told the lines of estimates, once they are written."""
        self.lock = threading.RLock()
        """Held while the learner changes and its lines are told."""
        self._files: dict[str, Appended] = {}
        if directory is not None:
            lengths, checksums = kept.get("bytes", {}), kept.get("checksums", {})
            for name in GROWING:
                length = lengths.get(name, 0)
                checksum = checksums.get(name) if length else 0
                self._files[name] = Appended(directory.path / name, length, checksum)
            for file in self._files.values():  # once all of them are as long as they should be
                file.cut()

    def run(self, stream: Stream, stopper: Stopper, limit: int | None) -> None:
        """Learn until the stream ends, the limit is reached or somebody asks to stop."""
        stream.counts = self._counts.copy()
        self.met = stream.counts
        rows = iter(stream)
        stopper.before_waiting = self._learn
        self.progress.begin()
        if not self.rows:
            self.save()  # from now on, rows without a checkpoint mean that it was lost
        try:
            while not stopper.asked() and not self._reached(limit):
                observation = next_row(rows, stopper)
                if observation is None:
                    break
                self._take(observation, stream)
                if len(self._taken) >= self._room():
                    self._learn()
            self._learn()
        except (DataError, BrokenPipeError):
            self._learn()
            self.save()
            raise
        except OSError as error:
            raise self._full(error) from None
        except Interrupted:
            if self._taken:
                raise
        finally:
            self.progress.end(self.scores)
        try:
            self.save()
            self._reject(stream)  # below the last row: met again, and so written again, by a resume
        except OSError as error:
            raise self._full(error) from None

    def _reached(self, limit: int | None) -> bool:
        return limit is not None and self.rows + len(self._taken) >= limit

    def _room(self) -> int:
        """Rows that may be learned together: to the next line of parameters, or checkpoint."""
        every = self.plan.options["checkpoint_every"]
        room = min(CAPACITY, every - self._pending % every)
        return min(room, PARAMETERS_EVERY - self.rows % PARAMETERS_EVERY) if self._files else room

    def _take(self, observation: Observation, stream: Stream) -> None:
        """Put a row aside, with what the source held up to it; nothing is saved before `_learn`."""
        self._taken.append(observation)
        self._reject(stream, _own_place(observation))
        self._accounted = self._rejected
        self._count(observation, stream.counts)

    def _full(self, error: OSError) -> OSError:
        """The same with advice; the last checkpoint stands."""
        if self.directory is None:
            return error
        advice = f"`rmcvi resume {self.directory.path}` goes on once this is mended"
        return OSError(error.errno, f"{error.strerror}; {advice}", error.filename)

    def _learn(self) -> None:
        """Learn from the rows that were put aside, write them down, save if it is due.

        Before a wait there may be none: what was too dear to save then may be due by now.
        """
        if self._taken:
            with self.lock:
                self._learn_from(self._taken)
        if self._pending:
            self._save_if_due()

    def _learn_from(self, taken: list[Observation]) -> None:
        y = np.array([row.y for row in taken])
        known = np.array([self.plan.known(row) for row in taken])
        estimates = self.live.learn_many(y, known, np.array([row.dt for row in taken]))
        block = (self.rows + 1, [moment(row.time, self.plan.calendar) for row in taken])
        self.rows += len(taken)
        self._pending += len(taken)
        self.scores.add(y, estimates)
        if self._files:
            text = self._lines.block(*block, y, estimates)
            self._files[ESTIMATES].write(text)
            self.published(text)
            if self.rows % PARAMETERS_EVERY == 0:
                self._write_parameters()
        self._position = taken[-1].position or self._position
        self.progress.more(len(taken), self.scores)
        self._taken = []
        if self._stdout is not None:
            header = "" if self._headed else self._stdout.header(estimates.state_mean.shape[1])
            self._headed = True
            to_stdout(header + self._stdout.block(*block, y, estimates))

    def _write_parameters(self) -> None:
        numbers = {k: float(f"{v:.9g}") for k, v in self.live.parameters().items()}
        if numbers:
            self._files[PARAMETERS].write(to_json({"row": self.rows, **numbers}) + "\n")

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
            self._counts = now.copy()

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
                "checksums": {name: file.checksum for name, file in self._files.items()},
                "counts": self._counts.to_json(),
                "scores": self.scores.to_json(),
                "rejected": self._accounted,
                "seconds": self.seconds,
            },
        )
        self._saved = time.perf_counter()
        self._pending, self._cost = 0, self._saved - begun

    @property
    def clock(self) -> float | None:
        """The time of the last row."""
        return None if self._position is None else self._position.clock

    @property
    def seconds(self) -> float:
        """Time spent on the run, by all processes that had a part in it."""
        return self._seconds + time.perf_counter() - self._begun

    def summary(self) -> dict[str, Any]:
        """The scores so far; also written to the directory."""
        summary = self.scores.summary(self.seconds, self.met.to_json())
        summary["rejected"] = self._rejected
        record, variance = self.live.by_horizon(), self.scores.variance()
        summary["horizons"] = horizon_rows(record, self.live.columns, variance)
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
