"""The learner and the loops around it."""

from rmcvi.learners.checkpoint import CheckpointError as CheckpointError
from rmcvi.learners.checkpoint import load as load
from rmcvi.learners.checkpoint import peek as peek
from rmcvi.learners.checkpoint import save as save
from rmcvi.learners.default import default_learner as default_learner
from rmcvi.learners.estimator import OnlineEstimator as OnlineEstimator
from rmcvi.learners.live import Live as Live
from rmcvi.learners.loops import run as run
from rmcvi.learners.loops import scan as scan
from rmcvi.learners.query import Forecast as Forecast
from rmcvi.learners.query import Imputed as Imputed
from rmcvi.learners.records import LearnerInfo as LearnerInfo
from rmcvi.learners.records import LearnerState as LearnerState
from rmcvi.learners.seasonal import SeasonalLearner as SeasonalLearner
from rmcvi.learners.smooth import Smoothed as Smoothed
from rmcvi.learners.told import Told as Told
from rmcvi.learners.units import Standardiser as Standardiser
from rmcvi.monitors.health import Alarm as Alarm
from rmcvi.monitors.health import Health as Health
