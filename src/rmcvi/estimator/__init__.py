"""The learner and the loops around it."""

from rmcvi.estimator._estimator import Filtered as Filtered
from rmcvi.estimator._estimator import LearnerState as LearnerState
from rmcvi.estimator._estimator import OnlineEstimator as OnlineEstimator
from rmcvi.estimator._estimator import scan as scan
