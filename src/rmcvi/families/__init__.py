"""Variational families q_phi and the exponential-family algebra they are made of."""

from rmcvi.families._base import AbstractFamily as AbstractFamily
from rmcvi.families._exponential import AbstractExponentialFamily as AbstractExponentialFamily
from rmcvi.families._exponential import DiagonalGaussian as DiagonalGaussian
from rmcvi.families._exponential import FullGaussian as FullGaussian
from rmcvi.families._exponential import Natural as Natural
from rmcvi.families._extended_kalman import ExtendedKalmanFamily as ExtendedKalmanFamily
from rmcvi.families._innovation import InnovationFamily as InnovationFamily
from rmcvi.families._kalman import KalmanModel as KalmanModel
from rmcvi.families._linear_gaussian import LinearGaussianFamily as LinearGaussianFamily
from rmcvi.families._per_step import PerStepFamily as PerStepFamily
from rmcvi.families._recurrent import RecurrentFamily as RecurrentFamily
