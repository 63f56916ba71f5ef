"""The rivals of RMCVI, on the same contract."""

from rmcvi.baselines._free_backward import FreeBackward as FreeBackward
from rmcvi.baselines._kalman import KalmanFiltered as KalmanFiltered
from rmcvi.baselines._kalman import KalmanSmoothed as KalmanSmoothed
from rmcvi.baselines._kalman import kalman_filter as kalman_filter
from rmcvi.baselines._kalman import kalman_smoother as kalman_smoother
from rmcvi.baselines._kalman import log_evidence as log_evidence
from rmcvi.baselines._kalman import score as score
from rmcvi.baselines._kalman_recursion import ExtendedKalmanRecursion as ExtendedKalmanRecursion
from rmcvi.baselines._kalman_recursion import KalmanRecursion as KalmanRecursion
from rmcvi.baselines._kernel_ridge import KernelRidge as KernelRidge
from rmcvi.baselines._least_squares import RecursiveLeastSquares as RecursiveLeastSquares
from rmcvi.baselines._lstm import OnlineLSTM as OnlineLSTM
from rmcvi.baselines._ovsmc import OVSMC as OVSMC
from rmcvi.baselines._paris import AllPairs as AllPairs
from rmcvi.baselines._paris import Paris as Paris
from rmcvi.baselines._particle import ParticleRecursion as ParticleRecursion
from rmcvi.baselines._particle_smoother import ParticleFiltered as ParticleFiltered
from rmcvi.baselines._particle_smoother import fixed_lag_smoother as fixed_lag_smoother
from rmcvi.baselines._particle_smoother import particle_filter as particle_filter
from rmcvi.baselines._particle_smoother import particle_smoother as particle_smoother
from rmcvi.baselines._persistence import Persistence as Persistence
from rmcvi.baselines._proposal_network import ProposalNetwork as ProposalNetwork
from rmcvi.baselines._regression import FunctionRegression as FunctionRegression
from rmcvi.baselines._regression_network import NetworkRegressor as NetworkRegressor
from rmcvi.baselines._regressor import AbstractRegressor as AbstractRegressor
