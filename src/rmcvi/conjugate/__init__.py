"""Learners whose updates are in closed form."""

from rmcvi.conjugate._experts import Band as Band
from rmcvi.conjugate._seasonal import SeasonalLearner as SeasonalLearner
from rmcvi.conjugate._state import SeasonalInfo as SeasonalInfo
from rmcvi.conjugate._state import SeasonalState as SeasonalState
