"""Many streams through one learner: a block of lanes, up to `STEPS` rows of each at a call.

A stream is one row of numbers: the learner's state, what its monitors remember, and its scores so
far. The lanes of a block do not see each other, so that what a stream becomes does not depend on
its lane, on its neighbours or on how its rows were cut into calls, to the bit.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from rmcvi.contract import AbstractLearner
from rmcvi.core.compiled import compiled
from rmcvi.core.lanes import rarely
from rmcvi.learners.chunk import Fixed, Watch, learn_row, raw_leaves
from rmcvi.learners.soundness import strict_leaves
from rmcvi.monitors.health import Alarm
from rmcvi.scale.results import Results, RowUnits, Tally

STEPS = 16
"""Rows of a stream at a call: its state is read and written once for them."""
CACHE, LEAST, MOST = 1 << 22, 4, 64
"""Bytes of states that stay close to a core, and bounds of the lanes of a block."""


class Layout(NamedTuple):
    """What a program is compiled for: how the numbers of a stream become what they mean."""

    fixed: Fixed
    state: int
    """Arrays of the learner's state; those of the monitors follow, then those of the scores."""
    tally: Any
    shapes: tuple[tuple[tuple[int, ...], str], ...]
    limit: float
    """Anomaly above which a row has an alarm."""

    @property
    def parts(self) -> tuple[Any, ...]:
        """All of it, to be told."""
        return (self.fixed.parts, *self[1:])

    def open(self, leaves: Sequence[Array]) -> tuple[PyTree, Watch, Tally]:
        """The arrays of a stream as what they are."""
        number = len(self.fixed.kinds)
        tally = jax.tree.unflatten(self.tally, leaves[number:])
        return *self.fixed.unflatten(leaves[:number]), tally

    def pack(self, leaves: Sequence[Array]) -> Float[Array, "lanes words"]:
        """Arrays (lanes, ..) as numbers of one type; whole ones keep their bits."""
        kind = jnp.result_type(float)
        whole = jnp.int64 if kind == jnp.float64 else jnp.int32

        def one(v: Array) -> Array:
            if not jnp.issubdtype(v.dtype, jnp.inexact):
                v = jax.lax.bitcast_convert_type(v.astype(whole), kind)
            return v.reshape(len(v), -1)

        return jnp.concatenate([one(v) for v in leaves], 1)

    def unpack(self, rows: Float[Array, "lanes words"]) -> list[Array]:
        """The inverse of `pack`."""
        whole = jnp.int64 if rows.dtype == jnp.float64 else jnp.int32
        ends = np.cumsum([math.prod(shape) for shape, _ in self.shapes])

        def one(part: Array, shape: tuple[int, ...], kind: str) -> Array:
            if not jnp.issubdtype(jnp.dtype(kind), jnp.inexact):
                part = jax.lax.bitcast_convert_type(part, whole)
            return part.astype(kind).reshape(len(part), *shape)

        parts = jnp.split(rows, ends[:-1], 1)
        return [one(part, *known) for part, known in zip(parts, self.shapes, strict=True)]


class Block:
    """The compiled program of a learner for `lanes` streams."""

    def __init__(
        self,
        learner: AbstractLearner,
        seed: int = 0,
        sensitivity: float = 1.0,
        *,
        whole: bool = False,
        compiled: bool = True,
    ):
        """A stream begins as `Live` with these; not `compiled`, it can only be looked at."""
        if learner.streams:
            raise ValueError("learner: got one for many streams, expected one for a single stream")
        self.learner, self._whole, dim = learner, whole, learner.dim_obs
        state, (watch, tally) = learner.init(jax.random.key(seed)), _nothing_seen(dim)
        fixed, self._arrays, leaves = Fixed.of(learner, state, watch)
        every = (*leaves, *jax.tree.leaves(tally))
        shapes = tuple((v.shape, str(v.dtype)) for v in every)
        size = len(jax.tree.leaves(state))
        self._layout = Layout(
            fixed, size, jax.tree.structure(tally), shapes, 1.0 / (1.0 + sensitivity)
        )
        self.fresh = np.asarray(_packed(self._layout, [np.asarray(v)[None] for v in every]))[0]
        """A stream of which nothing was seen."""
        fitting = max(CACHE // self.fresh.nbytes, 1)
        self.lanes = min(MOST, max(LEAST, 1 << (fitting.bit_length() - 1)))
        self._strict, self._program = np.zeros(len(leaves), bool), None
        if not compiled:
            return
        nothing = np.full((1, self.lanes, self.width), np.nan)
        nothing[..., self.width - learner.dim_input - 1 :] = 1.0
        streams = np.tile(self.fresh, (self.lanes, 1))
        after, *_ = self.advance(streams, nothing, np.ones(self.lanes, int))
        sound = strict_leaves(self._arrays_of(after)[: len(leaves)])
        self._strict = np.array(strict_leaves(leaves)) & np.array(sound)

    @property
    def width(self) -> int:
        """Numbers of a row that `advance` takes."""
        values = 1 if self.learner.units == "raw" else 4
        return values * self.learner.dim_obs + self.learner.dim_input + 1

    def advance(
        self, streams: np.ndarray, rows: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Streams moved on, the numbers of `Results` for each row, and how many rows are done.

        A stream whose learner is lost starts afresh, and its later rows are not done.

        Args:
            streams: (lanes, words).
            rows: (at most `STEPS`, lanes, `width`): values, the fields of `RowUnits` if columns are
                standardised, inputs, length of the step.
            counts: (lanes,), how many rows each stream has.
        """
        padded = np.zeros((STEPS, *rows.shape[1:]))
        padded[: len(rows)] = rows
        given = streams, self._arrays, padded, counts.astype(np.int32), self._strict
        if self._program is None:
            each = _advance_each if self._whole else None
            self._program = compiled(_advance, self._layout, given, donate=(0,), whole=each)
        after, told, done = self._program(*given)
        return np.asarray(after), np.asarray(told)[: len(rows)], np.asarray(done)

    def open(self, stream: np.ndarray) -> tuple[PyTree, Watch, Tally]:
        """The learner's state, the monitors' and the scores of one stream."""
        return self._layout.open([jnp.asarray(v[0]) for v in self._arrays_of(stream[None])])

    def tallies(self, streams: np.ndarray) -> Tally:
        """The scores of many, with a leading axis; only they are looked at."""
        leaves = self._arrays_of(streams, len(self._layout.fixed.kinds))
        return jax.tree.unflatten(self._layout.tally, leaves)

    def _arrays_of(self, streams: np.ndarray, first: int = 0) -> list[np.ndarray]:
        """As `Layout.unpack` from an array on, by NumPy: outside of a program, JAX would compile
        one for each array, a hundred in all.
        """
        whole = f"int{8 * streams.itemsize}"
        sizes = [math.prod(shape) for shape, _ in self._layout.shapes]
        leaves, begin = [], sum(sizes[:first])
        for size, (shape, kind) in list(zip(sizes, self._layout.shapes, strict=True))[first:]:
            part = np.ascontiguousarray(streams[:, begin : begin + size])
            part = part if kind.startswith("float") else part.view(whole).astype(kind)
            leaves.append(part.reshape(len(streams), *shape))
            begin += size
        return leaves


_packed = jax.jit(Layout.pack, static_argnums=0)


@partial(jax.jit, static_argnums=0)  # forty arrays: as one program, not as one each
def _nothing_seen(dim: int) -> tuple[Watch, Tally]:
    return Watch.fresh(dim), Tally.fresh(dim)


def _advance(
    layout: Layout,
    streams: Float[Array, "lanes words"],
    arrays: list[Array],
    rows: Float[Array, "steps lanes n"],
    counts: Int[Array, "lanes"],
    strict: Bool[Array, "leaves"],
) -> tuple[Array, Array, Array]:
    learner = layout.fixed.learner(arrays)

    def goes_on(loop: Any) -> Bool[Array, ""]:
        i, lost, *_ = loop
        return jnp.any((i < counts) & ~lost)

    def body(loop: Any) -> Any:
        i, lost, done, leaves, out = loop
        active = (i < counts) & ~lost
        step = partial(_row, layout, learner, strict)
        leaves, told, alarms = jax.vmap(step)(leaves, rows[i], active)
        lost = lost | (active & ((alarms & int(Alarm.LOST)) != 0))
        return i + 1, lost, done + active, leaves, out.at[i].set(told)

    out = jnp.zeros((*rows.shape[:2], Results.width(learner.dim_obs)))
    nothing = jnp.zeros((), jnp.int32), jnp.zeros(len(streams), bool), jnp.zeros_like(counts)
    begin = (*nothing, layout.unpack(streams), out)
    _, lost, done, leaves, out = jax.lax.while_loop(goes_on, body, begin)
    leaves = jax.vmap(
        lambda asked, leaves: rarely(
            asked, partial(_afresh, layout, learner), lambda *same: list(same), *leaves
        )
    )(lost, leaves)
    return layout.pack(leaves), out, done


def _advance_each(
    layout: Layout,
    streams: Float[Array, "lanes words"],
    arrays: list[Array],
    rows: Float[Array, "steps lanes n"],
    counts: Int[Array, "lanes"],
    strict: Bool[Array, "leaves"],
) -> tuple[Array, Array, Array]:
    """As `_advance`, lane by lane: where an operation costs nothing to begin with, all that lanes
    could share, a stream that has all its rows at once stays close to the core, and none waits for
    the rare work of another.
    """
    learner = layout.fixed.learner(arrays)
    step = partial(_row, layout, learner, strict)

    def lane(number: Array, loop: Any) -> Any:
        streams, told, done = loop

        def goes_on(loop: Any) -> Bool[Array, ""]:
            i, lost, *_ = loop
            return (i < counts[number]) & ~lost

        def body(loop: Any) -> Any:
            i, _, leaves, told = loop
            leaves, results, alarms = step(leaves, rows[i, number], jnp.array(True))
            lost = (alarms & int(Alarm.LOST)) != 0
            return i + 1, lost, leaves, told.at[i, number].set(results)

        leaves = [v[0] for v in layout.unpack(streams[number][None])]
        begin = jnp.zeros((), counts.dtype), jnp.array(False), leaves, told
        i, lost, leaves, told = jax.lax.while_loop(goes_on, body, begin)
        afresh = partial(_afresh, layout, learner)
        leaves = jax.lax.cond(lost, afresh, lambda *same: list(same), *leaves)
        stream = layout.pack([v[None] for v in leaves])[0]
        return streams.at[number].set(stream), told, done.at[number].set(i)

    told = jnp.zeros((*rows.shape[:2], Results.width(learner.dim_obs)))
    begin = streams, told, jnp.zeros_like(counts)
    return jax.lax.fori_loop(0, len(streams), lane, begin)


def _row(
    layout: Layout,
    learner: AbstractLearner,
    strict: Bool[Array, "leaves"],
    leaves: list[Array],
    row: Float[Array, "n"],
    active: Bool[Array, ""],
) -> tuple[list[Array], Float[Array, "m"], Int[Array, ""]]:
    """One row of one stream, its numbers and alarms; a stream that is not active stays as it is."""
    d, number = learner.dim_obs, len(layout.fixed.kinds)
    tally, y, rest = layout.open(leaves)[2], row[:d], row[d:]
    units = RowUnits(y, jnp.zeros(d), jnp.ones(d))
    if learner.units != "raw":
        units, rest = RowUnits(*rest[: 3 * d].reshape(3, d)), rest[3 * d :]
    last = (tally.last - units.mean) / units.scale
    given = jnp.concatenate([units.z, last, y - tally.last, units.scale, rest])
    before = tuple(leaves[:number])
    after, told, alarms, learned = learn_row(layout.fixed, learner, before, given, strict)
    results = Results.learned(told, d, tally.count(y)).known(tally.last, y, units)
    new = [*after, *jax.tree.leaves(tally.add(y, results, layout.limit))]
    keep = [active & learned] * layout.state + [active] * (len(new) - layout.state)
    leaves = [jnp.where(k, a, b) for k, a, b in zip(keep, new, leaves, strict=True)]
    return leaves, results.numbers, alarms


def _afresh(layout: Layout, learner: AbstractLearner, *leaves: Array) -> list[Array]:
    """A stream whose learner forgets everything but how often it was saved (as `Live`)."""
    _, watch, tally = layout.open(leaves)
    state, fresh = learner.init(jax.random.key(tally.recoveries)), Watch.fresh(learner.dim_obs)
    kept = eqx.tree_at(lambda s: s.strikes, watch.soundness, fresh.soundness.strikes)
    begun = state, eqx.tree_at(lambda w: w.soundness, fresh, kept), tally
    return list(raw_leaves(jax.tree.leaves(begun)))
