"""The command line: one module per command, each of which registers itself with the app."""

from rmcvi.cli import _bench as _bench
from rmcvi.cli import _demo as _demo
from rmcvi.cli import _doctor as _doctor
from rmcvi.cli import _forecast as _forecast
from rmcvi.cli import _inspect as _inspect
from rmcvi.cli import _learn as _learn
from rmcvi.cli import _report as _report
from rmcvi.cli import _reproduce as _reproduce
from rmcvi.cli import _resume as _resume
from rmcvi.cli import _simulate as _simulate
from rmcvi.cli import _smooth as _smooth
from rmcvi.cli._app import app as app
from rmcvi.cli._app import main as main
