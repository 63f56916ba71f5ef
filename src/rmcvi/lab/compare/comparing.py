"""Methods side by side: each predicts, is scored, and only then learns, on the same stream.

The stream is cut into blocks. Every method runs block 1, then every method block 2, and so on, the
order turning by one place each time, so that a busy machine is busy for all of them alike. Programs
are compiled and warmed up before the clock starts.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from rmcvi.contract import AbstractLearner
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_instance, check_int
from rmcvi.core.inputs import Inputs
from rmcvi.lab.compare.comparison import Comparison, Row


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


class Stream:
    """Rows in blocks of one length, the last one filled up by repeating the last row."""

    def __init__(self, ys: np.ndarray, u: Any, dt: Any, truth: np.ndarray | None, blocks: int):
        """`u`, `dt` and `truth` may be None."""
        self.ys, self.u, self.dt, self.truth = ys, u, dt, truth
        self.size = -(-len(ys) // blocks)
        self.blocks = -(-len(ys) // self.size)

    def rows_for(self, learner: AbstractLearner) -> list[tuple[Array, Inputs]]:
        """The blocks as this learner takes them; one without inputs is given none."""
        check_array("ys", self.ys, (None, learner.dim_obs))
        u = self.u if learner.dim_input > 0 else None
        inputs = Inputs.sequence(len(self.ys), u, self.dt, learner.dim_input)
        index = np.minimum(np.arange(self.size * self.blocks), len(self.ys) - 1)
        parts = index.reshape(self.blocks, self.size)
        return [
            jax.tree.map(lambda v, i=i: jax.numpy.asarray(v)[i], (self.ys, inputs)) for i in parts
        ]


class Trial:
    """A method that runs when it is its turn: its compiled loop, its clock, and what it said.

    It never raises because of its method: it keeps the reason and stands still.
    """

    def __init__(self, name: str, learner: AbstractLearner, stream: Stream, seed: int):
        """Compile and warm up."""
        self.name, self.learner, self.stream = name, learner, stream
        self.failure: str | None = None
        self.costs: dict[str, Any] = {}
        self.times: list[float] = []
        self.outputs: list[list[dict[str, np.ndarray]]] = []
        self.state: PyTree = None
        self._attempt(lambda: self._prepare(seed))

    def begin(self, seed: int) -> None:
        """A new pass from the start of the stream."""
        self.outputs.append([])
        self._attempt(lambda: self._set(self.learner.init(jax.random.key(seed))))

    def advance(self, block: int) -> None:
        """Run one block against the clock."""
        self._attempt(lambda: self._advance(block))

    def _attempt(self, action: Callable[[], None]) -> None:
        if self.failure is not None:
            return
        try:
            action()
        except Exception as error:
            first = str(error).strip().split("\n")[0]
            self.failure = f"{type(error).__name__}: {first}"

    def _set(self, state: PyTree) -> None:
        self.state = state

    def _prepare(self, seed: int) -> None:
        check_instance(f"methods[{self.name!r}]", self.learner, AbstractLearner)
        self.rows = self.stream.rows_for(self.learner)
        state = self.learner.init(jax.random.key(seed))
        truth = self.stream.truth
        self.dynamic, static = eqx.partition(self.learner, eqx.is_array)
        program = _program(static, None if truth is None else truth.shape[1])
        began = time.perf_counter()
        self.program = jax.jit(program).lower(self.dynamic, state, *self.rows[0]).compile()
        self.costs["compile_seconds"] = time.perf_counter() - began
        self.costs["state_bytes"] = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
        memory = self.program.memory_analysis()
        self.costs["temp_bytes"] = getattr(memory, "temp_size_in_bytes", None)
        jax.block_until_ready(self.program(self.dynamic, state, *self.rows[0]))

    def _advance(self, block: int) -> None:
        began = time.perf_counter()
        out = self.program(self.dynamic, self.state, *self.rows[block])
        jax.block_until_ready(out)
        self.times.append((time.perf_counter() - began) / self.stream.size)
        self.state, outputs = out
        self.outputs[-1].append({key: np.asarray(v) for key, v in outputs.items()})

    def row(self, columns: tuple[int, ...], burn_in: int) -> Row:
        """Score what was said."""
        scores = []
        for blocks in self.outputs:
            if self.failure is None:
                length = len(self.stream.ys)
                joined = {k: np.concatenate([b[k] for b in blocks])[:length] for k in blocks[0]}
                self.failure = _fault(joined, self.stream.ys, burn_in)
                scores.append(_scores(joined, self.stream, list(columns), burn_in))
        costs = dict(self.costs)
        if self.times:
            quartiles = np.quantile(self.times, (0.25, 0.5, 0.75))
            named = zip(("seconds_low", "seconds", "seconds_high"), quartiles, strict=True)
            costs.update({key: float(value) for key, value in named})
        if self.failure is not None:
            return Row(self.name, self.failure, **costs)
        by_column = np.mean([s.pop("rmse_by_column") for s in scores], 0)
        means = {key: _known(np.mean([s[key] for s in scores])) for key in scores[0]}
        spread = float(np.std([s["rmse"] for s in scores])) if len(scores) > 1 else None
        return Row(
            self.name,
            rmse_by_column=tuple(_known(v) for v in by_column),
            rmse_spread=spread,
            **means,
            **costs,
        )


def _program(static: PyTree, dim_state: int | None) -> Callable[..., tuple[PyTree, Any]]:
    """A loop over a block that keeps what is scored."""

    def block(dynamic, state, ys, inputs):
        learner = eqx.combine(dynamic, static)

        def step(state, row):
            state, info = learner.step(state, *row)
            made = info.prediction
            if made is None:
                raise ValueError("prediction: got None, expected one at each step")
            outputs = {"mean": made.mean, "low": made.low, "high": made.high, "log": made.log_score}
            if learner.dim_state and learner.dim_state == dim_state:
                outputs["state"] = learner.filter(state).mean
            return state, outputs

        return jax.lax.scan(step, state, (ys, inputs))

    return block


def _fault(outputs: dict[str, np.ndarray], ys: np.ndarray, burn_in: int) -> str | None:
    """Why what was said cannot be scored, if it cannot."""
    bad = ~np.all([np.isfinite(outputs[key]).all(1) for key in ("mean", "low", "high")], 0)
    bad |= np.isnan(outputs["log"]) & ~np.isnan(ys).all(1)
    bad[:burn_in] = False
    if not bad.any():
        return None
    return (
        f"prediction not finite at row {int(np.argmax(bad))} ({int(bad.sum())} of {len(bad)} rows)"
    )


def _scores(
    outputs: dict[str, np.ndarray], stream: Stream, columns: list[int], burn_in: int
) -> dict[str, Any]:
    """Averages over the scored rows; NaN where there was nothing to average."""
    ys, late = stream.ys[burn_in:], {key: v[burn_in:] for key, v in outputs.items()}
    seen = ~np.isnan(ys)
    square = np.where(seen, (ys - late["mean"]) ** 2, 0.0)[:, columns]
    inside = (seen & (late["low"] <= ys) & (ys <= late["high"]))[:, columns]
    num = seen[:, columns].sum(0)
    some = seen.any(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        scores = {
            "rmse": np.sqrt(square.sum() / num.sum()),
            "rmse_by_column": np.sqrt(square.sum(0) / num),
            "log_score": late["log"][some].sum() / seen.sum(),
            "coverage": inside.sum() / num.sum(),
            "width": np.mean((late["high"] - late["low"])[:, columns]),
        }
        if "state" in late and stream.truth is not None:
            error = late["state"] - stream.truth[burn_in:]
            known = ~np.isnan(stream.truth[burn_in:])
            scores["state_rmse"] = np.sqrt(np.where(known, error**2, 0.0).sum() / known.sum())
    return scores


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)
