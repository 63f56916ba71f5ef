"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from rmcvi.app.run.output import FORMATS
from rmcvi.app.run.speech import Refusal
from rmcvi.core.checks import check_option

RunDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")]
SameModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Of a run that your own code learned: its my_module:make, to allow that code again.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on standard error.")]
NoReport = Annotated[bool, typer.Option("--no-report", help="Write no report.html.")]
OpenReport = Annotated[bool, typer.Option("--open", help="Open the report in a browser.")]
Level = Annotated[
    float, typer.Option(help="Probability that a value is in its band.", min=0.0, max=1.0)
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns", "-c", metavar="NAMES", help="Columns to learn (default: all numeric ones)."
    ),
]
InputColumns = Annotated[
    list[str] | None,
    typer.Option("--input", "-u", metavar="NAMES", help="Columns known ahead of time."),
]
Calendar = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help="Inputs from the calendar: hour, week, month, year."),
]
Times = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help="Time column, or date and clock; 'none' for none."),
]
Seasons = Annotated[
    list[str] | None,
    typer.Option(metavar="ROWS", help="Rows in a season: 12, or 24,168; 'none' for none."),
]
Emissions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LAW",
        help="gaussian (default), auto (counts and shares are found), poisson, negative-binomial or"
        " bounded; or NAME=LAW for one column.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)]
OnBadRow = Annotated[
    str,
    typer.Option(
        help="Of a bad row: error (stop), skip (leave it out) or missing (leave out what is bad)."
    ),
]
Sensitivity = Annotated[
    float,
    typer.Option(
        metavar="NUMBER",
        help="False alarms that you accept, per column in 10 000 rows; 0.1 for fewer alarms.",
    ),
]
Whole = Annotated[
    bool | None,
    typer.Option(
        "--one-piece/--many-pieces",
        help="Compile longer, for quicker rows (default: for a file where that pays).",
    ),
]
BAD_ROWS = ("error", "skip", "missing")


def one_of(name: str, value: str | None, options: tuple[str, ...]) -> str | None:
    """The value if it is among the options, else a sentence with the nearest one."""
    try:
        return None if value is None else check_option(name, value, options)
    except ValueError as error:
        raise Refusal(str(error)) from None


def row_format(value: str | None) -> str | None:
    """`--format` of rows."""
    return one_of("--format", value, FORMATS)


def a_level(value: float) -> float:
    """`--level`, strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise Refusal(f"--level: got {value:g}, expected a number between 0 and 1, such as 0.9")
    return value


def a_sensitivity(value: float) -> float:
    """`--sensitivity`, a positive number."""
    if not 0.0 < value < float("inf"):
        raise Refusal(f"--sensitivity: got {value:g}, expected a positive number, such as 0.1")
    return value


def listed(values: list[str] | None) -> list[str]:
    """Names given one by one or with commas between them."""
    names = [part.strip() for value in values or [] for part in value.split(",")]
    return [name for name in names if name]


def times(names: list[str] | None) -> list[str] | None:
    """`--time`: none for 'none', None to look for one."""
    found = listed(names)
    return [] if found == ["none"] else found or None
