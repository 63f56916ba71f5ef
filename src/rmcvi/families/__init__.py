"""Variational families q_phi and the exponential-family algebra they are made of."""

from rmcvi.families.base import AbstractFamily as AbstractFamily
from rmcvi.families.exponential import AbstractExponentialFamily as AbstractExponentialFamily
from rmcvi.families.exponential import DiagonalGaussian as DiagonalGaussian
from rmcvi.families.exponential import FullGaussian as FullGaussian
from rmcvi.families.exponential import Natural as Natural
from rmcvi.families.extended_kalman import ExtendedKalmanFamily as ExtendedKalmanFamily
from rmcvi.families.innovation import InnovationFamily as InnovationFamily
from rmcvi.families.kalman import KalmanModel as KalmanModel
from rmcvi.families.linear_gaussian import LinearGaussianFamily as LinearGaussianFamily
from rmcvi.families.per_step import PerStepFamily as PerStepFamily
from rmcvi.families.recurrent import RecurrentFamily as RecurrentFamily
