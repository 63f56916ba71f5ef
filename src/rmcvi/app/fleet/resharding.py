"""Another number of shards: all go on to the same place, then their streams are dealt out anew.

The new checkpoints and files are of a new generation, and `fleet.json` says which one counts: a
kill at any moment leaves the old shards or the new ones.
"""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rmcvi.app.fleet.output import cut
from rmcvi.app.fleet.plan import FleetPlan
from rmcvi.app.fleet.routing import owner
from rmcvi.app.fleet.store import Kept, Store
from rmcvi.app.sources import Position, list_parts

Run = Callable[[Position], Iterable[Any]]


def furthest(places: Iterable[dict[str, Any] | None], fleet: FleetPlan) -> Position | None:
    """The last of some places in the source; None if nothing was read yet."""
    parts = [str(part) for part in list_parts(Path(fleet.plan.place()))]
    known = [Position.from_json(place) for place in places if place is not None]
    return max(known, key=lambda p: (parts.index(p.name), p.offset), default=None)


def reshard(directory: Path, fleet: FleetPlan, shards: int, run: Run) -> FleetPlan:
    """The fleet with another number of shards; `run` takes the old ones to a place."""
    stores = [Store(directory / fleet.folder(k)) for k in range(fleet.shards)]
    extras = [store.load()[0] or {} for store in stores]
    place = furthest((extra.get("source") for extra in extras), fleet)
    if place is not None:
        for _ in run(place):
            pass
    new = fleet.with_shards(shards)
    dealt: list[list[Kept]] = [[] for _ in range(shards)]
    rows, counts = 0, None
    for number, store in enumerate(stores):
        extra, streams, _ = store.load()
        extra = extra or {}
        rows, counts = rows + extra.get("rows", 0), added(counts, extra.get("counts", {}))
        for kept in streams.values():
            dealt[owner(kept.key, shards)].append(kept)
        lengths = extra.get("lengths", {})
        cut(directory / fleet.estimates(number), lengths.get("estimates", 0))
        cut(directory / fleet.rejected(number), lengths.get("rejected", 0))
    source = None if place is None else place.to_json()
    for number, kept in enumerate(dealt):
        shutil.rmtree(directory / new.folder(number), ignore_errors=True)  # of one that was killed
        extra = {"rows": rows if number == 0 else 0, "source": source, "lengths": {}}
        extra |= {"counts": (counts or {}) if number == 0 else {}}
        Store(directory / new.folder(number)).save(extra, [], kept)
    new.write(directory)
    for store in stores:
        shutil.rmtree(store.folder)
    return new


def added(a: dict[str, Any] | None, b: dict[str, Any]) -> dict[str, Any]:
    """Counts of two shards as one."""
    if not a or not b:
        return a or b
    sums = {k: v + b[k] for k, v in a.items() if isinstance(v, int)}
    bad = {k: a["bad"].get(k, 0) + b["bad"].get(k, 0) for k in {**a["bad"], **b["bad"]}}
    return {**sums, "bad": bad, "first": {**b["first"], **a["first"]}}
