"""The learner and the loops around it."""

from rmcvi.learners.checkpoint import CheckpointError as CheckpointError
from rmcvi.learners.checkpoint import load as load
from rmcvi.learners.checkpoint import peek as peek
from rmcvi.learners.checkpoint import save as save
from rmcvi.learners.chunk import CAPACITY as CAPACITY
from rmcvi.learners.default import default_learner as default_learner
from rmcvi.learners.estimate import Estimate as Estimate
from rmcvi.learners.estimate import Estimates as Estimates
from rmcvi.learners.estimate import LiveForecast as LiveForecast
from rmcvi.learners.estimator import OnlineEstimator as OnlineEstimator
from rmcvi.learners.live import Live as Live
from rmcvi.learners.loops import run as run
from rmcvi.learners.loops import scan as scan
from rmcvi.learners.query import Trajectories as Trajectories
from rmcvi.learners.records import LearnerInfo as LearnerInfo
from rmcvi.learners.records import LearnerState as LearnerState
from rmcvi.learners.seasonal import SeasonalLearner as SeasonalLearner
from rmcvi.learners.trying import Suggestion as Suggestion
from rmcvi.learners.trying import suggest as suggest
from rmcvi.learners.units import Standardiser as Standardiser
from rmcvi.monitors.health import Alarm as Alarm
from rmcvi.monitors.health import Health as Health
