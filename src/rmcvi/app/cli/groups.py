"""Options that belong together are one argument of a command, and are declared once."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from rmcvi.app.cli.options import (
    BAD_ROWS,
    Calendar,
    Columns,
    InputColumns,
    Level,
    NoReport,
    OnBadRow,
    OpenReport,
    Quiet,
    Seasons,
    Seed,
    Sensitivity,
    Times,
    Whole,
    a_level,
    a_sensitivity,
    listed,
    one_of,
    row_format,
    times,
)
from rmcvi.app.run.length import LONG, rows_about
from rmcvi.app.run.plan import SENSITIVITY, Plan, make_plan
from rmcvi.app.sources import Stream, read


@dataclass(frozen=True)
class LearnOptions:
    """What is learned from a source, and how: options of `learn`, `fleet` and `serve`."""

    columns: Columns = None
    inputs: InputColumns = None
    calendar: Calendar = None
    time: Times = None
    season: Seasons = None
    model: Annotated[
        str | None,
        typer.Option(
            help="seasonal, another model (the guide lists them), my.toml, my_module:make."
        ),
    ] = "seasonal"
    level: Level = 0.9
    seed: Seed = 0
    on_bad_row: OnBadRow = "error"
    sensitivity: Sensitivity = SENSITIVITY
    whole: Whole = None

    def __post_init__(self) -> None:
        a_level(self.level)
        a_sensitivity(self.sensitivity)
        one_of("--on-bad-row", self.on_bad_row, BAD_ROWS)

    def read(self, source: str, **more: Any) -> Stream:
        """The source, looked at as far as its first rows; `more` are options of `rmcvi.read`."""
        options: dict[str, Any] = {
            "columns": listed(self.columns) or None,
            "inputs": listed(self.inputs),
            "time": times(self.time),
            "on_bad_row": self.on_bad_row,
        }
        return read(source, **options | more)

    def plan(self, source: str, stream: Stream, long: int = LONG, **more: Any) -> Plan:
        """For rows such as the first ones; with `long` rows, one piece pays; `more` are options of
        the run.
        """
        options: dict[str, Any] = {
            "calendar": listed(self.calendar),
            "season": listed(self.season),
            "follow": False,
            "on_bad_row": self.on_bad_row,
            "limit": None,
            "checkpoint_every": 500,
            "sensitivity": self.sensitivity,
        }
        rows = min(rows_about(source), more.get("limit") or float("inf"))
        options["whole"] = rows >= long if self.whole is None else self.whole
        now = datetime.now(UTC).isoformat(timespec="seconds")
        model = self.model or "seasonal"
        return make_plan(source, stream, model, self.level, self.seed, now, **options | more)


@dataclass(frozen=True)
class DisplayOptions:
    """What `learn` and `resume` tell beside the files of a run."""

    format: Annotated[
        str | None, typer.Option(help="Write rows to standard output, too: jsonl or csv.")
    ] = None
    quiet: Quiet = False
    no_report: NoReport = False
    open_report: OpenReport = False

    def __post_init__(self) -> None:
        row_format(self.format)
