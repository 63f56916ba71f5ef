"""What a person sees on standard error: what was assumed, a line while it runs, a summary."""

import math
import re
import shutil
import sys
import time
from collections.abc import Iterable
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rmcvi.app.run.scores import RunningScores
from rmcvi.app.run.speech import printable, say

EVERY = 0.2
"""Seconds between two looks of the line."""
LISTED = 5
"""Columns whose last alarm is said; more lines than a hand has fingers are not read."""


class Progress:
    """Writes to standard error, unless it is to be quiet."""

    def __init__(self, quiet: bool):
        self.quiet = quiet
        self.begun, self._rows, self._shown = time.perf_counter(), 0, 0.0
        self._first = 0
        """Rows of the first chunk, which took as long as compiling does."""
        self._line = not quiet and sys.stderr.isatty()

    def say(self, sentences: Iterable[str]) -> None:
        """Sentences, one a line."""
        if not self.quiet:
            for sentence in sentences:
                say(printable(sentence))

    def begin(self) -> None:
        """The first row takes as long as compiling does."""
        if self._line:
            say("compiling ...", end="")

    def more(self, rows: int, scores: RunningScores) -> None:
        """More rows; the line is written over now and then."""
        now = time.perf_counter()
        if not self._rows:
            self.begun, self._first = now, rows
        self._rows += rows
        if self._line and now - self._shown >= EVERY:
            self._shown = now
            self._show(scores, now)

    def end(self, scores: RunningScores) -> None:
        """The last look of the line."""
        if self._line:
            self._show(scores, time.perf_counter())
            say("")

    def _show(self, scores: RunningScores, now: float) -> None:
        words = [f"{scores.rows} rows"]
        if self._rows > self._first:
            rate = (self._rows - self._first) / max(now - self.begun, 1e-9)
            words.append(f"{rate:.0f}/s")
        if math.isfinite(scores.better):
            words.append(f"error {100 * scores.better:.0f} % of persistence")
        alarms = sum(scores.alarms.values())
        words.append(f"{alarms} alarm{'' if alarms == 1 else 's'}")
        width = shutil.get_terminal_size().columns - 1
        say(f"\r\x1b[K{', '.join(words)[:width]}", end="")

    def summary(self, summary: dict[str, Any]) -> None:
        """A table of scores, then remarks and alarms."""
        if self.quiet:
            return
        console = Console(stderr=True, highlight=False)
        with console.capture() as text:
            print_summary(console, summary)
        say(text.get(), end="")


def print_summary(console: Console, summary: dict[str, Any]) -> None:
    """Scores, what is wrong with them, and alarms."""
    rows, seconds = summary["rows"], summary["seconds"]
    missing = f"{100 * (summary['missing_share'] or 0.0):.1f} % of values missing"
    took = f"learned in {seconds:.1f} s (start and compiling apart)"
    tell(console, f"{rows} rows, {missing}, {took}")
    console.print(scores_table(summary))
    for sentence in (*summary["remarks"], *alarm_lines(summary["alarms"])):
        tell(console, sentence)


def tell(console: Console, sentence: str) -> None:
    """A sentence, wrapped in a terminal but not within 10 000, and on one line elsewhere."""
    text = printable(sentence)
    if console.is_terminal:
        bound = re.sub(r"(?<=\d) (?=\d{3}\b|%)", "\xa0", text)
        text = fill(bound, console.width, break_on_hyphens=False).replace("\xa0", " ")
    console.print(text, markup=False, soft_wrap=True)


def alarm_lines(alarms: dict[str, int]) -> list[str]:
    """The last alarm of each column, with the number of all it had; the latest columns last."""
    columns: dict[str, dict[str, int]] = {}
    for sentence, count in alarms.items():
        name = sentence.partition(": ")[0]
        columns[name] = columns.pop(name, {}) | {sentence: count}
    lines = []
    for of in list(columns.values())[-LISTED:]:
        sentence, count = list(of.items())[-1]
        often = "once" if count == 1 else f"{count} times"
        often = often if len(of) == 1 else f"the last of {sum(of.values())}"
        lines.append(f"Alarm, {often}: {sentence}")
    unsaid = len(alarms) > len(lines)
    return [*lines, f"All {sum(alarms.values())} alarms are in summary.json."] if unsaid else lines


def scores_table(summary: dict[str, Any]) -> Table:
    """Scores by column and overall."""
    table = Table()
    table.add_column("column")
    lost = ("not predicted",) if summary["lost_predictions"] else ()
    for name in ("missing", "RMSE", "persistence", "coverage", *lost):
        table.add_column(name, justify="right")
    for name, column in summary["columns"].items():
        table.add_row(
            escape(printable(name)),
            _share(column["missing"]),
            *(_number(column[k]) for k in ("rmse", "persistence_rmse")),
            _share(column["coverage"]),
            *(str(column["lost_predictions"]) for _ in lost),
        )
    overall = summary["overall"]
    table.add_section()
    table.add_row(
        "all, in standard deviations",
        _share(summary["missing_share"] or 0.0),
        *(_number(overall[k]) for k in ("rmse", "persistence_rmse")),
        _share(overall["coverage"]),
        *(str(summary["lost_predictions"]) for _ in lost),
    )
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"
