"""A fleet as it stands, for questions: streams from the newest checkpoints of all shards."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from rmcvi.app.fleet.alarms import COUNT
from rmcvi.app.fleet.groups import BEFORE, GROUP
from rmcvi.app.fleet.plan import FleetPlan
from rmcvi.app.fleet.resharding import added
from rmcvi.app.fleet.residents import ALARMS, UNITS
from rmcvi.app.fleet.routing import owner
from rmcvi.app.fleet.store import Kept, Store
from rmcvi.app.run.plan import Plan
from rmcvi.app.run.speech import Refusal, printable, say
from rmcvi.app.sources import Counts
from rmcvi.contract import AbstractLearner
from rmcvi.core.checks import nearest
from rmcvi.learners.units import Scaling
from rmcvi.scale import Block, Tally

FAILING = 0.5
"""Evidence above which a sensor fails."""
TOGETHER = 1024
"""Streams that are looked at together."""


@dataclass(frozen=True)
class OpenedStream:
    """One stream after its last row in a checkpoint."""

    plan: Plan
    """With its columns."""
    learner: AbstractLearner
    state: PyTree
    rows: int
    last_time: float | None
    scaling: Scaling | None
    """Its units, if its columns are standardised."""
    failing: list[str]
    """Columns whose sensor seems to fail now."""

    @classmethod
    def of(cls, fleet: FleetPlan, block: Block, kept: Kept) -> "OpenedStream":
        """A stream as it was kept."""
        state, _, tally = block.open(kept.state)
        units = kept.noted.get(UNITS)
        scaling = None if units is None else Scaling.from_json(units)
        plan, rows = fleet.plan_of(kept.noted.get(GROUP, -1)), kept.noted.get(BEFORE, 0)
        failing = [c for c, f in zip(plan.columns, tally.failing, strict=True) if f > FAILING]
        about = rows + int(tally.rows), kept.clock[0], scaling, failing
        return cls(plan, block.learner, state, *about)

    def forecast(self, times: list[float | None], level: float) -> np.ndarray:
        """Mean, low and high of the next rows, (rows, columns, 3)."""
        plan = self.plan
        known = np.array([plan.inputs_at(np.zeros(0), time) for time in times])
        u = known if plan.inputs else None
        band = self.learner.forecast(self.state, len(times), u, level=level)
        parts = [np.asarray(part) for part in (band.mean, band.low, band.high)]
        if self.scaling is not None:
            parts = [self.scaling.inverse_ahead(part) for part in parts]
        return np.stack(parts, 2)


class OpenedFleet:
    """The streams of all shards."""

    def __init__(self, directory: Path, model: str | None = None, name: str = ""):
        """`model` allows a plan's own code, as in `Plan.trusted`; `name` is what people call it."""
        self.directory, self.fleet = directory, FleetPlan.read(directory)
        self.name = name or str(directory)
        self._plan, self._blocks = self.fleet.plan.trusted(model), dict[int, Block]()
        self._stores: list[Store] = []
        self.rows, counts = 0, {}
        for number in range(self.fleet.shards):
            self._stores.append(store := Store(directory / self.fleet.folder(number)))
            extra, remark = store.load()
            if remark:
                say(printable(remark))
            extra = extra or {"rows": 0, "counts": {}}
            self.rows, counts = self.rows + extra["rows"], added(counts, extra["counts"])
        self.counts = Counts(**counts)

    def stream(self, key: str) -> OpenedStream:
        """The stream of a key."""
        store = self._stores[self.shard(key)]
        if key not in store:
            near = nearest(key, [key for store in self._stores for key in store])
            hint = f"; did you mean {near!r}?" if near else ""
            raise Refusal(f"--key: got {key!r}, expected one of {len(self)} streams{hint}")
        kept = store.get(key)
        return OpenedStream.of(self.fleet, self._block(_group(kept)), kept)

    def _block(self, group: int) -> Block:
        """Reads the streams of a group."""
        size = len(self.fleet.groups[group])
        if size not in self._blocks:
            learner = replace(self._plan, columns=self._plan.columns[:size]).built()
            self._blocks[size] = Block(learner, self._plan.seed, compiled=False)
        return self._blocks[size]

    def __len__(self) -> int:
        return sum(map(len, self._stores))

    def shard(self, key: str) -> int:
        """Where a stream is learned."""
        return owner(key, self.fleet.shards)

    def ranked(self) -> list[dict[str, Any]]:
        """All streams, the most troubled first, as in `ranked`."""
        return ranked((keys, tally, alarms) for _, keys, tally, alarms in self._tallies())

    def _tallies(self) -> Iterator[tuple[int, list[str], Tally, list[int]]]:
        """How some streams of a group have fared, and their alarms, then some more."""
        for store in self._stores:
            keys = list(store)
            for begin in range(0, len(keys), TOGETHER):
                some: dict[int, dict[str, Kept]] = {}
                for key in keys[begin : begin + TOGETHER]:
                    kept = store.get(key)
                    some.setdefault(_group(kept), {})[key] = kept
                for group, own in some.items():
                    tally = self._block(group).tallies(np.stack([k.state for k in own.values()]))
                    yield group, list(own), tally, [_alarms(kept) for kept in own.values()]

    def about(self) -> dict[str, Any]:
        """The fleet in plain values."""
        return {
            "source": self.fleet.plan.source,
            "key": self.fleet.key,
            "shards": self.fleet.shards,
            "streams": len(self),
            "rows": self.rows,
            "started": self.fleet.plan.started,
            "counts": self.counts.to_json(),
            "groups": self.groups(),
        }

    def groups(self) -> list[dict[str, Any]]:
        """Columns that streams have together, and how many streams, and how many of them never had
        a value in some.
        """
        found = [{"columns": names, "streams": 0, "partial": 0} for names in self.fleet.groups]
        for group, keys, tally, _ in self._tallies():
            found[group]["streams"] += len(keys)
            found[group]["partial"] += int(np.isnan(tally.last).any(1).sum())
        return [group for group in found if group["streams"]]

    def sentences(self) -> list[str]:
        """The same for people."""
        plan, ranked = self.fleet.plan, self.ranked()
        failing = sum(row["failure"] > FAILING for row in ranked)
        groups = self.groups()
        partial = sum(group["partial"] for group in groups)
        what = f"{self.name}: {plan.source} by {self.fleet.key!r}, begun {plan.started}"
        size = f"{self.rows} rows of {len(self)} streams, shards: {self.fleet.shards}"
        told = [f"{what}, rmcvi {plan.version}", *plan.assumed, f"{size}; {failing} failing now."]
        if len(groups) > 1:
            kinds = (f"{', '.join(g['columns'])} ({g['streams']} streams)" for g in groups)
            told.append(f"Groups by columns, each learned for itself: {'; '.join(kinds)}.")
        if partial:
            told.append(f"Streams that never had a value in some of the columns: {partial}.")
        return told


def ranked(found: Iterable[tuple[Sequence[str], Tally, Sequence[int]]]) -> list[dict[str, Any]]:
    """Streams, the most troubled first: failing sensors, drift, alarms, then errors beside those of
    the last value.
    """
    return sorted((row for some in found for row in _fared(*some)), key=_trouble)


def _fared(keys: Sequence[str], tally: Tally, alarms: Sequence[int]) -> list[dict[str, Any]]:
    """How each of some streams has fared, in plain numbers."""
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(tally.error.sum(1) / tally.repeat.sum(1))
        coverage = tally.inside.sum(1) / tally.scored.sum(1)
    return [
        {
            "key": key,
            "rows": int(tally.rows[i]),
            "columns": int((~np.isnan(tally.last[i])).sum()),
            "failure": round(float(tally.failing[i].max()), 3),
            "drifts": int(tally.drifts[i]),
            "episodes": alarms[i],
            "error_of_last_value": _number(error[i]),
            "coverage": _number(coverage[i]),
            "recoveries": int(tally.recoveries[i]),
        }
        for i, key in enumerate(keys)
    ]


def _group(kept: Kept) -> int:
    return kept.noted.get(GROUP, -1)


def _alarms(kept: Kept) -> int:
    return kept.noted.get(ALARMS, {}).get(COUNT, 0)


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _trouble(row: dict[str, Any]) -> tuple[Any, ...]:
    """Evidence of failure in steps of a tenth, alarms, and among sound streams the errors."""
    error = row["error_of_last_value"]
    failure = round(row["failure"], 1)
    loud = -row["drifts"], -row["episodes"]
    return -failure, *loud, -(0.0 if error is None else error), row["key"]
