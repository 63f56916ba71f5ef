"""A long stream in blocks: after each one, learner and records are on disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import rmcvi


def learn_in_blocks(
    learner: rmcvi.OnlineEstimator,
    rows: Callable[[int], Any],
    blocks: int,
    observe: Callable[[Any, Any, int], dict[str, float]],
    collect: Callable[[Any, Any, Any], Any],
    scratch: Path,
    say: Callable[[str], None],
) -> tuple[Any, dict[str, np.ndarray]]:
    """The final state and what `observe(state, collected, block)` found after every block.

    `rows(block)` gives the observations. A run that was cut off goes on after its last full block.
    """
    kept, state = scratch / "learner.rmcvi", learner.init(jax.random.key(2))
    records: list[dict[str, float]] = []
    if kept.exists():
        state, extra = rmcvi.load(kept, learner)
        records = extra["records"]
    for block in range(len(records), blocks):
        state, collected = rmcvi.scan(learner, state, rows(block), collect=collect)
        records.append({k: float(v) for k, v in observe(state, collected, block).items()})
        rmcvi.save(kept, learner, state, {"records": records})
        text = ", ".join(f"{name} {value:.4g}" for name, value in records[-1].items())
        say(f"block {block + 1} of {blocks}: {text}")
    return state, {name: np.array([r[name] for r in records]) for name in records[0]}
