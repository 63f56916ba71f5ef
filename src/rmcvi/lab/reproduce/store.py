"""Cells on disk: done ones are read, not repeated."""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rmcvi.core.files import replace


def fingerprint(settings: Mapping[str, Any], version: str) -> str:
    """Changes whenever the settings or the version do."""
    text = json.dumps([settings, version], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Store:
    """One folder per fingerprint, one file per cell."""

    def __init__(self, root: Path, mark: str):
        self.root = root / mark
        self.root.mkdir(parents=True, exist_ok=True)

    def scratch(self, cell: str) -> Path:
        """A folder in which the cell may keep what must survive an interruption."""
        path = self.root / f"{cell}.part"
        path.mkdir(exist_ok=True)
        return path

    def read(self, cell: str) -> dict[str, np.ndarray] | None:
        """What the cell found, or None if it is not done."""
        path = self._path(cell)
        if not path.exists():
            return None
        with np.load(path) as kept:
            return {name: kept[name] for name in kept.files}

    def write(self, cell: str, found: Mapping[str, Any]) -> None:
        """Keep it, all or nothing."""
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer, allow_pickle=False, **{k: np.asarray(v) for k, v in found.items()}
        )
        replace(self._path(cell), buffer.getvalue())

    def _path(self, cell: str) -> Path:
        return self.root / f"{cell}.npz"
