"""`rmcvi fleet SOURCE` and `rmcvi fleet resume`."""

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rmcvi.app.cli.fleet.group import LEARN, FleetDirectory, ShardOptions, fleet
from rmcvi.app.cli.fleet.watching import run_shards
from rmcvi.app.cli.grouping import grouped
from rmcvi.app.cli.groups import LearnOptions
from rmcvi.app.cli.options import Quiet, SameModel, one_of
from rmcvi.app.fleet import engines
from rmcvi.app.fleet.column_sets import column_sets
from rmcvi.app.fleet.plan import FORMS, FleetPlan
from rmcvi.app.fleet.remote import read_fleet, write
from rmcvi.app.fleet.resharding import reshard
from rmcvi.app.fleet.storage import Storage, is_remote
from rmcvi.app.run.length import MANY
from rmcvi.app.run.speech import Refusal, printable, say
from rmcvi.app.sources import first_stream, list_parts

SMALL = 1 << 20
"""Bytes of a source for which one shard is enough: a second or two, while a shard takes ten of
processor time to start."""


@dataclass(frozen=True)
class OutputOptions:
    """What a fleet writes."""

    format: Annotated[
        str, typer.Option(help="Of the estimates: jsonl, or parquet (a folder of parts).")
    ] = "jsonl"
    checkpoint_every: Annotated[
        int, typer.Option(help="Rows of a shard between checkpoints.", min=1)
    ] = 100_000
    force: Annotated[bool, typer.Option("--force", help="Replace the fleet that is there.")] = False

    def __post_init__(self) -> None:
        one_of("--format", self.format, FORMS)


@fleet.command(LEARN)
@grouped
def learn(
    source: Annotated[str, typer.Argument(help="As for `rmcvi learn`; - needs --shards 1.")],
    *,
    key: Annotated[str, typer.Option(help="The column that tells the streams apart.")],
    out: Annotated[
        str,
        typer.Option(
            help="Directory of the fleet, or an address such as s3://bucket/plant.run (extra"
            " 'remote')."
        ),
    ],
    wanted: LearnOptions,
    sharding: ShardOptions,
    output: OutputOptions,
    quiet: Quiet = False,
) -> int:
    """Learn every stream of a source: predict each row, score the prediction, then learn.

    The step and the season of the first stream are taken for those of all. Estimates go to
    estimates-*.jsonl in the directory, one file per shard, each line with its key; or to folders
    of Parquet files.
    """
    number = _number(sharding.shards, source)
    found = wanted.read(source, ignored=[key])
    first = first_stream(found, key)
    plan = wanted.plan(source, first, MANY, checkpoint_every=output.checkpoint_every)
    if "key" in plan.columns:
        raise Refusal("--columns: got 'key', which names the streams in the output; rename it")
    _clear(out, output.force)
    places = column_sets(found.source, first.schema, key, found.rules)
    sets = tuple(tuple(plan.columns[i] for i in own) for own in places[:-1])
    chosen = FleetPlan(plan, key, number, form=output.format, resident=sharding.resident, sets=sets)
    write(out, chosen)
    if not quiet:
        for sentence in (*plan.assumed, f"Streams: by {key!r}; shards: {number}."):
            say(printable(sentence))
    return run_shards(out, chosen, sharding.address, wanted.model, quiet)


def _number(shards: int | None, source: str) -> int:
    number = shards or (1 if _is_small(source) else os.cpu_count() or 1)
    if source == "-" and number > 1:
        raise Refusal(f"--shards: got {number}, but standard input can be read by one shard alone")
    return number


def _is_small(source: str) -> bool:
    if source == "-":
        return True
    return sum(part.stat().st_size for part in list_parts(Path(source))) < SMALL


def _clear(place: str, force: bool) -> None:
    """An empty directory, or what was a fleet's."""
    out, storage = Path(place), Storage(place) if is_remote(place) else None
    names = storage.names() if storage else [path.name for path in _inside(out)]
    if any(re.fullmatch(r"fleet(-\d{6})?\.json", name) for name in names):
        if not force:
            again = f"`rmcvi fleet resume {place}` goes on with it, --force starts anew"
            raise Refusal(f"{place}: already holds a fleet; {again}")
        read_fleet(place)
        storage.remove_all() if storage else shutil.rmtree(out)
    elif names:
        raise Refusal(f"{place}: is not empty, expected a directory for the fleet")
    if storage is None:
        out.mkdir(parents=True, exist_ok=True)


def _inside(out: Path) -> Iterable[Path]:
    return out.iterdir() if out.is_dir() else [out] if out.exists() else []


@fleet.command()
@grouped
def resume(
    directory: FleetDirectory,
    *,
    sharding: ShardOptions,
    quiet: Quiet = False,
    model: SameModel = None,
) -> int:
    """Go on with a fleet after it was stopped, killed, or its source has grown.

    Sorted by key and time, the output is that of an uninterrupted run, to the byte. The number of
    shards may be another one, as may that of the streams in memory.
    """
    plan = read_fleet(directory)
    plan.plan.trusted(model)
    if sharding.resident is not None:
        plan = replace(plan, resident=sharding.resident)
        write(directory, plan)
    number = plan.shards
    if sharding.shards is not None:
        number = _number(sharding.shards, plan.plan.source)
    if number != plan.shards:

        def onward(place: Any) -> Any:
            return engines.run(directory, plan.shards, model, place, sharding.address)

        plan = reshard(directory, plan, number, onward)
    return run_shards(directory, plan, sharding.address, model, quiet)
