"""Reports: the page of a run, and figures and pages of experiments in one style."""

from rmcvi.app.report.figures import LOOKS as LOOKS
from rmcvi.app.report.figures import Look as Look
from rmcvi.app.report.figures import band as band
from rmcvi.app.report.figures import figure as figure
from rmcvi.app.report.figures import legend as legend
from rmcvi.app.report.figures import look as look
from rmcvi.app.report.figures import save as save
from rmcvi.app.report.figures import style as style
from rmcvi.app.report.page import Picture as Picture
from rmcvi.app.report.page import Section as Section
from rmcvi.app.report.page import Table as Table
from rmcvi.app.report.page import page as page
from rmcvi.app.report.summary import summarise as summarise
from rmcvi.app.report.write import write as write
