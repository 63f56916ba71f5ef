"""The rivals of RMCVI, on the same contract."""

from rmcvi.baselines._kalman import KalmanFiltered as KalmanFiltered
from rmcvi.baselines._kalman import KalmanSmoothed as KalmanSmoothed
from rmcvi.baselines._kalman import kalman_filter as kalman_filter
from rmcvi.baselines._kalman import kalman_smoother as kalman_smoother
from rmcvi.baselines._kalman import log_evidence as log_evidence
from rmcvi.baselines._kalman import score as score
from rmcvi.baselines._kalman_recursion import ExtendedKalmanRecursion as ExtendedKalmanRecursion
from rmcvi.baselines._kalman_recursion import KalmanRecursion as KalmanRecursion
from rmcvi.baselines._least_squares import RecursiveLeastSquares as RecursiveLeastSquares
from rmcvi.baselines._lstm import OnlineLSTM as OnlineLSTM
from rmcvi.baselines._persistence import Persistence as Persistence
