"""Speed, measured: seeded workloads whose programs take turns, and what they are asked to reach."""

from rmcvi.bench._fleet import fleet as fleet
from rmcvi.bench._gradient import gradient as gradient
from rmcvi.bench._limit import limit as limit
from rmcvi.bench._outcome import Outcome as Outcome
from rmcvi.bench._outcome import Target as Target
from rmcvi.bench._outcome import pinned as pinned
from rmcvi.bench._rivals import rivals as rivals
from rmcvi.bench._scaling import scaling as scaling
from rmcvi.bench._stream import stream as stream

WORKLOADS = {
    "gradient": gradient,
    "limit": limit,
    "scaling": scaling,
    "stream": stream,
    "rivals": rivals,
    "fleet": fleet,
}
"""By name, each a function of `quick`."""
