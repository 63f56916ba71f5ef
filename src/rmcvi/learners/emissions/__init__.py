"""Columns of counts and of shares, by particles beside the closed form."""

from rmcvi.learners.emissions.learner import LAWS as LAWS
from rmcvi.learners.emissions.learner import Emission as Emission
from rmcvi.learners.emissions.learner import EmissionLearner as EmissionLearner
