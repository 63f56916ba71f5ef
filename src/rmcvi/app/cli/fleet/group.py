"""The verbs of `rmcvi fleet`, and the options that they share."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rmcvi.app.cli.commands import app

EXAMPLES = """
[bold]Examples[/bold]

rmcvi fleet plant.csv --key sensor --out plant.run

rmcvi fleet resume plant.run --shards 4

rmcvi fleet inspect plant.run

rmcvi fleet forecast plant.run --key pump-7 --horizon 48

rmcvi fleet report plant.run

rmcvi fleet meters.parquet --key meter --address auto --out /shared/meters.run
"""
LEARN = "learn"
"""The command that a source stands for."""


class Verbs(TyperGroup):
    """`fleet SOURCE` is `fleet learn SOURCE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What was typed, with the verb that was left out."""
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = [LEARN, *args]
        return super().parse_args(ctx, args)


fleet = typer.Typer(
    cls=Verbs,
    help="Learn many streams of one source, told apart by a key, on all cores or on the machines of"
    " a Ray cluster. `rmcvi fleet SOURCE --key NAME --out DIR` begins; `rmcvi fleet learn --help`"
    " has its options.",
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(fleet, name="fleet")

FleetDirectory = Annotated[
    str,
    typer.Argument(metavar="DIR", help="The directory of a fleet, or its address on a storage."),
]


@dataclass(frozen=True)
class ShardOptions:
    """Where a fleet learns."""

    shards: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Parts that learn side by side (default: one per core; 1 for a small source).",
        ),
    ] = None
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster, such as auto (default: processes here).")
    ] = None
    resident: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Streams that each shard keeps in memory; idle ones wait on disk (default: all).",
        ),
    ] = None
