"""Run in a network of its own: a fleet on Ray; a node is lost, the actor on the other killed.

Arguments: the folder with the source and the cheap learner.
"""

import importlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from rmcvi.app.fleet import engines
from tests.fleet._fleets import MODEL, begin

ONE_CORE = {"num_cpus": 1, "node_ip_address": "127.0.0.1"}
"""A node; without its address, Ray looks for one that others could reach."""


def survivors(processes: list[int]) -> list[int]:
    """Those that are left when one has gone with its node."""
    end = time.monotonic() + 60.0
    while True:
        alive = [number for number in processes if Path(f"/proc/{number}").exists()]
        if len(alive) < len(processes) or time.monotonic() > end:
            return alive
        time.sleep(0.1)


def main(folder: Path) -> None:
    """Leaves `run` in the folder."""
    os.chdir(folder)
    cluster: Any = importlib.import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args=ONE_CORE | {"include_dashboard": False}
    )
    try:
        lost = cluster.add_node(**ONE_CORE)
        begin(folder / "plant.csv", folder / "run", 2, every=40)
        told = []
        for told in engines.run(str(folder / "run"), 2, MODEL, address=cluster.address):
            if lost is not None and all(t.rows and not t.done for t in told):
                cluster.remove_node(lost, allow_graceful=False)
                cluster.add_node(**ONE_CORE)
                lost = None
                (left,) = survivors([t.process for t in told])
                os.kill(left, signal.SIGKILL)
        assert lost is None, "it was done before anything could be lost"
        assert sum(t.streams for t in told) == 9
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
