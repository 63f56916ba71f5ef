"""A run as it stands, for questions."""

from pathlib import Path
from typing import Any

from rmcvi.app.run.directory import ESTIMATES, Directory
from rmcvi.app.run.refusal import Refusal
from rmcvi.app.run.speech import printable, say
from rmcvi.learners import Live


class Opened:
    """Directory, plan, learner and what the checkpoint remembers."""

    def __init__(self, path: Path, model: str | None = None):
        self.directory, plan = Directory.open(path)
        self.plan = plan.trusted(model)
        newest = self.directory.last()
        if newest.remark:
            say(printable(newest.remark))
        self.kept: dict[str, Any] = newest.extra
        self.live: Live = self.plan.live()
        newest.load(self.live)
        self.rows: int = self.kept["rows"]
        if not self.rows:
            raise Refusal(f"{path}: has learned from no row yet")

    @property
    def last_time(self) -> float | None:
        """The time of the last row."""
        source = self.kept["source"]
        return None if source is None else source["clock"]

    def last_lines(self, count: int) -> list[str]:
        """The last rows of the estimates that belong to the checkpoint."""
        length = self.kept["bytes"][ESTIMATES]
        block = 1 << 16
        with open(self.directory.path / ESTIMATES, "rb") as file:
            start, data = length, b""
            while start and data.count(b"\n") <= count:
                step = min(block, start)
                start -= step
                file.seek(start)
                data = file.read(step) + data
                block *= 2
        return data.decode().splitlines()[-count:]
