"""What a result was found with."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import rmcvi

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy")


def machine() -> dict[str, Any]:
    """Processor, threads, precision and versions."""
    return {
        "rmcvi": rmcvi.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": jax.devices()[0].platform,
        "precision": str(jnp.zeros(()).dtype),
        "flags": os.environ.get("XLA_FLAGS", ""),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _commit() -> str | None:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
