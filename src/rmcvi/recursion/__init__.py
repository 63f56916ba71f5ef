"""The method: RMCVI and its parts."""

from rmcvi.recursion._functional import AdditiveFunctional as AdditiveFunctional
from rmcvi.recursion._per_step import PerStepRMCVI as PerStepRMCVI
from rmcvi.recursion._per_step import PerStepState as PerStepState
from rmcvi.recursion._rmcvi import RMCVI as RMCVI
from rmcvi.recursion._rmcvi import RMCVIState as RMCVIState
from rmcvi.recursion._weights import AcceptReject as AcceptReject
from rmcvi.recursion._weights import FullWeights as FullWeights
from rmcvi.recursion._weights import SampledIndices as SampledIndices
