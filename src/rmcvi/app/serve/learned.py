"""A run that goes on in another thread, for questions: one stream, or many by their keys."""

import copy
import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rmcvi.app.fleet.opened import OpenedStream, ranked
from rmcvi.app.fleet.plan import FleetPlan
from rmcvi.app.fleet.shard import Shard
from rmcvi.app.fleet.store import CURRENT, Kept
from rmcvi.app.run.directory import CHECKPOINT
from rmcvi.app.run.engine import Engine
from rmcvi.app.run.output import moment
from rmcvi.app.run.plan import Plan
from rmcvi.app.run.smoothing import recent
from rmcvi.app.sources import Schema

OFTEN, SHARE = 1.0, 20.0
"""Seconds for which a ranking of the streams is good; making one may take a part in so many."""
History = Callable[[str], Sequence[str]]
"""The last lines of a stream."""


class Unanswerable(ValueError):
    """A question that has no answer, with a sentence that says why."""


@runtime_checkable
class Learned(Protocol):
    """What can be asked; the only stream of a run of one has the key ''."""

    plan: Plan

    @property
    def rows(self) -> int:
        """Rows that were learned from."""
        ...

    @property
    def met(self) -> int:
        """Rows that were learned from since the start, and bad ones."""
        ...

    @property
    def left_out(self) -> int:
        """Rows that were read and could not be learned from."""
        ...

    @property
    def checkpoint(self) -> Path:
        """The file that is replaced when all was saved."""
        ...

    def about(self, key: str) -> dict[str, Any]:
        """How a stream has fared."""
        ...

    def ranked(self) -> list[dict[str, Any]]:
        """The streams, the most troubled first."""
        ...

    def forecast(self, key: str, horizon: int, level: float) -> dict[str, Any]:
        """The next rows."""
        ...

    def smooth(self, key: str, lag: int | None, level: float, history: History) -> dict[str, Any]:
        """The last rows, given all that came after them."""
        ...


class One:
    """A run of one stream."""

    def __init__(self, engine: Engine):
        self.plan, self._engine = engine.plan, engine
        self._before = self._done()

    @property
    def rows(self) -> int:
        """As `Learned`."""
        return self._engine.rows

    @property
    def met(self) -> int:
        """As `Learned`."""
        return self._done() - self._before

    def _done(self) -> int:
        """Rows of the source, those that were read and wait not among them."""
        return self._engine.rows - self._engine.met.filled + self._engine.met.skipped

    @property
    def left_out(self) -> int:
        """As `Learned`."""
        return self._engine.met.skipped

    @property
    def checkpoint(self) -> Path:
        """As `Learned`."""
        assert self._engine.directory is not None
        return self._engine.directory.path / CHECKPOINT

    def about(self, key: str) -> dict[str, Any]:
        """As `Learned`."""
        del key
        scores = self._engine.scores
        overall = scores.overall()
        error, last = overall.get("rmse"), overall.get("persistence_rmse")
        share = error / last if error is not None and last else None
        return {
            "rows": scores.rows,
            "scores": overall | {"share": share, "columns": scores.by_column()},
        }

    def ranked(self) -> list[dict[str, Any]]:
        """There is but one."""
        return []

    def forecast(self, key: str, horizon: int, level: float) -> dict[str, Any]:
        """As `Learned`."""
        del key
        with self._engine.lock:
            row, last = self._engine.rows, self._engine.clock
            live = copy.deepcopy(self._engine.live)
        times = next_times(self.plan, last, horizon)
        known = [self.plan.inputs_at(np.zeros(0), t) for t in times] if self.plan.inputs else None
        ahead = live.forecast(horizon, known, level=level)
        band = np.stack([np.array(v) for v in (ahead.mean, ahead.low, ahead.high)], -1)
        return told(self.plan, row, times, band)

    def smooth(self, key: str, lag: int | None, level: float, history: History) -> dict[str, Any]:
        """As `Learned`."""
        with self._engine.lock:
            live, lines = copy.deepcopy(self._engine.live), history(key)
        lag = _lag(lag, live.learner.reach, len(lines))
        values = recent(live.learner, live.state, live.scaling, lag, level)
        return _smoothed(self.plan, lines, values)


class Many:
    """The streams of a shard."""

    def __init__(self, shard: Shard):
        self.plan, self._shard = shard.plan, shard
        self._fleet = FleetPlan.read(shard.directory)
        self._before = shard.done
        self._lock, self._ranked, self._again = threading.Lock(), [], 0.0

    @property
    def rows(self) -> int:
        """As `Learned`."""
        return self._shard.rows

    @property
    def met(self) -> int:
        """As `Learned`."""
        return self._shard.done - self._before

    @property
    def left_out(self) -> int:
        """As `Learned`."""
        return self._shard.left_out

    @property
    def checkpoint(self) -> Path:
        """As `Learned`."""
        return self._shard.directory / self._fleet.folder(0) / CURRENT

    def about(self, key: str) -> dict[str, Any]:
        """As `Learned`."""
        group, kept = self._shard.streams.of(key), self._kept(key)
        tally = group.streams.block.tallies(kept.state[None])
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = {
                "rmse": np.sqrt(tally.error[0] / tally.scored[0]),
                "persistence_rmse": np.sqrt(tally.repeat[0] / tally.scored[0]),
                "coverage": tally.inside[0] / tally.scored[0],
            }
            share = float(np.sqrt(tally.error[0].sum() / tally.repeat[0].sum()))
        columns = {
            name: {part: _number(v[i]) for part, v in parts.items()}
            for i, name in enumerate(group.names)
        }
        return {
            "rows": int(tally.rows[0]),
            "scores": {"share": _number(share), "columns": columns},
        }

    def ranked(self) -> list[dict[str, Any]]:
        """As `Learned`; made anew at most once a second."""
        with self._lock:
            begun = time.monotonic()
            if begun >= self._again:
                with self._shard.lock:
                    found = list(self._shard.streams.tallies())
                self._ranked = ranked(found)
                self._again = begun + max(OFTEN, SHARE * (time.monotonic() - begun))
            return self._ranked

    def forecast(self, key: str, horizon: int, level: float) -> dict[str, Any]:
        """As `Learned`."""
        stream = self._open(key)
        times = next_times(self.plan, stream.last_time, horizon)
        return told(self.plan, stream.rows, times, stream.forecast(times, level))

    def smooth(self, key: str, lag: int | None, level: float, history: History) -> dict[str, Any]:
        """As `Learned`."""
        with self._shard.lock:
            stream, lines = self._open(key), history(key)
        lag = _lag(lag, stream.learner.reach, len(lines))
        values = recent(stream.learner, stream.state, stream.scaling, lag, level)
        return _smoothed(self.plan, lines, values)

    def _kept(self, key: str) -> Kept:
        if key not in self._shard.streams:
            raise Unanswerable("there is no such stream")
        return self._shard.kept(key)

    def _open(self, key: str) -> OpenedStream:
        block = self._shard.streams.of(key).streams.block
        return OpenedStream.of(self._fleet, block, self._kept(key))


def next_times(plan: Plan, last: float | None, horizon: int) -> list[float | None]:
    """Of the rows after the last, if they need no inputs that are not known."""
    if plan.schema["inputs"]:
        raise Unanswerable("a forecast needs the inputs of the next rows: rmcvi forecast")
    return Schema.from_json(plan.schema).next_times(last, horizon)


def told(plan: Plan, row: int, times: Sequence[float | None], band: np.ndarray) -> dict[str, Any]:
    """Mean, low and high (rows, columns, 3) of rows after `row`."""
    parts = {name: band[..., i].tolist() for i, name in enumerate(("mean", "low", "high"))}
    when = [moment(time, plan.calendar) for time in times]
    return {"columns": plan.columns, "row": row, "time": when} | parts


def _lag(lag: int | None, reach: int, lines: int) -> int:
    longest = min(reach, lines - 1)
    if lag is None:
        return longest
    if not 0 <= lag <= longest:
        raise Unanswerable(f"got a lag of {lag}, expected at most {longest}")
    return lag


def _smoothed(plan: Plan, lines: Sequence[str], values: np.ndarray) -> dict[str, Any]:
    past = [json.loads(line) for line in lines[-len(values) :]]
    plain: dict[str, Any] = {"columns": plan.columns, "row": [each["row"] for each in past]}
    plain["time"] = [each["time"] for each in past]
    return plain | {n: values[..., i].tolist() for i, n in enumerate(("mean", "low", "high"))}


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
