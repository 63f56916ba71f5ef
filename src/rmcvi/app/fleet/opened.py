"""A fleet as it stands, for questions: streams from the newest checkpoints of all shards."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from rmcvi.app.fleet.plan import FleetPlan
from rmcvi.app.fleet.resharding import added
from rmcvi.app.fleet.routing import owner
from rmcvi.app.fleet.store import Kept, Store
from rmcvi.app.run.speech import Refusal, printable, say
from rmcvi.app.sources import Counts
from rmcvi.contract import AbstractLearner
from rmcvi.core.checks import nearest
from rmcvi.scale import Block, Tally


@dataclass(frozen=True)
class OpenedStream:
    """One stream after its last row in a checkpoint."""

    fleet: FleetPlan
    learner: AbstractLearner
    state: PyTree
    rows: int
    last_time: float | None

    def forecast(self, times: list[float | None], level: float) -> np.ndarray:
        """Mean, low and high of the next rows, (rows, columns, 3)."""
        plan = self.fleet.plan
        known = np.array([plan.inputs_at(np.zeros(0), time) for time in times])
        u = known if plan.inputs else None
        band = self.learner.forecast(self.state, len(times), u, level=level)
        return np.stack([band.mean, band.low, band.high], 2)


class OpenedFleet:
    """The streams of all shards."""

    def __init__(self, directory: Path, model: str | None = None):
        """`model` allows a plan's own code, as in `Plan.trusted`."""
        self.directory, self.fleet = directory, FleetPlan.read(directory)
        self.learner = self.fleet.plan.trusted(model).live().learner
        self.streams: dict[str, Kept] = {}
        self.rows, counts = 0, {}
        for number in range(self.fleet.shards):
            extra, streams, remark = Store(directory / self.fleet.folder(number)).load()
            if remark:
                say(printable(remark))
            extra = extra or {"rows": 0, "counts": {}}
            self.rows, counts = self.rows + extra["rows"], added(counts, extra["counts"])
            self.streams |= streams
        self.counts = Counts(**counts)

    def stream(self, key: str) -> OpenedStream:
        """The stream of a key."""
        if key not in self.streams:
            near = nearest(key, self.streams)
            hint = f"; did you mean {near!r}?" if near else ""
            raise Refusal(f"--key: got {key!r}, expected one of {len(self.streams)} streams{hint}")
        kept, block = self.streams[key], Block(self.learner, self.fleet.plan.seed, compiled=False)
        state, _, tally = block.open(kept.state)
        return OpenedStream(self.fleet, self.learner, state, int(tally.rows), kept.clock[0])

    def shard(self, key: str) -> int:
        """Where a stream is learned."""
        return owner(key, self.fleet.shards)

    def ranked(self) -> list[dict[str, Any]]:
        """As `ranked`, of all streams."""
        if not self.streams:
            return []
        block = Block(self.learner, self.fleet.plan.seed, compiled=False)
        keys = list(self.streams)
        return ranked(keys, block.tallies(np.stack([self.streams[key].state for key in keys])))

    def about(self) -> dict[str, Any]:
        """The fleet in plain values."""
        return {
            "source": self.fleet.plan.source,
            "key": self.fleet.key,
            "shards": self.fleet.shards,
            "streams": len(self.streams),
            "rows": self.rows,
            "started": self.fleet.plan.started,
            "counts": self.counts.to_json(),
        }

    def sentences(self) -> list[str]:
        """The same for people."""
        plan, failing = self.fleet.plan, sum(row["failure"] > 0.5 for row in self.ranked())
        what = f"{self.directory}: {plan.source} by {self.fleet.key!r}, begun {plan.started}"
        size = f"{self.rows} rows of {len(self.streams)} streams, shards: {self.fleet.shards}"
        return [f"{what}, rmcvi {plan.version}", *plan.assumed, f"{size}; {failing} failing now."]


def ranked(keys: Sequence[str], tally: Tally) -> list[dict[str, Any]]:
    """Streams, the most troubled first: failing sensors, drift, alarms, then errors beside those of
    the last value.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(tally.error.sum(1) / tally.repeat.sum(1))
        coverage = tally.inside.sum(1) / tally.scored.sum(1)
    rows = [
        {
            "key": key,
            "rows": int(tally.rows[i]),
            "failure": round(float(tally.failing[i].max()), 3),
            "drifts": int(tally.drifts[i]),
            "alarm_rows": int(tally.alarms[i]),
            "error_of_last_value": _number(error[i]),
            "coverage": _number(coverage[i]),
            "recoveries": int(tally.recoveries[i]),
        }
        for i, key in enumerate(keys)
    ]
    return sorted(rows, key=_trouble)


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _trouble(row: dict[str, Any]) -> tuple[Any, ...]:
    """Evidence of failure in steps of a tenth, alarms, and among sound streams the errors."""
    error = row["error_of_last_value"]
    failure = round(row["failure"], 1)
    loud = -row["drifts"], -row["alarm_rows"]
    return -failure, *loud, -(0.0 if error is None else error), row["key"]
