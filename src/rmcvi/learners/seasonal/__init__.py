"""Learners whose updates are in closed form."""

from rmcvi.learners.seasonal.learner import SeasonalLearner as SeasonalLearner
from rmcvi.learners.seasonal.state import SeasonalInfo as SeasonalInfo
from rmcvi.learners.seasonal.state import SeasonalState as SeasonalState
