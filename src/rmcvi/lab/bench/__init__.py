"""Speed, measured: seeded workloads whose programs take turns, and what they are asked to reach."""

from rmcvi.lab.bench.gradient_bench import gradient as gradient
from rmcvi.lab.bench.gradient_bench import scaling as scaling
from rmcvi.lab.bench.gradient_bench import weights as weights
from rmcvi.lab.bench.limit_bench import limit as limit
from rmcvi.lab.bench.live_bench import live as live
from rmcvi.lab.bench.measure import Outcome as Outcome
from rmcvi.lab.bench.measure import Target as Target
from rmcvi.lab.bench.measure import pinned as pinned
from rmcvi.lab.bench.pipeline_bench import pipeline as pipeline
from rmcvi.lab.bench.rivals_bench import rivals as rivals
from rmcvi.lab.bench.shard_bench import fleet_of as fleet_of
from rmcvi.lab.bench.stream_bench import fleet as fleet
from rmcvi.lab.bench.stream_bench import stream as stream

WORKLOADS = {
    "gradient": gradient,
    "weights": weights,
    "limit": limit,
    "scaling": scaling,
    "stream": stream,
    "rivals": rivals,
    "fleet": fleet,
    "pipeline": pipeline,
    "live": live,
}
"""By name, each a function of `quick`."""
