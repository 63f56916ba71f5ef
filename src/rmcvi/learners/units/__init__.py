"""Columns in units of their own, learned online."""

from rmcvi.learners.units.rows import Units as Units
from rmcvi.learners.units.scaling import Scaling as Scaling
from rmcvi.learners.units.standardise import Standardiser as Standardiser
