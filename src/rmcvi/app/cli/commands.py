"""The `rmcvi` command: its commands, and how every error becomes one sentence and a status."""

import errno
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from rmcvi.app.run.speech import Refusal, open_closed_streams, printable, say, silence
from rmcvi.version import __version__

COMMANDS = {
    "demo": "See it at work on six weeks of simulated sensors.",
    "learn": "Learn from a file, a pipe or a growing log, row by row.",
    "fleet": "Learn many streams of one source, told apart by a key.",
    "resume": "Go on with a run where it stopped, however it did.",
    "serve": "Learn from a broker, from HTTP or a growing file, with a page to watch.",
    "forecast": "Forecast the next rows.",
    "smooth": "Estimate the last rows again, given all up to now.",
    "report": "Write the report of a run again.",
    "inspect": "Say how well a run predicts and what it has learned.",
    "verify": "Check that a run directory is whole.",
    "doctor": "Look for what is wrong with a file.",
    "simulate": "Write a simulated stream, with gaps and failures if asked.",
    "bench": "Measure speed.",
    "reproduce": "Run an experiment of the paper, or check it.",
}
"""Commands in the order in which a newcomer meets them, in the words of `rmcvi --help`."""
ABOVE = {"bench": "rmcvi.lab.bench.command", "reproduce": "rmcvi.lab.reproduce.command"}
"""Commands that live on the floor above: found by name, so that nothing here imports them."""
FAILED, WRONG, LOST, INTERRUPTED, PIPE_CLOSED = 1, 2, 3, 130, 141
HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
BROKEN = "0.10.2"
"""A jaxlib that compiles some matrix products wrongly (its issue 39103)."""


class Commands(TyperGroup):
    """Knows what its commands are called; a command's module is imported when it is called."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=text) for name, text in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else _load(name), rest


app = typer.Typer(
    cls=Commands,
    name="rmcvi",
    add_completion=False,
    rich_markup_mode=None,  # its help is plain text: rich would take longer to import than all else
    context_settings=HELP,
)


def _load(name: str) -> Any:
    from importlib.metadata import version  # not for `--help`, which it would delay

    if version("jaxlib") == BROKEN:
        what = f"got version {BROKEN}, which computes some matrix products wrongly"
        raise Refusal(f"jaxlib: {what}, expected another one")
    importlib.import_module(ABOVE.get(name, f"rmcvi.app.cli.{name}"))
    for group in app.registered_groups:
        if group.name == name:
            made = typer.main.get_group_from_info(
                group, pretty_exceptions_short=True, rich_markup_mode="rich", suggest_commands=True
            )
            for command in (made, *made.commands.values()):
                _leave_flags_bare(command)
            return made
    known = {info.callback.__name__: info for info in app.registered_commands if info.callback}
    command = typer.main.get_command_from_info(
        known[name], pretty_exceptions_short=True, rich_markup_mode="rich"
    )
    # The terminal wraps paragraphs, not the source.
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(text.split()) for text in paragraphs)
    _leave_flags_bare(command)
    return command


def _leave_flags_bare(command: Any) -> None:
    """A flag takes no value, so that its help shows no type of one."""
    for option in command.get_params(typer.Context(command, **HELP)):
        if option.param_type_name == "option" and option.is_flag:
            option.metavar = ""


def _version(asked: bool) -> bool:
    if asked:
        print(f"rmcvi {__version__}")
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

    Try `rmcvi demo`, then `rmcvi learn FILE --out DIR`; `rmcvi COMMAND --help` has examples.
    """
    del debug, version


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its status; without arguments the process is ours to set up."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is not None:
        return _run(words)
    open_closed_streams()
    _prepare_jax()
    signal.signal(signal.SIGINT, _interrupt_once)
    status = _run(words)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt
    stopper = sys.modules.get("rmcvi.app.run.stopper")
    if stopper is not None and stopper.abandoned:
        os._exit(status)  # a compiler is at work, which Python would not survive
    return status


def _run(words: list[str]) -> int:
    debug = "--debug" in words
    try:
        plain = [word for word in words if word != "--debug"] or ["--help"]
        status = app(plain, "rmcvi", standalone_mode=False)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if debug:
            traceback.print_exc()
        return _explain(error)
    return status if isinstance(status, int) else 0


def _explain(error: BaseException) -> int:
    """One sentence on standard error (none if nobody waits for it), and the status."""
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError) or _left_by_typer(error):
        silence(sys.stdout)  # as after `head`: no complaint, not even at exit
        return PIPE_CLOSED
    message, status = _sentence(error)
    if message:
        say(f"error: {' '.join(printable(message).split())}")
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        silence(sys.stdout)
    return status


def _sentence(error: BaseException) -> tuple[str, int]:
    if isinstance(error, typer.TyperException):
        return error.format_message(), error.exit_code
    from rmcvi.app.sources import DataError
    from rmcvi.learners import CheckpointError

    if isinstance(error, Refusal | DataError | CheckpointError):
        return str(error), WRONG
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror or error}", FAILED
    if isinstance(error, SystemExit):
        return f"the model's code asked to exit ({error}); --debug shows where", FAILED
    first = (str(error).strip() or "no message").splitlines()[0]
    return f"{type(error).__name__}: {first} (unexpected; --debug shows where)", FAILED


def _left_by_typer(error: BaseException) -> bool:
    """Whether typer met a closed pipe, which it turns into SystemExit."""
    why = error.__context__
    return isinstance(error, SystemExit) and isinstance(why, OSError) and why.errno == errno.EPIPE


def _interrupt_once(number: int, frame: FrameType | None) -> None:
    """A second Ctrl-C must not meet the clearing up after the first."""
    del frame
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _prepare_jax() -> None:
    """Before its import: no lines of its compiler; programs survive between runs.

    They go to the user's cache directory unless JAX is told another, or there is none.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":  # 1 is what jax sets, for children too
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rmcvi" / "jax"
        cache.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(cache)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
