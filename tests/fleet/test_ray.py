"""On a Ray cluster, with an actor killed and a node lost, the output is that of processes."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet._fleets import begin, finish, make_source, output

pytestmark = pytest.mark.long  # a minute: a cluster, and actors that each import JAX
ROOT = Path(__file__).parents[2]
ALONE = ["unshare", "--net", "bash", "-c", 'ip link set lo up && exec "$@"', "bash"]
"""Ray listens on the machine's own address; in a network of its own there is none but loopback."""


def test_actors_write_what_processes_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the byte, sorted by key and time."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed (extra 'ray')")
    if shutil.which("unshare") is None or subprocess.run([*ALONE, "true"], check=False).returncode:
        pytest.skip("a network of its own is not allowed here")
    monkeypatch.chdir(tmp_path)
    source = make_source(tmp_path, rows=600)  # or one actor ends before the other begins
    begin(source, tmp_path / "whole", 1)
    finish(tmp_path / "whole", 1)
    environment = os.environ | {
        "JAX_ENABLE_X64": "1",
        "SLOWLY": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'src'}"
    script = [sys.executable, "-m", "tests.fleet._cluster", str(tmp_path)]
    done = subprocess.run(
        [*ALONE, *script], cwd=ROOT, env=environment, capture_output=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert done.stderr.count(b"died; it goes on from its checkpoint") >= 2
    assert output(tmp_path / "run") == output(tmp_path / "whole")
