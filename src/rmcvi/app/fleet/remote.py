"""A fleet whose directory is on storage: what counts is published, and read from there.

A shard works in a folder of its machine. With each checkpoint it puts what is new on the storage,
under names that no other attempt to run the shard has: segments of streams, parts of the output;
then, last, a manifest that names all that counts. The newest whole manifest is the checkpoint. An
attempt says that it begins (a claim), takes over what the newest manifest names, and from then on
publishes its own: one that was believed dead, and was not, sees the claim and ends. What it may
still have written is under its own names, and named by no manifest that counts.

    fleet-000000.json                      the plan; the last one counts
    shard-G-K/claim-E-ID                   attempt E of a shard has begun
    shard-G-K/manifest-E-N-ID              its checkpoint N
    shard-G-K/segment-M-E-ID               streams, as in a directory
    estimates-G-K/part-P-E-ID.jsonl        output; so are rejected records
"""

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmcvi.app.fleet.plan import FLEET, FleetPlan
from rmcvi.app.fleet.storage import Storage, emptied, is_remote, sealed, unsealed
from rmcvi.app.fleet.store import CURRENT
from rmcvi.app.run.speech import Refusal
from rmcvi.learners import CheckpointError

AGAIN = 3
"""Looks at the newest manifest: what it names may be gone if a newer one came meanwhile."""


class Published:
    """The checkpoints of one shard, as one attempt to run it sees them."""

    def __init__(self, storage: Storage, fleet: FleetPlan, number: int):
        self._storage, self._folder = storage, fleet.folder(number)
        self._fleet = fleet
        self._outputs = {
            "estimates": fleet.estimates(number).removesuffix(".jsonl"),
            "rejected": fleet.rejected(number).removesuffix(".jsonl"),
        }
        self._suffix = {"estimates": f".{fleet.form}", "rejected": ".jsonl"}
        self._before: dict[str, list[Any]] = {what: [] for what in self._outputs}
        """Parts of earlier attempts: whose, the first, and the one after the last."""
        self._begin = dict.fromkeys(self._outputs, 0)
        self._done = dict.fromkeys(self._outputs, 0)
        self._segments: dict[int, str] = {}
        """Those that this attempt has put there."""
        self._number, self._kept, self._swept = 0, set[str](), False
        self._epoch, self._id = 0, ""

    def take(self, directory: Path) -> None:
        """Claim the shard; leave in the directory what was published last."""
        self.claim()
        self._fleet.write(emptied(directory))
        manifest = fetch(self._storage, self._folder, directory)
        if manifest is not None:
            self._before = manifest["parts"]
            self._begin = {k: v[-1][2] if v else 0 for k, v in self._before.items()}
            self._done = dict(self._begin)
            self._kept = _named(manifest)

    def claim(self) -> None:
        """From now on, others that run this shard end."""
        known = [_attempt(name)[0] for name in self._storage.names(self._folder)]
        self._epoch = 1 + max(known, default=0)
        self._id = f"{self._epoch:06d}-{uuid.uuid4().hex[:8]}"
        self._storage.write(f"{self._folder}/claim-{self._id}", b"begun\n")

    def publish(self, directory: Path, plain: dict[str, Any]) -> None:
        """What a checkpoint of the directory names, then the manifest; in any thread."""
        claims = [n for n in self._storage.names(self._folder) if n.startswith("claim-")]
        if max(claims, default="") > f"claim-{self._id}":
            raise Refusal(f"{self._storage.url}/{self._folder}: another process has taken it over")
        for segment in plain["segments"]:
            number = segment["number"]
            if number not in self._segments:
                name = f"segment-{number}-{self._id}"
                file = directory / self._folder / f"segment-{number}"
                self._storage.put(file, f"{self._folder}/{name}")
                self._segments[number] = name
        segments = [s | {"object": self._segments[s["number"]]} for s in plain["segments"]]
        parts = {what: self._parts(directory, what, plain) for what in self._outputs}
        self._number += 1
        name = f"manifest-{self._epoch:06d}-{self._number:09d}-{self._id[7:]}"
        manifest = plain | {"segments": segments, "parts": parts, "name": name}
        self._storage.write(f"{self._folder}/{name}", sealed(manifest))
        self._sweep(manifest)

    def _parts(self, directory: Path, what: str, plain: dict[str, Any]) -> list[Any]:
        """Put the new parts of an output there; all that count, as ranges by attempts."""
        folder, end = self._outputs[what], plain["extra"]["lengths"].get(what, 0)
        for number in range(self._done[what], end):
            name = f"part-{number:06d}"
            file = directory / folder / f"{name}{self._suffix[what]}"
            self._storage.put(file, f"{folder}/{name}-{self._id}{self._suffix[what]}")
            file.unlink()
        self._done[what] = end
        own = [[self._id, self._begin[what], end]] if end > self._begin[what] else []
        return [*self._before[what], *own]

    def _sweep(self, manifest: dict[str, Any]) -> None:
        """Remove what neither this manifest nor the one before names, unless others work on it."""
        named = _named(manifest)
        kept, self._kept = named | self._kept | {f"claim-{self._id}"}, named
        gone = [n for n in self._storage.names(self._folder) if n not in kept and self._ours(n)]
        self._storage.remove(f"{self._folder}/{name}" for name in gone)
        if self._swept:
            return
        self._swept = True
        for what, folder in self._outputs.items():
            counted = set(_objects(manifest, what))
            found = [name for name in self._storage.names(folder) if _attempt(name)[0]]
            gone = [n for n in found if n.partition(".")[0] not in counted and self._ours(n)]
            self._storage.remove(f"{folder}/{name}" for name in gone)

    def _ours(self, name: str) -> bool:
        epoch, who = _attempt(name)
        return epoch < self._epoch or who == self._id[7:]


def _attempt(name: str) -> tuple[int, str]:
    """The attempt that wrote an object; (0, '') if it is none of a shard's."""
    words = name.partition(".")[0].split("-")
    kinds = {"claim": 1, "manifest": 1, "segment": 2, "part": 2}
    at = kinds.get(words[0], 0)
    known = at and len(words) > at + 1 and words[at].isdecimal()
    return (int(words[at]), words[-1]) if known else (0, "")


def _named(manifest: dict[str, Any]) -> set[str]:
    return {manifest["name"], *(segment["object"] for segment in manifest["segments"])}


def _objects(manifest: dict[str, Any], what: str) -> Iterator[str]:
    """The parts of an output that count, without their endings."""
    for who, begin, end in manifest["parts"][what]:
        yield from (f"part-{number:06d}-{who}" for number in range(begin, end))


def fetch(storage: Storage, folder: str, directory: Path) -> dict[str, Any] | None:
    """The newest checkpoint of a shard, as if it had been written in the directory; its manifest.

    Raises:
        CheckpointError: there are manifests, but what they name is not there.
    """
    trouble = ""
    for _ in range(AGAIN):
        for manifest in manifests(storage, folder):
            try:
                for segment in manifest["segments"]:
                    path = directory / folder / f"segment-{segment['number']}"
                    storage.get(f"{folder}/{segment['object']}", path)
                    if path.stat().st_size != segment["bytes"]:
                        raise FileNotFoundError(f"{segment['object']} is cut short")
            except FileNotFoundError as error:
                trouble = str(error)
                continue
            (directory / folder).mkdir(exist_ok=True)
            (directory / folder / CURRENT).write_bytes(sealed(manifest))
            return manifest
        if not trouble:
            return None
    raise CheckpointError(Path(folder), f"incomplete on {storage.url}: {trouble}", "Restore it.")


def manifests(storage: Storage, folder: str) -> Iterator[dict[str, Any]]:
    """Those of a shard that are whole, the newest first."""
    names = [name for name in storage.names(folder) if name.startswith("manifest-")]
    for name in sorted(names, reverse=True):
        try:
            manifest = unsealed(storage.read(f"{folder}/{name}"))
        except FileNotFoundError:
            continue
        if manifest is not None:
            yield manifest


def write_plan(storage: Storage, fleet: FleetPlan) -> None:
    """The plan that counts from now on."""
    old = _plans(storage)
    number = 1 + max((int(name[6:12]) for name in old), default=-1)
    storage.write(f"fleet-{number:06d}.json", sealed(fleet.to_json()))
    storage.remove(old)


def read_plan(storage: Storage) -> FleetPlan:
    """The plan of a fleet on a storage."""
    for name in reversed(_plans(storage)):
        plain = unsealed(storage.read(name))
        if plain is not None:
            return FleetPlan.from_json(plain, f"{storage.url}/{name}")
    raise Refusal(f"{storage.url}: holds no fleet, expected {FLEET}; see `rmcvi fleet`")


@contextmanager
def as_directory(place: str, outputs: bool = False) -> Iterator[Path]:
    """A fleet to be asked: its directory, or a copy of what is on a storage as `mirror` makes."""
    if not is_remote(place):
        yield Path(place)
        return
    with tempfile.TemporaryDirectory(prefix="rmcvi-") as folder:
        mirror(Storage(place), Path(folder), outputs)
        yield Path(folder)


def _plans(storage: Storage) -> list[str]:
    return [n for n in storage.names() if n.startswith("fleet-") and n.endswith(".json")]


def write(place: str, fleet: FleetPlan) -> None:
    """The plan of a fleet in a directory or on a storage."""
    if is_remote(place):
        write_plan(Storage(place), fleet)
    else:
        fleet.write(Path(place))


def read_fleet(place: str) -> FleetPlan:
    """The same again."""
    return read_plan(Storage(place)) if is_remote(place) else FleetPlan.read(Path(place))


def mirror(storage: Storage, directory: Path, outputs: bool = False) -> FleetPlan:
    """A copy of a fleet as a directory: its checkpoints, its `outputs` if they are asked for."""
    fleet = read_plan(storage)
    fleet.write(directory)
    for number in range(fleet.shards):
        fetch(storage, fleet.folder(number), directory)
    shards = [n for n in storage.names() if n.startswith("shard-")] if outputs else []
    for shard in shards:
        manifest = next(manifests(storage, shard), {"parts": {"estimates": []}})
        folder = shard.replace("shard", "estimates")
        for name in _objects(manifest, "estimates"):
            plain = f"{name[:11]}.{fleet.form}"
            storage.get(f"{folder}/{name}.{fleet.form}", directory / folder / plain)
    return fleet
