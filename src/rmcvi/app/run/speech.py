"""Words for people: nothing in them steers a terminal, and no run dies because nobody listens."""

import contextlib
import os
import sys
import unicodedata
from typing import Any


class Refusal(ValueError):
    """One sentence that says what came and what was expected; the command ends with status 2."""


def printable(text: object) -> str:
    """Text whose control characters (also those that turn its direction) are written out."""
    return "".join(map(_shown, str(text)))


def _shown(character: str) -> str:
    if character == "\n":
        return character
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    return character.encode("unicode_escape").decode() if hidden else character


def say(text: str, end: str = "\n") -> None:
    """A line on standard error; if that is full or closed, silence."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        silence(sys.stderr)


def silence(stream: Any) -> None:
    """Let what is written to a stream vanish from now on, also what it still holds."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, stream.fileno())
        os.close(null)


def open_closed_streams() -> None:
    """Standard streams that were closed lead nowhere, and no file gets their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(number, mode, errors="backslashreplace", closefd=False))
