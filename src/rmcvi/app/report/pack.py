"""Arrays as text for the page: two bytes a number, deflated, in base 64.

Each block of 256 numbers has its own least value and step, so that an outlier costs precision in
its block alone: `x = low + step * code`, with 65535 for NaN. What is kept are the differences of
codes, high bytes first and low bytes after them, which deflate better.
"""

import base64
import zlib
from typing import Any

import numpy as np

BLOCK = 256
TOP = 65534


class Packer:
    """Collects arrays; `index` says where each lies in the inflated bytes."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.index: dict[str, list[Any]] = {}
        self.size = 0

    def add(self, name: str, values: np.ndarray) -> None:
        """An array of numbers (n,), kept to 1/131068 of the range of their block."""
        self._keep(name, "number", len(values), encode(np.asarray(values, float)))

    def share(self, name: str, values: np.ndarray) -> None:
        """An array of numbers in [0, 1], kept to 1/508."""
        known = np.isfinite(values)
        codes = np.where(known, np.round(np.clip(np.where(known, values, 0), 0, 1) * 254), 255)
        self._keep(name, "share", len(values), codes.astype(np.uint8).tobytes())

    def exact(self, name: str, values: np.ndarray) -> None:
        """An array of doubles as they are."""
        self._keep(name, "double", len(values), np.asarray(values, "<f8").tobytes())

    def text(self) -> str:
        """Everything, as base 64."""
        return base64.b64encode(zlib.compress(b"".join(self.parts), 6)).decode("ascii")

    def _keep(self, name: str, kind: str, length: int, data: bytes) -> None:
        self.index[name] = [kind, self.size, length]
        self.parts.append(data)
        self.size += len(data)


def encode(values: np.ndarray) -> bytes:
    """Least values and steps of the blocks, then high and low bytes of the codes' differences."""
    blocks = -(-len(values) // BLOCK)
    table = np.full(blocks * BLOCK, np.nan)
    table[: len(values)] = values
    table = table.reshape(blocks, BLOCK)
    known = np.isfinite(table)
    low = np.where(known, table, np.inf).min(1, initial=np.inf)
    high = np.where(known, table, -np.inf).max(1, initial=-np.inf)
    empty = ~known.any(1)
    low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
    step = high / TOP - low / TOP
    away = np.where(known, table, low[:, None]) - low[:, None]
    codes = np.round(away / np.where(step > 0, step, 1.0)[:, None])
    codes = np.where(known, np.minimum(codes, TOP), TOP + 1).astype(np.int64).reshape(-1)
    change = np.diff(codes[: len(values)], prepend=0) % 65536
    parts = [low.astype("<f8"), step.astype("<f8")]
    parts += [(change >> 8).astype(np.uint8), (change & 255).astype(np.uint8)]
    return b"".join(part.tobytes() for part in parts)
