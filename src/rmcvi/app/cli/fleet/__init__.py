"""`rmcvi fleet`: many streams in one source, told apart by a key."""

from rmcvi.app.cli.fleet import learning as learning
from rmcvi.app.cli.fleet import questions as questions
