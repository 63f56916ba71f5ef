"""The `rmcvi` command: its commands, and how every error becomes one sentence and a status."""

import typer

app = typer.Typer(
    name="rmcvi",
    help="Learn state-space models online: from a file, a pipe or a growing log.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point of the `rmcvi` script."""
    app()
