"""Rows for standard output: CSV, JSON lines or a table for people."""

import json
import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rmcvi.cli._output import csv_line, to_stdout

SHAPES = ("csv", "jsonl", "table")


def write_rows(names: Sequence[str], rows: Sequence[Sequence[Any]], form: str) -> None:
    """All rows in one of the `SHAPES`; NaN and None are nothing."""
    plain = [[_rounded(cell) for cell in row] for row in rows]
    if form == "jsonl":
        to_stdout("".join(json.dumps(dict(zip(names, r, strict=True))) + "\n" for r in plain))
    elif form == "csv":
        lines = [names, *(["" if c is None else c for c in row] for row in plain)]
        to_stdout("".join(map(csv_line, lines)))
    else:
        table = Table()
        for name in names:
            table.add_column(escape(name), justify="right")
        for row in plain:
            table.add_row(*(_short(cell) for cell in row))
        Console(highlight=False).print(table)


def _rounded(cell: Any) -> Any:
    if isinstance(cell, float):
        return float(f"{cell:.7g}") if math.isfinite(cell) else None
    return cell


def _short(cell: Any) -> str:
    return "" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell)
