"""Particles shard: on two devices the recursion's numbers are those of one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_particles_on_two_devices() -> None:
    """In a process of its own, whose processor counts as two devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    environment = os.environ | {
        "XLA_FLAGS": flags,
        "JAX_ENABLE_X64": "1",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.recursion._devices"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "equal over 4 steps" in done.stdout and "particles" in done.stdout
