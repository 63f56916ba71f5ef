"""The paper's experiments: each by one command, with what it claims and what we find."""

from rmcvi.reproduce._experiment import Cell as Cell
from rmcvi.reproduce._experiment import Conclusion as Conclusion
from rmcvi.reproduce._experiment import Experiment as Experiment
from rmcvi.reproduce._registry import find as find
from rmcvi.reproduce._registry import names as names
from rmcvi.reproduce._run import reproduce as reproduce
