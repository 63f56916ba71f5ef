"""Shards as actors of a Ray cluster, for those who have outgrown one machine.

Ray starts them, and starts them again elsewhere when a process or a machine is lost; the streams,
checkpoints and output stay ours, in a directory that all machines see.
"""

import importlib
import os
import time
from collections.abc import Iterator
from typing import Any

from rmcvi.app.fleet.processes import one_thread, open_shard, sentence
from rmcvi.app.fleet.shard import Shard
from rmcvi.app.fleet.told import Told
from rmcvi.app.run.speech import Refusal, say
from rmcvi.app.sources import Position

ray: Any = importlib.import_module("ray")
TURN = 1.0
"""Seconds for which a shard learns before it tells how far it is."""
AGAIN = 3
"""Times that a shard is started again without having come further."""
OURS = ("JAX_", "TF_CPP_MIN_LOG_LEVEL", "XDG_CACHE_HOME")
"""Beginnings of what actors take over from our environment: Ray gives them that of their node.
Above all it says where compiled programs are kept."""


class Actor:
    """Holds a shard, and learns a little at each call."""

    def __init__(self, place: str, number: int, model: str | None, until: Any):
        self._about, self._number = (place, number, model), number
        self._until = None if until is None else Position.from_json(until)
        self._shard: Shard | None = None

    def learn(self) -> dict[str, Any] | str:
        """For a second or so; a sentence if it cannot go on."""
        begun, told = time.monotonic(), None
        try:
            if self._shard is None:
                self._shard = open_shard(*self._about)
                self._run = self._shard.run(self._until)
            for told in self._run:
                if told.done:
                    self._shard.close()
                if told.done or told.doing or time.monotonic() - begun > TURN:
                    break
        except Exception as error:  # it would meet the same again
            return sentence(self._number, error)
        return vars(told) if told else {}

    def stop(self) -> None:
        """Save, and end."""
        if self._shard is not None:
            self._run.close()
            self._shard.close()


def run(
    place: str, shards: int, model: str | None, until: Position | None, address: str
) -> Iterator[list[Told]]:
    """As `engines.run`; `address` is that of a cluster, or 'local' for one of our own."""
    own = {name: value for name, value in os.environ.items() if name.startswith(OURS)}
    ray.init(
        None if address == "local" else address,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": own | one_thread()},
    )
    make = ray.remote(num_cpus=1)(Actor).remote
    end = None if until is None else until.to_json()

    def start(number: int) -> Any:
        return make(place, number, model, end)

    actors = {number: start(number) for number in range(shards)}
    told = {number: Told(number) for number in actors}
    tries = dict.fromkeys(actors, 0)
    waiting = {actor.learn.remote(): number for number, actor in actors.items()}
    try:
        while waiting:
            ready, _ = ray.wait(list(waiting), timeout=TURN)
            for reference in ready:
                number = waiting.pop(reference)
                try:
                    said = ray.get(reference)
                except ray.exceptions.RayActorError:
                    tries[number] += 1
                    if tries[number] > AGAIN:
                        raise Refusal(f"shard {number}: its actor died {AGAIN} times") from None
                    say(f"The actor of shard {number} died; it goes on from its checkpoint.")
                    actors[number] = start(number)
                    waiting[actors[number].learn.remote()] = number
                    continue
                if isinstance(said, str):
                    raise Refusal(said)
                tries[number], told[number] = 0, Told(**said)
                if told[number].done:
                    del actors[number]  # its core is wanted by those that were not started yet
                else:
                    waiting[actors[number].learn.remote()] = number
            yield list(told.values())
    finally:
        busy = [number for number in waiting.values() if not told[number].doing]
        going = [actors[number].stop.remote() for number in busy]
        ray.wait(going, num_returns=len(going), timeout=60.0) if going else None
        ray.shutdown()
