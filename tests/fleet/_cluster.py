"""Run in a network of its own: a fleet on a Ray cluster; an actor is killed, then a node is lost.

Arguments: the folder with the source and the cheap learner.
"""

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from rmcvi.app.fleet import engines
from tests.fleet._fleets import MODEL, begin


def main(folder: Path) -> None:
    """Leaves `run` in the folder."""
    os.chdir(folder)
    cluster: Any = importlib.import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        lost = cluster.add_node(num_cpus=1)
        begin(folder / "plant.csv", folder / "run", 2, every=40)
        killed, told, before = False, [], 0
        for told in engines.run(str(folder / "run"), 2, MODEL, address=cluster.address):
            first = told[0]
            if first.rows > 100 and not first.done and not killed:
                os.kill(first.process, signal.SIGKILL)
                killed, before = True, sum(t.rows for t in told)
            elif killed and lost is not None and sum(t.rows for t in told) > before + 150:
                cluster.remove_node(lost, allow_graceful=False)
                cluster.add_node(num_cpus=1)
                lost = None
        assert killed and lost is None, "it was done before anything could be killed"
        assert sum(t.streams for t in told) == 9
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
