"""Loops around the learner: over an array (`scan`) or over any iterable of observations (`run`).

Both end in the state of single updates, to the bit, however the stream is cut. (What is seen on the
way, such as an interval's end, may differ in its last digit where the compiler fuses differently.)
"""

import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int, PyTree

from rmcvi.contract import AbstractLearner, Diagnostics
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_int
from rmcvi.core.inputs import Inputs

Collect = Callable[[AbstractLearner, PyTree, Any], PyTree]


def scan(
    learner: AbstractLearner,
    state: PyTree,
    ys: ArrayLike,
    u: ArrayLike | None = None,
    dt: ArrayLike | None = None,
    collect: Collect | None = None,
) -> tuple[PyTree, PyTree]:
    """All rows of `ys` in one compiled loop.

    `collect(learner, state, info)` picks what is stacked over time (default: `info`). A new
    function means a new compilation: define it once, outside of any loop.
    """
    ys = jnp.asarray(ys, float)
    check_array("ys", ys, (None, *learner.streams, learner.dim_obs))
    inputs = Inputs.sequence(len(ys), u, dt, learner.dim_input, learner.streams)
    return _scan(learner, state, ys, inputs, collect)


def run(
    learner: AbstractLearner,
    stream: Iterable[Any],
    state: PyTree,
    collect: Collect | None = None,
    *,
    chunk: int = 64,
    progress: bool = False,
) -> tuple[PyTree, PyTree]:
    """Learn from an iterable of observations, each `y` or `(y, u, dt)` (u, dt may be None).

    Rows go to the compiled loop in chunks; the last, shorter chunk uses the same program. With
    `progress` a line on standard error shows rate, remaining time (if the stream has a length),
    ELBO/t and effective sample size.
    """
    check_int("chunk", chunk)
    parts, line = [], _ProgressLine(len(stream) if isinstance(stream, Sized) else None)
    for count, ys, inputs in _chunks(learner, stream, chunk):
        state, infos, kept = _advance(learner, state, ys, inputs, jnp.asarray(count), collect)
        parts.append(jax.tree.map(lambda v, n=count: np.asarray(v)[:n], kept))
        if progress:
            last = jax.tree.map(lambda v, n=count: v[n - 1], infos)
            line.show(count, learner.diagnostics(state, last))
    if progress:
        print(file=sys.stderr)
    if not parts:
        raise ValueError("stream: got no observation, expected at least one")
    return state, jax.tree.map(lambda *v: jnp.asarray(np.concatenate(v)), *parts)


class _ProgressLine:
    """One line on standard error that is written over and over."""

    def __init__(self, total: int | None):
        self.total, self.seen, self.begun = total, 0, time.perf_counter()

    def show(self, count: int, now: Diagnostics) -> None:
        """`count` more observations, and what the learner knows about itself after them."""
        self.seen += count
        rate = self.seen / (time.perf_counter() - self.begun)
        words = [f"{self.seen} observations", f"{rate:.0f}/s"]
        if self.total is not None:
            words[0] = f"{self.seen} of {self.total} observations"
            words.append(f"{(self.total - self.seen) / rate:.0f} s left")
        if now.elbo is not None:
            words.append(f"ELBO/t {float(jnp.mean(now.elbo)):+.3f}")
        if now.ess is not None:
            words.append(f"ess {float(jnp.mean(now.ess)):.1f}")
        print("\r" + "  ".join(words).ljust(79), end="", file=sys.stderr, flush=True)


def _chunks(
    learner: AbstractLearner, stream: Iterable[Any], size: int
) -> Iterator[tuple[int, Array, Inputs]]:
    """Rows of the stream in padded blocks, with the number of rows that count."""
    rows = (_row(item, learner) for item in stream)
    while block := list(itertools.islice(rows, size)):
        count, pad = len(block), size - len(block)
        y, u, dt = (np.stack(v) for v in zip(*(block + block[-1:] * pad), strict=True))
        yield count, jnp.asarray(y, float), Inputs(jnp.asarray(u, float), jnp.asarray(dt, float))


def _row(item: Any, learner: AbstractLearner) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y, u, dt = item if isinstance(item, tuple) else (item, None, None)
    y = np.asarray(y, float)
    many, width = learner.streams, learner.dim_input
    u = np.zeros((*many, width)) if u is None else np.asarray(u, float)
    dt = np.ones(many) if dt is None else np.asarray(dt, float)
    check_array("y", y, (*many, learner.dim_obs))
    check_array("u", u, (*many, width))
    check_array("dt", dt, many)
    return y, u, dt


def _follow(learner: AbstractLearner, collect: Collect | None) -> Callable[[Any, Any], Any]:
    def step(state, row):
        state, info = learner.step(state, *row)
        return state, (info, info if collect is None else collect(learner, state, info))

    return step


@eqx.filter_jit
def _scan(
    learner: AbstractLearner,
    state: PyTree,
    ys: Array,
    inputs: Inputs,
    collect: Collect | None,
) -> tuple[PyTree, PyTree]:
    step = _follow(learner, collect)

    def kept(state, row):
        state, (_, picked) = step(state, row)
        return state, picked

    return jax.lax.scan(kept, state, (ys, inputs))


@eqx.filter_jit
def _advance(
    learner: AbstractLearner,
    state: PyTree,
    ys: Array,
    inputs: Inputs,
    count: Int[Array, ""],
    collect: Collect | None,
) -> tuple[PyTree, PyTree, PyTree]:
    """The first `count` rows, whatever it is, by one program."""
    step, rows = _follow(learner, collect), (ys, inputs)
    shapes = jax.eval_shape(step, state, jax.tree.map(lambda v: v[0], rows))[1]
    empty = jax.tree.map(lambda s: jnp.zeros((len(ys), *s.shape), s.dtype), shapes)

    def body(i, loop):
        state, out = loop
        state, new = step(state, jax.tree.map(lambda v: v[i], rows))
        return state, jax.tree.map(lambda buffer, v: buffer.at[i].set(v), out, new)

    state, (infos, picked) = jax.lax.fori_loop(0, count, body, (state, empty))
    return state, infos, picked
