"""The command line: one module per command, each of which registers itself with the app."""

from rmcvi.cli._app import app as app
from rmcvi.cli._app import main as main
