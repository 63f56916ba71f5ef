"""What the tests of checkpoints share: bits of a state, messages of a refusal, ways to fail."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import rmcvi
from rmcvi.learners.checkpoint import CheckpointError, load


def bits(state: Any) -> list[tuple[str, bytes]]:
    """Type and bytes of every leaf."""
    raw = [
        jax.random.key_data(v) if jax.numpy.issubdtype(v.dtype, jax.dtypes.prng_key) else v
        for v in jax.tree.leaves(state)
    ]
    types = [str(jax.typeof(v)) for v in jax.tree.leaves(state)]
    return list(zip(types, [np.asarray(v).tobytes() for v in raw], strict=True))


def contents(directory: Path) -> dict[Path, bytes | None]:
    """Every file with its bytes; temporaries of a running process may come and go."""
    files: dict[Path, bytes | None] = {}
    for path in directory.iterdir():
        with suppress(FileNotFoundError):
            files[path] = path.read_bytes() if path.is_file() else None
    return files


def refusal(path: Path, learner: rmcvi.AbstractLearner) -> str:
    """The message of a load that fails; nothing in the directory may change."""
    before = contents(path.parent)
    with pytest.raises(CheckpointError) as caught:
        load(path, learner)
    assert contents(path.parent) == before
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert message.endswith(".")
    return message


def sealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def failing(code: int) -> Callable[..., None]:
    def fail(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def start(path: Path, steps: int) -> subprocess.Popen[bytes]:
    """A process that learns up to `steps` and saves to `path`."""
    command = [sys.executable, "-m", "tests.learners._resumed", str(path), str(steps)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2])
