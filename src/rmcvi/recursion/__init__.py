"""The method: RMCVI and its parts."""

from rmcvi.recursion.backward import CalibratedWeights as CalibratedWeights
from rmcvi.recursion.backward import FullWeights as FullWeights
from rmcvi.recursion.drawn import AcceptReject as AcceptReject
from rmcvi.recursion.drawn import SampledIndices as SampledIndices
from rmcvi.recursion.functional import AdditiveFunctional as AdditiveFunctional
from rmcvi.recursion.ideal_linear import ideal_elbo as ideal_elbo
from rmcvi.recursion.natural import NaturalRMCVI as NaturalRMCVI
from rmcvi.recursion.natural_diagonal import NaturalState as NaturalState
from rmcvi.recursion.natural_full import FullState as FullState
from rmcvi.recursion.per_step import PerStepRMCVI as PerStepRMCVI
from rmcvi.recursion.per_step import PerStepState as PerStepState
from rmcvi.recursion.rmcvi import RMCVI as RMCVI
from rmcvi.recursion.rmcvi import RMCVIState as RMCVIState
