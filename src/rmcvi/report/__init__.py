"""Reports: the page of a run, and figures and pages of experiments in one style."""

from rmcvi.report._figure import LOOKS as LOOKS
from rmcvi.report._figure import Look as Look
from rmcvi.report._figure import band as band
from rmcvi.report._figure import figure as figure
from rmcvi.report._figure import legend as legend
from rmcvi.report._figure import look as look
from rmcvi.report._figure import save as save
from rmcvi.report._figure import style as style
from rmcvi.report._page import Picture as Picture
from rmcvi.report._page import Section as Section
from rmcvi.report._page import Table as Table
from rmcvi.report._page import page as page
from rmcvi.report._summary import summarise as summarise
from rmcvi.report._write import write as write
