"""The command line: one module per command, which is imported when the command is called."""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the `rmcvi` script; returns the exit status."""
    try:
        from rmcvi.app.cli import commands

        return commands.run(arguments)
    except KeyboardInterrupt:
        return 130
