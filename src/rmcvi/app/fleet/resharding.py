"""Another number of shards: all go on to the same place, then their streams are dealt out anew.

The new checkpoints and files are of a new generation, and `fleet.json` says which one counts: a
kill at any moment leaves the old shards or the new ones.
"""

import shutil
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rmcvi.app.fleet.output import cut
from rmcvi.app.fleet.plan import FleetPlan
from rmcvi.app.fleet.remote import Published, as_directory, write_plan
from rmcvi.app.fleet.routing import owner
from rmcvi.app.fleet.storage import Storage, is_remote
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


def reshard(place: str, fleet: FleetPlan, shards: int, run: Run) -> FleetPlan:
    """The fleet with another number of shards; `run` takes the old ones to a place."""
    with as_directory(place) as directory:
        extras = [store.load()[0] or {} for store in _stores(directory, fleet)]
        end = furthest((extra.get("source") for extra in extras), fleet)
        if end is not None:
            deque(run(end), 0)
    with as_directory(place) as directory:
        new = _deal(directory, fleet, shards, end)
        if is_remote(place):
            _publish(Storage(place), directory, fleet, new)
        else:
            new.write(directory)
            for store in _stores(directory, fleet):
                shutil.rmtree(store.folder)
    return new


def _publish(storage: Storage, directory: Path, fleet: FleetPlan, new: FleetPlan) -> None:
    """The new checkpoints, then the plan, which makes them count; manifests of the old ones stay,
    since they name the output of then.
    """
    for number, store in enumerate(_stores(directory, new)):
        store.load()
        published = Published(storage, new, number)
        published.claim()
        published.publish(directory, store.begun)
    write_plan(storage, new)
    for number in range(fleet.shards):
        folder = fleet.folder(number)
        old = [name for name in storage.names(folder) if name.startswith("segment-")]
        storage.remove(f"{folder}/{name}" for name in old)


def _stores(directory: Path, fleet: FleetPlan) -> list[Store]:
    return [Store(directory / fleet.folder(number)) for number in range(fleet.shards)]


def _deal(directory: Path, fleet: FleetPlan, shards: int, end: Position | None) -> FleetPlan:
    """The streams of all shards, dealt out anew as the first checkpoints of others."""
    new, rows, counts = fleet.with_shards(shards), 0, None
    failing, dealt = 0, [{} for _ in range(shards)]
    for number, store in enumerate(_stores(directory, fleet)):
        extra = store.load()[0] or {}
        rows, counts = rows + extra.get("rows", 0), added(counts, extra.get("counts", {}))
        failing += extra.get("failing", 0)
        for key in store:
            dealt[owner(key, shards)][key] = store
        lengths = extra.get("lengths", {})
        cut(directory / fleet.estimates(number), lengths.get("estimates", 0))
        cut(directory / fleet.rejected(number), lengths.get("rejected", 0))
    source = None if end is None else end.to_json()
    for number, streams in enumerate(dealt):
        shutil.rmtree(directory / new.folder(number), ignore_errors=True)  # of one that was killed
        sums = {"rows": rows, "counts": counts or {}, "failing": failing}
        extra = {"source": source, "lengths": {}, **(sums if number == 0 else NOTHING)}
        to = Store(directory / new.folder(number))
        to.save(extra, list(streams), lambda key, of=streams: of[key].get(key))
    return new


def added(a: dict[str, Any] | None, b: dict[str, Any]) -> dict[str, Any]:
    """Counts of two shards as one."""
    if not a or not b:
        return a or b
    sums = {k: v + b[k] for k, v in a.items() if isinstance(v, int)}
    bad = {k: a["bad"].get(k, 0) + b["bad"].get(k, 0) for k in {**a["bad"], **b["bad"]}}
    return {**sums, "bad": bad, "first": {**b["first"], **a["first"]}}
