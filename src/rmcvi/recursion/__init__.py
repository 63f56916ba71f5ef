"""The method: RMCVI and its parts."""

from rmcvi.recursion.backward import AcceptReject as AcceptReject
from rmcvi.recursion.backward import FullWeights as FullWeights
from rmcvi.recursion.backward import SampledIndices as SampledIndices
from rmcvi.recursion.functional import AdditiveFunctional as AdditiveFunctional
from rmcvi.recursion.ideal_finite import FiniteElbo as FiniteElbo
from rmcvi.recursion.ideal_finite import FiniteFamily as FiniteFamily
from rmcvi.recursion.ideal_finite import FiniteModel as FiniteModel
from rmcvi.recursion.ideal_finite import batch_elbo as batch_elbo
from rmcvi.recursion.ideal_finite import ideal_finite_elbo as ideal_finite_elbo
from rmcvi.recursion.ideal_linear import ideal_elbo as ideal_elbo
from rmcvi.recursion.natural import NaturalRMCVI as NaturalRMCVI
from rmcvi.recursion.natural import NaturalState as NaturalState
from rmcvi.recursion.per_step import PerStepRMCVI as PerStepRMCVI
from rmcvi.recursion.per_step import PerStepState as PerStepState
from rmcvi.recursion.rmcvi import RMCVI as RMCVI
from rmcvi.recursion.rmcvi import RMCVIState as RMCVIState
