"""The paper's experiments: each by one command, with what it claims and what we find."""

from rmcvi.lab.reproduce.experiment import Cell as Cell
from rmcvi.lab.reproduce.experiment import Conclusion as Conclusion
from rmcvi.lab.reproduce.experiment import Experiment as Experiment
from rmcvi.lab.reproduce.registry import differences as differences
from rmcvi.lab.reproduce.registry import find as find
from rmcvi.lab.reproduce.registry import names as names
from rmcvi.lab.reproduce.runner import reproduce as reproduce
