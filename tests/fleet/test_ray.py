"""On a Ray cluster, whatever is killed, lost or cut off, the output is that of processes."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet._fleets import begin, finish, make_source, output, published

pytestmark = pytest.mark.long  # a minute: a cluster, and actors that each import JAX
ROOT = Path(__file__).parents[2]
ALONE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
ALONE += ["bash", "-c", 'ip link set lo up && "$@"; exit $?', "bash"]
"""Ray listens on the machine's own address; in a network of its own there is none but loopback.
And no process of a cluster outlives the first one, a shell, which buries the others."""


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The output of one process, of a source that is there for the cluster, too."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed (extra 'ray')")
    if shutil.which("unshare") is None or subprocess.run([*ALONE, "true"], check=False).returncode:
        pytest.skip("a network of its own is not allowed here")
    monkeypatch.chdir(tmp_path)
    source = make_source(tmp_path, rows=600)  # or one actor ends before the other begins
    begin(source, tmp_path / "whole", 1)
    finish(tmp_path / "whole", 1)
    return output(tmp_path / "whole")


def in_a_cluster(script: str, *words: str) -> bytes:
    """What a script of this folder says."""
    environment = os.environ | {
        "JAX_ENABLE_X64": "1",
        "SLOWLY": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'src'}"
    command = [*ALONE, sys.executable, "-m", f"tests.fleet.{script}", *words]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stderr


def test_actors_write_what_processes_do(whole: list[str], tmp_path: Path) -> None:
    """To the byte, sorted by key and time: a node is lost, and an actor killed."""
    told = in_a_cluster("_cluster", str(tmp_path))
    assert told.count(b"died; it goes on from its checkpoint") >= 2
    assert output(tmp_path / "run") == whole


@pytest.mark.parametrize(("kind", "storage"), [("short", ""), ("long", ""), ("long", "file://")])
def test_a_network_is_cut_and_healed(
    kind: str, storage: str, whole: list[str], tmp_path: Path
) -> None:
    """To the byte, whether the cluster notices or not; with a common disk, or without."""
    if shutil.which("bridge") is None:
        pytest.skip("a network needs `ip` and `bridge` (Debian's iproute2)")
    place = f"{storage}{tmp_path / ('put' if storage else 'run')}"
    told = in_a_cluster("_cut", str(tmp_path), place, kind)
    assert told.count(b"died; it goes on from its checkpoint") >= (kind == "long")
    assert (published(place) if storage else output(tmp_path / "run")) == whole
