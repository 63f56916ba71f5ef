"""The learner and the loops around it."""

from rmcvi.estimator._checkpoint import CheckpointError as CheckpointError
from rmcvi.estimator._checkpoint import load as load
from rmcvi.estimator._checkpoint import peek as peek
from rmcvi.estimator._checkpoint import save as save
from rmcvi.estimator._compare import compare as compare
from rmcvi.estimator._comparison import Comparison as Comparison
from rmcvi.estimator._default import default_learner as default_learner
from rmcvi.estimator._estimator import OnlineEstimator as OnlineEstimator
from rmcvi.estimator._fleet import Fleet as Fleet
from rmcvi.estimator._health import Alarm as Alarm
from rmcvi.estimator._health import Health as Health
from rmcvi.estimator._live import Live as Live
from rmcvi.estimator._query import Forecast as Forecast
from rmcvi.estimator._query import Imputed as Imputed
from rmcvi.estimator._records import LearnerInfo as LearnerInfo
from rmcvi.estimator._records import LearnerState as LearnerState
from rmcvi.estimator._run import run as run
from rmcvi.estimator._run import scan as scan
from rmcvi.estimator._smooth import Smoothed as Smoothed
from rmcvi.estimator._told import Told as Told
