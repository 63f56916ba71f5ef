"""Which engine runs the shards: processes here, or actors of a Ray cluster."""

import importlib
from collections.abc import Iterator
from pathlib import Path

from rmcvi.app.fleet import processes
from rmcvi.app.fleet.storage import is_remote
from rmcvi.app.fleet.told import Told
from rmcvi.app.run.speech import Refusal
from rmcvi.app.sources import Position


def run(
    place: str,
    shards: int,
    model: str | None = None,
    until: Position | None = None,
    address: str | None = None,
) -> Iterator[list[Told]]:
    """All shards to the end of the source, or to a place; tells how far they are, now and then.

    Args:
        place: the directory of the fleet, or where it is on a storage.
        shards: how many.
        model: allows a plan's own code.
        until: as said.
        address: of a Ray cluster; None for processes on this machine.
    """
    if address is None:
        return processes.run(place, shards, model, until)
    try:
        actors = importlib.import_module("rmcvi.app.fleet.actors")
    except ImportError:
        raise Refusal("--address: needs Ray; install rmcvi with its extra 'ray'") from None
    if not is_remote(place):
        place = str(Path(place).resolve())
    return actors.run(place, shards, model, until, address)
