"""Simulated streams, and what happens to them: gaps, and sensors that fail."""

from dataclasses import dataclass

import numpy as np

from rmcvi.app.cli.options import one_of
from rmcvi.app.run.refusal import Refusal

KINDS = ("freeze", "zero", "noise", "drift", "spikes", "gone")


@dataclass(frozen=True)
class Failure:
    """`length` rows from `start` on (counted from 1) in which a column's sensor fails."""

    column: str
    start: int
    length: int
    kind: str

    @classmethod
    def parse(cls, text: str) -> "Failure":
        """COLUMN:START:LENGTH:KIND."""
        parts = text.rsplit(":", 3)
        numbers = [p for p in parts[1:3] if p.isdecimal() and int(p) > 0]
        if len(parts) != 4 or len(numbers) != 2:
            expected = "COLUMN:START:LENGTH:KIND, such as y1:200:50:freeze"
            raise Refusal(f"--fail: got {text!r}, expected {expected}")
        kind = one_of("--fail", parts[3], KINDS) or "freeze"
        return cls(parts[0], int(numbers[0]), int(numbers[1]), kind)

    def apply(self, values: np.ndarray, names: list[str], rng: np.random.Generator) -> None:
        """Change the rows in place."""
        name = one_of("--fail", self.column, tuple(names))
        column = values[:, names.index(name or "")]
        rows = column[self.start - 1 : self.start - 1 + self.length]
        spread = float(np.nanstd(column))
        noise = rng.standard_normal(len(rows))
        match self.kind:
            case "freeze":
                rows[:] = rows[:1]
            case "zero":
                rows[:] = 0.0
            case "gone":
                rows[:] = np.nan
            case "noise":
                rows += 3.0 * spread * noise
            case "drift":
                rows += spread * np.linspace(0.0, 4.0, len(rows))
            case _:
                rows += np.where(rng.random(len(rows)) < 0.1, 8.0 * spread * np.sign(noise), 0.0)


def rhythm(rows: int, columns: int, seed: int, day: int = 24) -> np.ndarray:
    """Hours of correlated columns with a daily and a weekly rhythm around their own levels."""
    rng = np.random.default_rng(seed)
    hours = np.arange(rows)
    hour, weekend = hours % day, (hours // day) % 7 >= 5
    common, own = np.zeros(rows), np.zeros((rows, columns))
    for t in range(1, rows):
        common[t] = 0.9 * common[t - 1] + 0.2 * rng.standard_normal()
        own[t] = 0.8 * own[t - 1] + 0.15 * rng.standard_normal(columns)
    phase = 2.0 * np.pi * (hour[:, None] - np.linspace(6.0, 10.0, columns)[None]) / day
    size = np.where(weekend, 0.5, 1.0)[:, None]
    wave = size * (np.sin(phase) + 0.4 * np.sin(2.0 * phase))
    shares = np.linspace(0.9, 0.4, columns)[None]
    level, scale = 10.0 * 3.0 ** np.arange(columns), 2.0 * 3.0 ** np.arange(columns)
    return level[None] + scale[None] * (wave + shares * common[:, None] + own)


def punch(values: np.ndarray, share: float, rng: np.random.Generator) -> None:
    """Make a share of the values missing, in gaps of one to ten rows."""
    if share <= 0.0:
        return
    rows, columns = values.shape
    for column in range(columns):
        wanted = round(share * rows)
        while wanted > int(np.isnan(values[:, column]).sum()):
            lacking = wanted - int(np.isnan(values[:, column]).sum())
            start = int(rng.integers(rows))
            values[start : start + min(lacking, int(rng.integers(1, 11))), column] = np.nan
