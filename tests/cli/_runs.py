"""A cheap learner, a stream, and how to call the command here or in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from rmcvi.app.cli import main
from rmcvi.app.cli.simulate import punch, rhythm, table

CHEAP = """
import os, time, rmcvi

if "SLOWLY" in os.environ:  # so that a signal meets a run that is going on
    learn_many = rmcvi.Live.learn_many
    rmcvi.Live.learn_many = lambda live, y, *rest: (
        time.sleep(0.002 * len(y)) or learn_many(live, y, *rest)
    )

def make(columns, inputs):
    return rmcvi.baselines.Persistence(columns, inputs)

def wrong(columns, inputs):
    return "no learner"
"""
MODEL = ("--model", "cheap:make")
ROWS = 400


class Done(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str


def call(capsys: pytest.CaptureFixture[str], *words: Any) -> Done:
    """The command in this process."""
    capsys.readouterr()
    status = main([str(word) for word in words])
    told = capsys.readouterr()
    return Done(status, told.out, told.err)


def start(folder: Path, *words: Any, stdout: int | None = None) -> subprocess.Popen[bytes]:
    """The command in a process that computes as the tests do, to the bit."""
    environment = os.environ | {"JAX_ENABLE_X64": "1", "SLOWLY": "1"}
    command = [sys.executable, "-m", "rmcvi", *map(str, words)]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=stdout, stderr=subprocess.PIPE
    )


def make_source(folder: Path, rows: int = ROWS) -> Path:
    """A stream with gaps beside the module of the cheap learner."""
    (folder / "cheap.py").write_text(CHEAP)
    values = rhythm(rows, 2, seed=1)
    punch(values, 0.05, np.random.default_rng(2))
    path = folder / "stream.csv"
    path.write_text(table(["co", "nox"], values))
    return path


def outputs(directory: Path) -> tuple[bytes, bytes]:
    """The two files that must be equal to the byte."""
    first, second = directory / "estimates.jsonl", directory / "parameters.jsonl"
    return first.read_bytes(), second.read_bytes()
