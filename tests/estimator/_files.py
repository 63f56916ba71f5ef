"""What the tests of checkpoints share: bits of a state, messages of a refusal, ways to fail."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import rmcvi
from rmcvi.estimator._checkpoint import CheckpointError, load


def bits(state: Any) -> list[tuple[str, bytes]]:
    """Type and bytes of every leaf."""
    raw = [
        jax.random.key_data(v) if jax.numpy.issubdtype(v.dtype, jax.dtypes.prng_key) else v
        for v in jax.tree.leaves(state)
    ]
    types = [str(jax.typeof(v)) for v in jax.tree.leaves(state)]
    return list(zip(types, [np.asarray(v).tobytes() for v in raw], strict=True))


def refusal(path: Path, learner: rmcvi.OnlineEstimator) -> str:
    """The message of a load that fails; nothing in the directory may change."""

    def directory() -> dict[Path, Any]:
        return {p: p.read_bytes() if p.is_file() else None for p in path.parent.iterdir()}

    before = directory()
    with pytest.raises(CheckpointError) as caught:
        load(path, learner)
    assert directory() == before
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
