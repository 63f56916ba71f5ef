"""Reports: the page of a run, and figures and pages of experiments in one style."""

from rmcvi.report._summary import summarise as summarise
from rmcvi.report._write import write as write
