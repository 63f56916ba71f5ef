"""The `rmcvi` command: its commands, and how every error becomes one sentence and a status."""

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import typer
from typer.core import TyperGroup

import rmcvi
from rmcvi.data import DataError
from rmcvi.estimator import CheckpointError

FIRST = ("demo", "learn", "resume", "forecast", "smooth", "report", "inspect", "doctor", "simulate")
"""Commands in the order in which a newcomer meets them; others follow."""


class Commands(TyperGroup):
    """Lists commands as `FIRST` does."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in order."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda n: FIRST.index(n) if n in FIRST else len(FIRST))


app = typer.Typer(
    cls=Commands,
    name="rmcvi",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
FAILED, WRONG, LOST, PIPE_CLOSED = 1, 2, 3, 141


class Refusal(ValueError):
    """A wrong call: one sentence that says what came and what was expected."""


def _version(asked: bool) -> bool:
    if asked:
        print(f"rmcvi {rmcvi.__version__}")
        raise typer.Exit
    return asked


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Learn state-space models online: from a file, a pipe or a growing log.

    Try [bold]rmcvi demo[/bold], then [bold]rmcvi learn FILE --out DIR[/bold].
    """
    del debug, version


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the `rmcvi` script; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    if arguments is None:
        _keep_compiled()
    try:
        status = app([w for w in words if w != "--debug"], "rmcvi", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # typer leaves by SystemExit when the pipe is closed, and only then
        return close_quietly()
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _explain(error)
    return status if isinstance(status, int) else 0


def close_quietly() -> int:
    """The reader of our output has gone, as `head` does: no complaint, not even at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


def _explain(error: Exception) -> int:
    """One sentence on standard error, and the status."""
    if isinstance(error, (typer.TyperException, Refusal, DataError, CheckpointError)):
        message = getattr(error, "format_message", error.__str__)()
        status = getattr(error, "exit_code", WRONG)
    elif isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        message, status = f"{name}{error.strerror or error}", FAILED
    else:
        first = (str(error).strip() or "no message").splitlines()[0]
        message = f"{type(error).__name__}: {first} (unexpected; --debug shows where)"
        status = FAILED
    if message:
        print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return status


def _keep_compiled() -> None:
    """Programs survive between runs, in the user's cache directory unless JAX is told another."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rmcvi" / "jax"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
