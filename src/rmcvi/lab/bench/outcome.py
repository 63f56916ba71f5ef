"""What a workload found: numbers by name, a table, and targets that are met or not."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class Target(eqx.Module):
    """What was asked for, and whether it was measured."""

    text: str
    met: bool


class Outcome(eqx.Module):
    """One workload's result; `numbers` are the keys of its JSON."""

    name: str
    title: str
    numbers: dict[str, Any]
    rows: list[dict[str, Any]]
    targets: list[Target]
    quick: bool = False

    def to_json(self) -> dict[str, Any]:
        """Numbers at the top, then everything behind them."""
        return {
            "name": self.name,
            "quick": self.quick,
            **self.numbers,
            "rows": self.rows,
            "targets": [{"text": v.text, "met": v.met} for v in self.targets],
            "machine": machine(),
        }


def machine() -> dict[str, Any]:
    """Threads, versions and precision that the numbers belong to."""
    return {
        "threads": threads(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "processor": platform.processor() or platform.machine(),
        "backend": jax.default_backend(),
        "precision": str(jnp.zeros(()).dtype),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
    }


def threads() -> int:
    """How many cores a compiled program may use."""
    cores = getattr(os, "sched_getaffinity", None)
    return len(cores(0)) if cores is not None else os.cpu_count() or 1


@contextmanager
def pinned(count: int) -> Iterator[None]:
    """Keep to the first `count` cores, where the system lets a program do so.

    XLA makes as many threads as there are cores when it is first used: pin before.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
