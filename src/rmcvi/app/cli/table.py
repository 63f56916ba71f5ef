"""Rows for standard output: CSV, JSON lines or a table for people."""

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rmcvi.app.run.output import csv_line, csv_text, to_stdout
from rmcvi.app.run.speech import printable
from rmcvi.core.files import to_json

SHAPES = ("csv", "jsonl", "table")


def write_rows(names: Sequence[str], rows: Sequence[Sequence[Any]], form: str) -> None:
    """All rows in one of the `SHAPES`; NaN and None are nothing."""
    plain = [[_rounded(cell) for cell in row] for row in rows]
    if form == "jsonl":
        to_stdout("".join(to_json(dict(zip(names, r, strict=True))) + "\n" for r in plain))
    elif form == "csv":
        lines = [
            [csv_text(name) for name in names],
            *(["" if c is None else c for c in row] for row in plain),
        ]
        to_stdout("".join(map(csv_line, lines)))
    else:
        Console(highlight=False).print(_table(names, plain))


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A line per row and column, for however many columns: row, time, column, its numbers."""
    first = list(names[:2])
    pairs = [name.rpartition(".") for name in names[2:]]
    groups = list(dict.fromkeys(group for group, _, _ in pairs))
    parts = list(dict.fromkeys(part for _, _, part in pairs))
    table = Table()
    for name in (*first, "column", *parts):
        table.add_column(name, justify="left" if name == "column" else "right")
    for row in rows:
        cells = {(g, p): _short(v) for (g, _, p), v in zip(pairs, row[2:], strict=True)}
        for i, group in enumerate(groups):
            start = [_short(v) for v in row[:2]] if i == 0 else ["", ""]
            table.add_row(
                *start, escape(printable(group)), *(cells.get((group, p), "") for p in parts)
            )
        table.add_section()
    return table


def _rounded(cell: Any) -> Any:
    if isinstance(cell, float):
        return float(f"{cell:.9g}") if math.isfinite(cell) else None
    return cell


def _short(cell: Any) -> str:
    return "" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else printable(cell)
