"""Reports: the page of a run, and figures and pages of experiments in one style.

Names of figures.py are imported when they are used: the page of a run needs no matplotlib.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rmcvi.app.report.write import write as write

if TYPE_CHECKING:
    from rmcvi.app.report.figures import LOOKS as LOOKS
    from rmcvi.app.report.figures import Look as Look
    from rmcvi.app.report.figures import Picture as Picture
    from rmcvi.app.report.figures import Section as Section
    from rmcvi.app.report.figures import Table as Table
    from rmcvi.app.report.figures import band as band
    from rmcvi.app.report.figures import figure as figure
    from rmcvi.app.report.figures import legend as legend
    from rmcvi.app.report.figures import look as look
    from rmcvi.app.report.figures import page as page
    from rmcvi.app.report.figures import save as save
    from rmcvi.app.report.figures import style as style


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'rmcvi.app.report' has no attribute {name!r}")
    return getattr(importlib.import_module("rmcvi.app.report.figures"), name)
