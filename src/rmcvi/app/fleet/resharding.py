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
from rmcvi.app.fleet.store import Store
from rmcvi.app.sources import Position, list_parts

Run = Callable[[Position], Iterable[Any]]
NOTHING = {"rows": 0, "counts": {}, "failing": 0}
"""What a shard that has not begun has counted: the first one goes on with the sums of all."""


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
    new, rows, counts = fleet.with_shards(shards), 0, None
    failing, dealt = 0, [{} for _ in range(shards)]
    for number, store in enumerate(stores):
        extra = store.load()[0] or {}
        rows, counts = rows + extra.get("rows", 0), added(counts, extra.get("counts", {}))
        failing += extra.get("failing", 0)
        for key in store:
            dealt[owner(key, shards)][key] = store
        lengths = extra.get("lengths", {})
        cut(directory / fleet.estimates(number), lengths.get("estimates", 0))
        cut(directory / fleet.rejected(number), lengths.get("rejected", 0))
    source = None if place is None else place.to_json()
    for number, streams in enumerate(dealt):
        shutil.rmtree(directory / new.folder(number), ignore_errors=True)  # of one that was killed
        sums = {"rows": rows, "counts": counts or {}, "failing": failing}
        extra = {"source": source, "lengths": {}, **(sums if number == 0 else NOTHING)}
        _deal(Store(directory / new.folder(number)), extra, streams)
    new.write(directory)
    for store in stores:
        shutil.rmtree(store.folder)
    return new


def _deal(to: Store, extra: dict[str, Any], streams: dict[str, Store]) -> None:
    """Streams of other stores as the first checkpoint of a new one."""
    to.save(extra, list(streams), lambda key: streams[key].get(key))


def added(a: dict[str, Any] | None, b: dict[str, Any]) -> dict[str, Any]:
    """Counts of two shards as one."""
    if not a or not b:
        return a or b
    sums = {k: v + b[k] for k, v in a.items() if isinstance(v, int)}
    bad = {k: a["bad"].get(k, 0) + b["bad"].get(k, 0) for k in {**a["bad"], **b["bad"]}}
    return {**sums, "bad": bad, "first": {**b["first"], **a["first"]}}
