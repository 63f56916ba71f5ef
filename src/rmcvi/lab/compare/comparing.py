"""Methods side by side: each predicts, is scored, and only then learns, on the same stream.

The stream is cut into blocks. Every method runs block 1, then every method block 2, and so on, the
order turning by one place each time, so that a busy machine is busy for all of them alike. Programs
are compiled and warmed up before the clock starts.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from rmcvi.contract import AbstractLearner
from rmcvi.core.checks import check_array, check_int
from rmcvi.lab.compare.comparison import Comparison
from rmcvi.lab.compare.trial import Stream, Trial


@dataclasses.dataclass(frozen=True)
class Setup:
    """What is scored, and how often methods run."""

    columns: Sequence[int] | None = None
    """Coordinates that errors, coverage and widths are about (default: all). The log score is
    always that of the whole observation."""
    names: Sequence[str] | None = None
    """Names of all coordinates."""
    seeds: Sequence[int] = (0,)
    """One pass each; accuracy is averaged and times are pooled."""
    blocks: int = 10
    """How many times methods take turns in a pass: enough for quartiles of the time."""

    def scored(self, dim: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The scored ones of `dim` coordinates and their names."""
        titles = tuple(f"y{j}" for j in range(dim)) if self.names is None else tuple(self.names)
        if len(titles) != dim:
            raise ValueError(f"names: got {len(titles)}, expected {dim}, one per coordinate")
        columns = range(dim) if self.columns is None else self.columns
        chosen = tuple(check_int("columns", c, 0) for c in columns)
        if not chosen or max(chosen) >= dim:
            raise ValueError(f"columns: got {self.columns}, expected some of 0 to {dim - 1}")
        return chosen, tuple(titles[c] for c in chosen)


DEFAULT = Setup()


def compare(
    methods: Mapping[str, AbstractLearner],
    ys: ArrayLike,
    u: ArrayLike | None = None,
    dt: ArrayLike | None = None,
    *,
    truth: ArrayLike | None = None,
    burn_in: int = 0,
    setup: Setup = DEFAULT,
) -> Comparison:
    """Run every method over the stream; one that fails keeps its row, with the reason.

    Args:
        methods: learners by name. One without inputs (`dim_input` = 0) is given none.
        ys: observations, NaN = not observed.
        u: inputs of each row.
        dt: length of each step.
        truth: hidden states, NaN = unknown, for methods with a hidden state of that dimension
            (`filter` is then part of the time); the others have no such score.
        burn_in: first rows, which are learned from and not scored.
        setup: what is scored and how often methods run.
    """
    ys = np.asarray(ys, float)
    check_array("ys", ys, (None, None))
    length, dim = ys.shape
    if check_int("burn_in", burn_in, 0) >= length:
        raise ValueError(f"burn_in: got {burn_in}, expected less than the {length} rows of ys")
    seeds = tuple(check_int("seeds", seed, 0) for seed in setup.seeds)
    if not methods or not seeds:
        raise ValueError("methods, seeds: got none, expected at least one of each")
    chosen, titles = setup.scored(dim)
    states = None if truth is None else np.asarray(truth, float)
    if states is not None:
        check_array("truth", states, (length, None))
    stream = Stream(ys, u, dt, states, min(check_int("blocks", setup.blocks), length))
    trials = [Trial(name, learner, stream, seeds[0]) for name, learner in methods.items()]
    turn = 0
    for seed in seeds:
        for trial in trials:
            trial.begin(seed)
        for block in range(stream.blocks):
            for k in range(len(trials)):
                trials[(k + turn) % len(trials)].advance(block)
            turn += 1
    return Comparison(
        rows=tuple(trial.row(chosen, burn_in) for trial in trials),
        columns=titles,
        length=length,
        burn_in=burn_in,
        seeds=seeds,
        threads=_threads(),
        precision=str(jnp.zeros(()).dtype),
        platform=jax.default_backend(),
    )


def _threads() -> int:
    """How many threads a compiled program may use."""
    if "xla_cpu_multi_thread_eigen=false" in os.environ.get("XLA_FLAGS", ""):
        return 1
    cores = getattr(os, "sched_getaffinity", None)
    return len(cores(0)) if cores is not None else os.cpu_count() or 1
