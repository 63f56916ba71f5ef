"""What a fleet is, as plain values: the plan of every stream, the key, and how many shards."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rmcvi.app.run.directory import FLEET
from rmcvi.app.run.plan import Plan
from rmcvi.app.run.speech import Refusal
from rmcvi.core.files import replace as write_whole
from rmcvi.core.files import to_json

FORMAT = 2
FORMS = ("jsonl", "parquet")
"""Of the estimates."""


@dataclass(frozen=True)
class FleetPlan:
    """The content of `fleet.json`."""

    plan: Plan
    """Of every stream."""
    key: str
    shards: int
    generation: int = 0
    """How often the number of shards has changed; each has files of its own."""
    form: str = "jsonl"
    """Of the estimates."""
    resident: int | None = None
    """Streams that each shard has in memory, about; None for all."""
    sets: tuple[tuple[str, ...], ...] = ()
    """Columns that streams have together, the fewest first; besides, a stream may have all."""

    @property
    def groups(self) -> list[list[str]]:
        """The columns of each group of streams, the last with all."""
        return [*map(list, self.sets), self.plan.columns]

    def plan_of(self, group: int) -> Plan:
        """The plan of the streams of a group."""
        own = self.groups[group]
        return replace(self.plan, columns=own, units={name: self.plan.units[name] for name in own})

    def with_shards(self, shards: int) -> "FleetPlan":
        """The same in another number of shards."""
        return replace(self, shards=shards, generation=self.generation + 1)

    def folder(self, shard: int) -> str:
        """Where the checkpoints of a shard are."""
        return f"shard-{self.generation}-{shard}"

    def estimates(self, shard: int) -> str:
        """The file or folder of a shard's estimates."""
        return f"estimates-{self.generation}-{shard}{'.jsonl' if self.form == 'jsonl' else ''}"

    def rejected(self, shard: int) -> str:
        """The file of the records that a shard left out."""
        return f"rejected-{self.generation}-{shard}.jsonl"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        plain = {"format": FORMAT, "key": self.key, "shards": self.shards}
        plain |= {"generation": self.generation, "estimates": self.form}
        return plain | {
            "resident": self.resident,
            "columns": self.sets,
            "stream": self.plan.to_json(),
        }

    def write(self, directory: Path) -> None:
        """Replace `fleet.json` as a whole."""
        write_whole(directory / FLEET, f"{to_json(self.to_json(), indent=1)}\n".encode())

    @classmethod
    def read(cls, directory: Path) -> "FleetPlan":
        """That of a directory."""
        path = directory / FLEET
        try:
            return cls.from_json(json.loads(path.read_text()), str(path))
        except OSError:
            what = f"holds no fleet, expected {FLEET}; see `rmcvi fleet`"
            raise Refusal(f"{directory}: {what}") from None
        except (ValueError, RecursionError):
            raise Refusal(f"{path}: got something that `rmcvi fleet` did not write") from None

    @classmethod
    def from_json(cls, plain: Any, path: str) -> "FleetPlan":
        """The inverse of `to_json`; `path` is where it was found."""
        try:
            key, shards, stream = str(plain["key"]), plain["shards"], plain["stream"]
            generation, form = plain["generation"], str(plain["estimates"])
            resident = plain["resident"]
            sets = tuple(tuple(map(str, names)) for names in plain.get("columns", ()))
            known = plain["format"] == FORMAT and form in FORMS
        except (KeyError, TypeError, ValueError):
            raise Refusal(f"{path}: got something that `rmcvi fleet` did not write") from None
        whole = all(type(n) is int for n in (shards, generation, resident or 0))
        if not known or not whole or shards < 1:
            raise Refusal(f"{path}: got another format; another version of rmcvi wrote it")
        plan = Plan.from_json(stream, path)
        if not all(set(names) < set(plan.columns) and names for names in sets):
            raise Refusal(f"{path}: got groups of other columns than those of the streams")
        return cls(plan, key, shards, generation, form, resident, sets)
