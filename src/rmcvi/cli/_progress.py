"""What a person sees on standard error: what was assumed, a line while it runs, a summary."""

import math
import shutil
import sys
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rmcvi.cli._scores import Scores

EVERY = 0.2
"""Seconds between two looks of the line."""


class Voice:
    """Speaks on standard error unless it is told to be quiet."""

    def __init__(self, quiet: bool):
        self.quiet = quiet
        self.begun, self._rows, self._shown = time.perf_counter(), 0, 0.0
        self._line = not quiet and sys.stderr.isatty()

    def say(self, sentences: Iterable[str]) -> None:
        """Sentences, one a line."""
        if not self.quiet:
            for sentence in sentences:
                print(sentence, file=sys.stderr)

    def begin(self) -> None:
        """The first row takes as long as compiling does."""
        if self._line:
            print("compiling ...", end="", file=sys.stderr, flush=True)

    def row(self, scores: Scores) -> None:
        """One more row; the line is written over now and then."""
        self._rows += 1
        now = time.perf_counter()
        if self._rows == 1:
            self.begun = now
        if self._line and now - self._shown >= EVERY:
            self._shown = now
            self._show(scores, now)

    def end(self, scores: Scores) -> None:
        """The last look of the line."""
        if self._line:
            self._show(scores, time.perf_counter())
            print(file=sys.stderr)

    def _show(self, scores: Scores, now: float) -> None:
        words = [f"{scores.rows} rows"]
        if self._rows > 1:
            words.append(f"{(self._rows - 1) / max(now - self.begun, 1e-9):.0f}/s")
        if math.isfinite(scores.better):
            words.append(f"error {100 * scores.better:.0f} % of persistence")
        alarms = sum(scores.alarms.values())
        words.append(f"{alarms} alarm{'' if alarms == 1 else 's'}")
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{', '.join(words)[:width]}", end="", file=sys.stderr, flush=True)

    def summary(self, summary: dict[str, Any]) -> None:
        """A table of scores, then the alarms."""
        if self.quiet:
            return
        console = Console(stderr=True, highlight=False)
        console.print(scores_table(summary))
        for sentence, count in summary["alarms"].items():
            times = "once" if count == 1 else f"{count} times"
            console.print(f"Alarm, {times}: {sentence}", markup=False)


def scores_table(summary: dict[str, Any]) -> Table:
    """Scores by column and overall."""
    rows, seconds = summary["rows"], summary["seconds"]
    missing = summary["missing_share"] or 0.0
    title = f"{rows} rows, {100 * missing:.1f} % of values missing, {seconds:.1f} s"
    table = Table(title=title, title_justify="left")
    table.add_column("column")
    for name in ("missing", "RMSE", "persistence", "coverage"):
        table.add_column(name, justify="right")
    for name, told in summary["columns"].items():
        table.add_row(
            escape(name),
            _share(told["missing"]),
            *(_number(told[k]) for k in ("rmse", "persistence_rmse")),
            _share(told["coverage"]),
        )
    overall = summary["overall"]
    table.add_section()
    table.add_row(
        "all, in standard deviations",
        _share(missing),
        *(_number(overall[k]) for k in ("rmse", "persistence_rmse")),
        _share(overall["coverage"]),
    )
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"
