"""Files that are whole or not there, and JSON that every program can read."""

import json
import math
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

STALE = 60.0
"""Seconds after which a temporary file has no writer any more: writing one takes far less."""


def replace(path: Path, content: bytes) -> None:
    """Write beside `path`, then rename: the file under that name is always a whole one.

    A link under that name is replaced, not followed; the temporary name cannot be guessed.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)
        raise
    sync(path.parent)


def sync(directory: Path) -> None:
    """New names in a directory survive a power cut."""
    if sys.platform != "win32":
        number = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def sweep(path: Path, age: float = STALE) -> None:
    """Remove what killed processes left beside `path`: temporary files older than `age` seconds."""
    before = time.time() - age
    for found in path.parent.iterdir():
        name = found.name
        if not name.startswith(f".{path.name}.") or not name.endswith((".tmp", ".part")):
            continue
        if found.is_file() and found.lstat().st_mtime <= before:
            found.unlink(missing_ok=True)


def to_json(plain: Any, **layout: Any) -> str:
    """JSON without NaN and infinities, for which it has no word: they become null."""
    return json.dumps(_finite(plain), allow_nan=False, **layout)


def _finite(plain: Any) -> Any:
    if isinstance(plain, float):
        return plain if math.isfinite(plain) else None
    if isinstance(plain, dict):
        return {name: _finite(value) for name, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_finite(value) for value in plain]
    return plain
