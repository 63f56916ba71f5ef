"""What the compiler is told: a row of the seasonal learner is one piece of code."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from rmcvi import compiling

PROGRAM = """
from rmcvi import compiling
compiling.one_piece()
import jax, numpy as np, rmcvi
from functools import partial
from rmcvi.learners import chunk

learner = rmcvi.SeasonalLearner(1, period=6, long_period=None)
program = chunk.Program(learner, learner.init(jax.random.key(0)), chunk.Watch.fresh(1))
given = program._leaves, program.arrays, program._rows, np.int32(1), np.int32(0)
doubted = np.zeros(len(program._leaves), bool)
lowered = jax.jit(partial(chunk._advance, program._fixed)).lower(*given, doubted)
main = (text := lowered.compile().as_text())[text.index("ENTRY"):]
print("calls", main.count(" call("), "loops", main.count(" while("))
"""


def test_flags_of_a_user_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set stays; what is said twice is said once."""
    monkeypatch.setenv("XLA_FLAGS", f"--mine {compiling.EXTRA}=other=1")
    compiling.one_piece()
    once = os.environ["XLA_FLAGS"]
    assert once.startswith(f"--mine {compiling.EXTRA}=other=1") and compiling.LOOPS not in once
    compiling.one_piece()
    assert os.environ["XLA_FLAGS"] == once


def test_an_unknown_compiler_is_told_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag that it does not know would end the process."""
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setattr(compiling, "KNOWN", ())
    compiling.one_piece()
    assert os.environ["XLA_FLAGS"] == compiling.LOOPS


@pytest.mark.long
@pytest.mark.skipif(version("jaxlib") not in compiling.KNOWN, reason="another compiler")
def test_the_loop_over_rows_is_one_piece() -> None:
    """In a process that told its compiler; its only call has all operations of all rows in it."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout == "calls 1 loops 0\n", done.stderr
