"""A run as it stands, for questions."""

from pathlib import Path
from typing import Any

from rmcvi import Live
from rmcvi.cli._app import Refusal
from rmcvi.cli._directory import ESTIMATES, Directory


class Opened:
    """Directory, plan, learner and what the checkpoint remembers."""

    def __init__(self, path: Path):
        self.directory, self.plan = Directory.open(path)
        self.kept: dict[str, Any] = self.directory.kept()
        self.live: Live = self.plan.live()
        self.live.load(self.directory.checkpoint)
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
