"""`rmcvi verify`: is a run directory whole?"""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rmcvi.app.cli.commands import app
from rmcvi.app.cli.options import RunDirectory
from rmcvi.app.run.directory import (
    CHECKPOINT,
    ESTIMATES,
    GROWING,
    PREVIOUS,
    RUN,
    SUMMARY,
    Directory,
)
from rmcvi.app.run.estimates import Field, pairs, state_names
from rmcvi.app.run.plan import Plan
from rmcvi.app.run.speech import Refusal, printable
from rmcvi.app.sources import DataError, Position
from rmcvi.learners import CheckpointError

EXAMPLES = """
[bold]Examples[/bold]

rmcvi verify air.run

rmcvi verify air.run && rmcvi resume air.run
"""
BLOCK = 1 << 20
"""Bytes that are read at a time."""


@app.command(epilog=EXAMPLES)
def verify(directory: RunDirectory) -> int:
    """Check that a run directory is whole; nothing in it is changed.

    Looks at run.json, both checkpoints, the lengths, checksums and every line of the files that
    grow, and at the source as far as it was read. Says OK, or one sentence for each trouble; the
    exit status is 0 or 1.
    """
    room, plan = Directory.open(directory)
    troubles = list(_troubles(room, plan))
    for sentence in troubles:
        print(printable(sentence))
    if not troubles:
        print("OK")
    return 1 if troubles else 0


def _troubles(room: Directory, plan: Plan) -> Iterator[str]:
    yield from _plain_json(room.path / RUN)
    if (room.path / SUMMARY).exists():
        yield from _plain_json(room.path / SUMMARY)
    newest: dict[str, Any] | None = None
    for name in (CHECKPOINT, PREVIOUS):
        path = room.path / name
        if not path.exists():
            if name == CHECKPOINT or newest is None:
                yield f"{path}: is missing."
            continue
        try:
            extra = room.remembered(path)
        except (CheckpointError, Refusal) as error:
            yield f"{str(error).rstrip('.')}."
            continue
        newest = newest or extra
        yield from _lengths(room.path, path, extra)
    if newest is not None:
        for name in GROWING:
            schema = plan if name == ESTIMATES else None
            length, checksum = newest["bytes"].get(name, 0), newest.get("checksums", {}).get(name)
            troubles = [*_lines(room.path / name, length, schema)]
            yield from troubles or _changed(room.path / name, length, checksum)
        yield from _source(plan, newest)


def _lengths(folder: Path, checkpoint: Path, extra: dict[str, Any]) -> Iterator[str]:
    for name, length in extra["bytes"].items():
        path = folder / name
        found = path.stat().st_size if path.exists() else 0
        if found < length:
            yield f"{path}: got {found} bytes, expected the {length} of {checkpoint.name}."


def _plain_json(path: Path) -> Iterator[str]:
    try:
        json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except (OSError, RecursionError, ValueError) as error:
        yield f"{path}: {error}."


def _no_number(word: str) -> Any:
    raise ValueError(f"got {word}, expected a number or null")


def _lines(path: Path, length: int, plan: Plan | None) -> Iterator[str]:
    """The lines that the checkpoint accounts for, each an object; with a plan, rows of estimates.

    Lines after them belong to rows that a resume does again.
    """
    if not path.exists():
        return
    expected: list[tuple[str, Field]] = []
    done = 0
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            done += len(text)
            if done > length:
                return
            try:
                line = json.loads(text, parse_constant=_no_number)
                if not isinstance(line, dict):
                    raise ValueError("got no JSON object")
                if plan is not None:
                    if number == 1:
                        states = state_names(line, plan.columns)
                        expected = pairs(plan.columns, states, plan.row_fields)
                    _check_row(line, number, expected)
            except (RecursionError, ValueError) as error:
                yield f"{path}, line {number}: {error}."
                return


def _changed(path: Path, length: int, checksum: int | None) -> Iterator[str]:
    """The bytes that the checkpoint accounts for are those that were written."""
    if checksum is None or not path.exists():
        return
    found = 0
    with path.open("rb") as file:
        while length and (block := file.read(min(length, BLOCK))):
            found, length = zlib.crc32(block, found), length - len(block)
    if found != checksum and not length:
        yield f"{path}: was changed since it was written (its checksum is another)."


def _check_row(line: dict[str, Any], row: int, expected: list[tuple[str, Field]]) -> None:
    """A line of estimates has the fields that `run.json` names, and the number of its row."""
    if line.get("row") != row:
        raise ValueError(f"got row {line.get('row')}, expected {row}")
    if list(line) != [name for name, _ in expected]:
        names = dict(expected)
        wrong = [name for name in line if name not in names] + [n for n in names if n not in line]
        what = f"(look at {wrong[0]!r})" if wrong else "(their order differs)"
        raise ValueError(f"got other fields than {RUN} names {what}")
    for name, field in expected:
        if not field.accepts(line[name]):
            got = json.dumps(line[name])[:40]
            raise ValueError(f"got {got} for {name!r}, expected {field.expected}")


def _source(plan: Plan, extra: dict[str, Any]) -> Iterator[str]:
    """The source goes on from what was read of it, if it is there to be looked at."""
    if plan.source == "-" or not extra.get("source") or not Path(plan.place()).exists():
        return
    try:
        after = Position.from_json(extra["source"])
        next(iter(plan.with_options(follow=False).stream(after)), None)
    except DataError as error:
        yield f"{str(error).rstrip('.')}."
