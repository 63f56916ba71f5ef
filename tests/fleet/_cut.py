"""Run in a network of its own: a fleet on two Ray nodes whose network is cut and healed.

Arguments: the folder with the source and the cheap learner, where the fleet goes, and how long the
cut is: "short", the cluster does not notice; or "long", until it has given the other node up.
"""

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmcvi.app.fleet import engines
from rmcvi.app.fleet.remote import write_plan
from rmcvi.app.fleet.storage import Storage, is_remote
from rmcvi.app.fleet.told import Told
from tests.fleet._fleets import MODEL, begin

NEAR, FAR = "10.77.0.1", "10.77.0.2"
ADDRESS = f"{NEAR}:6379"
SHORT = 4.0
"""Seconds of a short cut; the cluster gives up a node that is silent for fifteen."""
SOON = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "15",
}
"""Ray's defaults are a minute and more."""


def call(words: str, there: Sequence[str] = ()) -> None:
    """A command that succeeds."""
    subprocess.run([*there, *words.split()], check=True)


@contextmanager
def process(*words: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """One that runs meanwhile."""
    quiet = subprocess.DEVNULL
    going = subprocess.Popen(words, stdout=quiet, stderr=quiet, env=os.environ | environment)
    try:
        yield going
    finally:
        going.terminate()
        going.wait()


@contextmanager
def network() -> Iterator[list[str]]:
    """A bridge with our address and a cable to another network; how to run a command there."""
    call("ip link add name bridge0 type bridge")
    call(f"ip address add {NEAR}/24 dev bridge0")
    call("ip link set bridge0 up")
    with process("unshare", "--net", "sleep", "infinity") as other:
        while os.readlink(f"/proc/{other.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            time.sleep(0.01)
        there = ["nsenter", "-t", str(other.pid), "-n"]
        call(f"ip link add near type veth peer name far netns {other.pid}")
        call("ip link set near master bridge0 up")
        call("ip link set lo up", there)
        call(f"ip address add {FAR}/24 dev far", there)
        call("ip link set far up", there)
        yield there


def let_through(packets: bool) -> None:
    """Or drop them without a word, as a cable in the ground that was cut does."""
    call(f"bridge link set dev near state {3 if packets else 0}")


@contextmanager
def cluster(folder: Path, there: list[str]) -> Iterator[Any]:
    """Two nodes with a core each and a temporary folder of their own, once both are up."""
    start = [shutil.which("ray") or str(Path(sys.executable).with_name("ray")), "start", "--block"]
    start += ["--num-cpus=1", "--disable-usage-stats"]
    head = [f"--node-ip-address={NEAR}", "--head", "--port=6379", "--include-dashboard=false"]
    other = [f"--node-ip-address={FAR}", f"--address={ADDRESS}"]
    for name in ("near", "far"):
        (folder / name).mkdir()
    ray: Any = importlib.import_module("ray")
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # as paths of sockets have to be
        near = SOON | {"RAY_TMPDIR": short, "TMPDIR": str(folder / "near")}
        with process(*start, *head, **near):
            until_there(ray, 1)
            with process(*there, *start, *other, **near | {"TMPDIR": str(folder / "far")}):
                until_there(ray, 2)
                yield ray


def until_there(ray: Any, nodes: int) -> None:
    """Wait for as many nodes."""
    for _ in range(100):
        try:
            ray.init(ADDRESS, logging_level="ERROR", log_to_driver=False)
            if alive(ray) == nodes:
                return
        except (ConnectionError, RuntimeError, ValueError):
            pass
        finally:
            ray.shutdown()
        time.sleep(0.5)
    raise RuntimeError(f"there are not {nodes} nodes")


def alive(ray: Any) -> int:
    """Nodes that the cluster believes to be there."""
    return sum(node["Alive"] for node in ray.nodes())


def is_far(told: Told) -> bool:
    """Whether a shard is learned in the other network."""
    where = Path(f"/proc/{told.process}/ns/net")
    return where.exists() and os.readlink(where) != os.readlink("/proc/self/ns/net")


def main(folder: Path, place: str, kind: str) -> None:
    """Leaves the fleet there."""
    os.chdir(folder)
    made = begin(folder / "plant.csv", folder / "run", 2, every=40)
    if is_remote(place):
        write_plan(Storage(place), made)
    with network() as there, cluster(folder, there) as ray:
        far, at, since, healed, told = -1, 0, 0.0, False, []
        for told in engines.run(place, 2, MODEL, address=ADDRESS):
            if far < 0 and all(t.rows and not t.done for t in told):
                (far,) = [t.shard for t in told if is_far(t)]
                let_through(False)
                since = time.monotonic()
            elif far >= 0 and not healed:
                gone = time.monotonic() - since
                at = told[far].rows if gone < SHORT / 2 else at  # an answer was on its way
                assert gone < 300.0, "the node is still there"
                if gone > SHORT if kind == "short" else alive(ray) == 1:
                    assert told[far].rows == at and not told[far].done, "nothing was cut"
                    let_through(True)
                    healed = True
        assert healed, "it was done before the network could be cut and healed"
        assert sum(t.streams for t in told) == 9 and told[far].rows > at


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
