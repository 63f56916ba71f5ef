"""One line on standard error: which cell, how many are left, how long it may take."""

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar


class Progress:
    """A bar over the cells of an experiment; silent with `quiet`."""

    def __init__(self, quiet: bool = False):
        self.console = Console(stderr=True, quiet=quiet)
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )

    @contextlib.contextmanager
    def over(self, name: str, cells: int) -> Iterator[None]:
        """Show the bar while the cells are run."""
        self.name = name
        self.task = self.bar.add_task(name, total=cells)
        with self.bar:
            yield

    def begin(self, cell: str) -> None:
        """A cell is being worked on."""
        self.bar.update(self.task, description=f"{self.name}: {cell}")

    def done(self) -> None:
        """A cell is finished."""
        self.bar.advance(self.task)

    def say(self, text: str) -> None:
        """A line of its own above the bar."""
        self.console.print(text, style="dim", highlight=False)
