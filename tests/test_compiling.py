"""What the compiler is told: a row of the seasonal learner is one piece of code."""

import os
import re
from functools import partial
from importlib.metadata import version

import jax
import numpy as np
import pytest

import rmcvi
from rmcvi import compiling
from rmcvi.learners import chunk


def test_flags_of_a_user_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set stays; what is said twice is said once."""
    monkeypatch.setenv("XLA_FLAGS", f"--mine {compiling.EXTRA}=other=1")
    compiling.prepare()
    once = os.environ["XLA_FLAGS"]
    assert once.startswith(f"--mine {compiling.EXTRA}=other=1") and compiling.LOOPS not in once
    compiling.prepare()
    assert os.environ["XLA_FLAGS"] == once


def test_an_unknown_compiler_is_told_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag that it does not know would end the process."""
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setattr(compiling, "KNOWN", ())
    compiling.prepare()
    assert os.environ["XLA_FLAGS"] == compiling.LOOPS


@pytest.mark.skipif(version("jaxlib") not in compiling.KNOWN, reason="another compiler")
def test_the_loop_over_rows_is_one_piece() -> None:
    """No operation of a row is one of the program's own: all are within its only call."""
    learner = rmcvi.SeasonalLearner(1, period=6, long_period=None)
    program = chunk.Program(learner, learner.init(jax.random.key(0)), chunk.Watch.fresh(1))
    given = program._leaves, program.arrays, program._rows, np.int32(1), np.int32(0)
    flat = np.zeros(len(program._leaves), bool)
    lowered = jax.jit(partial(chunk._advance, program._fixed)).lower(*given, flat)
    text = lowered.compile().as_text()
    assert text is not None
    main = text[text.index("ENTRY") :]
    assert len(re.findall(r" call\(", main)) == 1 and " while(" not in main
