"""Rows through a learner by one compiled program, whose results are one array.

The program takes up to `CAPACITY` rows at a call: a file goes through it chunk by chunk, a live row
as a chunk of one, and the numbers do not depend on the cut. The state is a flat tuple of arrays:
nothing is flattened or fetched that a stream would pay for a thousand times a second. Within the
program it is changed in place: the state before a row is gone after it. A row that leaves an
unsound one ends the chunk, and the state before it is found by doing the rows before it again.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from rmcvi.contract import AbstractLearner, Prediction
from rmcvi.core import tree
from rmcvi.core.compiled import compiled
from rmcvi.core.inputs import Inputs
from rmcvi.core.lanes import rarely
from rmcvi.learners.monitors import Monitors, Values, watch
from rmcvi.learners.predict import deviation
from rmcvi.learners.soundness import Soundness, is_sound, strict_leaves
from rmcvi.monitors.health import Alarm

CAPACITY = 256
"""Rows of a chunk: the fixed cost of a call is then below a fiftieth of the work."""
BLOCKS = 8
"""Results of a row that have an entry per column."""


class Rows(NamedTuple):
    """Results of rows, each (rows, ...), in the learner's units; NaN where there are none."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    filled: np.ndarray
    """Posterior mean of a row; of use where nothing was observed."""
    failure: np.ndarray
    anomaly: np.ndarray
    kind: np.ndarray
    """What the score rests on, as in `monitors`; 0 if on nothing yet."""
    age: np.ndarray
    """Rows since it began."""
    state_mean: np.ndarray
    state_std: np.ndarray
    log_score: np.ndarray
    elbo: np.ndarray
    ess: np.ndarray
    alarms: np.ndarray
    recoveries: np.ndarray


class Program:
    """A learner with its state and the monitors', moved on chunk by chunk."""

    def __init__(
        self, learner: AbstractLearner, state: PyTree, watch: "Watch", *, whole: bool = False
    ):
        self._whole = whole
        self._fixed, self.arrays, self._leaves = Fixed.of(learner, state, watch)
        self._size, self._learner = len(jax.tree.leaves(state)), learner
        self._strict: np.ndarray | None = None
        self._program: Any = None
        width = 4 * learner.dim_obs + learner.dim_input + 1
        self._rows = np.zeros((CAPACITY, width))

    def anew(self, learner: AbstractLearner, state: PyTree, watch: "Watch") -> "Program":
        """One for another learner or state, compiled as this one is."""
        return Program(learner, state, watch, whole=self._whole)

    def copy(self) -> "Program":
        """One of its own that goes on from here."""
        return self.anew(self._learner, self.state, self.watch)

    def as_one_piece(self) -> "Program":
        """The same, compiled as one piece if that can be."""
        return Program(self._learner, self.state, self.watch, whole=True)

    @property
    def state(self) -> PyTree:
        """The learner's state."""
        return self._fixed.unflatten(self._leaves)[0]

    @property
    def watch(self) -> "Watch":
        """What is remembered besides."""
        return self._fixed.unflatten(self._leaves)[1]

    def parameters(self) -> dict[str, np.ndarray]:
        """What the learner has learned, by name."""
        return jax.device_get(_parameters(self._fixed, self._leaves, self.arrays))

    def prepare(self) -> None:
        """Compile; the first rows do it otherwise."""
        if self._strict is None:
            self._strict = self._find_strict()

    def advance(self, rows: np.ndarray, stop: Alarm) -> Rows:
        """Predict each row, then learn from it, up to the first one with an alarm in `stop`.

        `rows` are (rows, n), at most `CAPACITY`: the fields of `Values`, the inputs, the length.
        """
        self.prepare()
        count, self._rows[: len(rows)] = len(rows), rows
        leaves, results, done, sound = self._run(self._leaves, count, stop)
        count = int(done)
        if not sound:
            # Waited for: until it is done, the program may read the rows where they are.
            again = jax.block_until_ready(self._run(self._leaves, count - 1, Alarm.NONE)[0])
            leaves = again[: self._size] + leaves[self._size :]
        self._leaves = leaves
        return unpack(np.asarray(results)[:count], self._learner.dim_obs)

    def _run(self, leaves: tuple[Array, ...], count: int, stop: Alarm) -> Any:
        return self._program(
            leaves, self.arrays, self._rows, np.int32(count), np.int32(stop), self._strict
        )

    def _find_strict(self) -> np.ndarray:
        """Which arrays never hold NaN: those that do not after a row of nothing."""
        d, nothing = self._learner.dim_obs, np.zeros(self._rows.shape)
        nothing[0, : 4 * d], nothing[0, 4 * d :] = np.nan, 1.0
        begin = self._learner.init(jax.random.key(0)), Watch.fresh(d)
        leaves = raw_leaves(jax.tree.leaves(begin))
        before, doubted = strict_leaves(leaves), np.zeros(len(leaves), bool)
        given = leaves, self.arrays, nothing, np.int32(1), np.int32(0), doubted
        whole = _advance if self._whole else None
        self._program = compiled(_advance, self._fixed, given, whole=whole)
        after, *_ = self._program(*given)
        return np.array(before) & np.array(strict_leaves(after))


class Watch(eqx.Module):
    """What `Live` remembers besides the learner's state."""

    monitors: Monitors
    soundness: Soundness

    @classmethod
    def fresh(cls, dim: int) -> "Watch":
        """Nothing seen of `dim` columns."""
        return cls(Monitors.fresh(dim), Soundness.fresh(dim))

    @classmethod
    def restored(cls, dim: int, kept: list[Any]) -> "Watch":
        """From the arrays of a file, if they have the shapes of `fresh`."""
        leaves, tree = jax.tree.flatten(cls.fresh(dim))
        arrays = [np.array(value, leaf.dtype) for value, leaf in zip(kept, leaves, strict=True)]
        for array, leaf in zip(arrays, leaves, strict=True):
            if array.shape != leaf.shape:
                raise ValueError(f"got shape {array.shape}, expected {leaf.shape}")
        return jax.tree.unflatten(tree, [jnp.asarray(array) for array in arrays])


def unpack(results: np.ndarray, d: int) -> Rows:
    """The columns of a program's results by name."""
    k = (results.shape[1] - BLOCKS * d - 5) // 2
    widths = np.cumsum([d] * BLOCKS + [k, k])
    *parts, numbers = np.split(results.astype(float), widths, axis=1)
    score, elbo, ess, alarms, recoveries = numbers.T
    mean, low, high, filled, failure, anomaly, kind, age, state_mean, state_std = parts
    return Rows(
        *(mean, low, high, filled, failure, anomaly, kind, age, state_mean, state_std),
        *(score, elbo, ess, alarms.astype(int), recoveries.astype(int)),
    )


class Fixed:
    """Everything but arrays; learners of equal settings share their program."""

    def __init__(self, static: PyTree, arrays: Any, tree: Any, kinds: tuple[str | None, ...]):
        self.static, self.arrays, self.tree, self.kinds = static, arrays, tree, kinds
        leaves, structure = jax.tree.flatten(static)
        self.parts = (tuple(leaves), structure, arrays, tree, kinds)
        """All of it, to be compared and to be told."""
        self._hash = hash(self.parts)

    @classmethod
    def of(
        cls, learner: AbstractLearner, state: PyTree, watch: Watch
    ) -> tuple["Fixed", list[Array], tuple[Array, ...]]:
        """What is fixed, the learner's arrays, and those that change."""
        arrays, static = eqx.partition(learner, eqx.is_array)
        leaves, tree = jax.tree.flatten((state, watch))
        kinds = tuple(str(jax.random.key_impl(v)) if _is_key(v) else None for v in leaves)
        fixed = cls(static, jax.tree.structure(arrays), tree, kinds)
        return fixed, jax.tree.leaves(arrays), raw_leaves(leaves)

    def learner(self, arrays: list[Array]) -> AbstractLearner:
        """The learner with its arrays."""
        return eqx.combine(jax.tree.unflatten(self.arrays, arrays), self.static)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Fixed) and self.parts == other.parts)

    def unflatten(self, leaves: Any) -> tuple[PyTree, Watch]:
        """The learner's state and what is remembered besides; keys travel as numbers."""
        pairs = zip(leaves, self.kinds, strict=True)
        whole = [v if kind is None else jax.random.wrap_key_data(v, impl=kind) for v, kind in pairs]
        return jax.tree.unflatten(self.tree, whole)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def raw_leaves(leaves: list[Array]) -> tuple[Array, ...]:
    """Arrays of numbers; keys travel as such."""
    return tuple(jax.random.key_data(v) if _is_key(v) else v for v in leaves)


@partial(jax.jit, static_argnums=0)
def _parameters(fixed: Fixed, leaves: tuple[Array, ...], arrays: list[Array]) -> dict[str, Array]:
    return fixed.learner(arrays).parameters(fixed.unflatten(leaves)[0])


def _advance(
    fixed: Fixed,
    leaves: tuple[Array, ...],
    arrays: list[Array],
    rows: Float[Array, "capacity n"],
    count: Int[Array, ""],
    stop: Int[Array, ""],
    strict: Bool[Array, "leaves"],
) -> tuple[tuple[Array, ...], Float[Array, "capacity m"], Int[Array, ""], Bool[Array, ""]]:
    """The first `count` rows, or fewer if one raises an alarm in `stop` or is not to be learned.

    Says how many, and whether the last of them was learned; the state is after it in any case.
    """
    learner = fixed.learner(arrays)
    law = jax.eval_shape(lambda v: learner.filter(fixed.unflatten(v)[0]).mean, leaves)
    width = BLOCKS * learner.dim_obs + 2 * law.size + 5

    def goes_on(loop: Any) -> Bool[Array, ""]:
        i, alarms, sound, *_ = loop
        return (i < count) & ((alarms & stop) == 0) & sound

    def body(loop: Any) -> Any:
        i, _, _, leaves, out = loop
        leaves, results, alarms, sound = learn_row(fixed, learner, leaves, rows[i], strict)
        return i + 1, alarms.astype(stop.dtype), sound, leaves, out.at[i].set(results)

    nothing = jnp.zeros_like(count), jnp.zeros_like(stop), jnp.array(True)
    begin = (*nothing, leaves, jnp.zeros((len(rows), width)))
    done, _, sound, leaves, out = jax.lax.while_loop(goes_on, body, begin)
    return leaves, out, done, sound


def learn_row(
    fixed: Fixed,
    learner: AbstractLearner,
    leaves: tuple[Array, ...],
    row: Float[Array, "n"],
    strict: Bool[Array, "leaves"],
) -> tuple[tuple[Array, ...], Float[Array, "m"], Int[Array, ""], Bool[Array, ""]]:
    """State, results and alarms of one row, and whether the state after it is to be kept."""
    old, before = fixed.unflatten(leaves)
    d = learner.dim_obs
    values, rest = Values(*row[: 4 * d].reshape(4, d)), row[4 * d :]
    inputs = Inputs(rest[:-1], rest[-1])
    state, info = learner.step(old, values.y, inputs)
    made = _nothing(d) if info.prediction is None else info.prediction
    change = before.monitors.sensors.change
    prediction, predicted = before.soundness.judge(made, values, change, learner.level)
    # What came before the row is sound: it was checked after the row before.
    new, size = raw_leaves(jax.tree.leaves(state)), len(jax.tree.leaves(state))
    sound = is_sound(new, strict[:size])
    learned = sound & predicted
    kept = [jnp.where(learned, a, b) for a, b in zip(new, leaves[:size], strict=True)]
    state, _ = fixed.unflatten([*kept, *leaves[size:]])
    after = fixed.unflatten([*new, *leaves[size:]])[0]
    filled = _filled(learner, after, learned, values.y, prediction)
    law, own = learner.filter(state), learner.diagnostics(state, info)
    std = jnp.sqrt(jnp.maximum(jnp.diagonal(law.covariance, axis1=-2, axis2=-1), 0.0))
    spread = deviation(prediction, learner.level)
    monitors, verdict = watch(before.monitors, own, prediction, spread, values, filled)
    alarms = verdict.flags
    seeing = is_sound(monitors, strict[size : size + len(jax.tree.leaves(monitors))])
    monitors, sound = tree.where(seeing, monitors, before.monitors), sound & seeing
    soundness = before.soundness.conclude(prediction, values, predicted, sound)
    alarms = jnp.where(sound & predicted, alarms, alarms | int(Alarm.UNSOUND))
    alarms = jnp.where(soundness.lost, alarms | int(Alarm.LOST), alarms)
    numbers = [
        prediction.log_score,
        _number(own.elbo),
        _number(own.ess),
        alarms,
        soundness.recoveries,
    ]
    results = jnp.concatenate(
        [prediction.mean, prediction.low, prediction.high, filled]
        + [verdict.failure, verdict.anomaly, verdict.kind, verdict.age, law.mean, std]
        + [v[None].astype(float) for v in numbers]
    )
    # Not what was kept: to choose between two states would be to copy them at every row.
    leaves = (*new, *jax.tree.leaves(Watch(monitors, soundness)))
    return leaves, results, alarms, learned


def _nothing(dim: int) -> Prediction:
    unknown = jnp.full(dim, jnp.nan)
    return Prediction(unknown, unknown, unknown, jnp.asarray(jnp.nan), unknown)


def _filled(
    learner: AbstractLearner,
    state: PyTree,
    learned: Bool[Array, ""],
    y: Float[Array, "dy"],
    prediction: Prediction,
) -> Float[Array, "dy"]:
    """The row with its gaps filled, by its prediction if the learner knows nothing better."""

    def fill(state: PyTree, learned: Array, y: Array, prediction: Prediction) -> Array:
        mean = learner.present(state).mean.astype(y.dtype)
        return jnp.where(jnp.isnan(mean) | ~learned, prediction.mean, mean)

    given = state, learned, y, prediction
    return rarely(jnp.any(jnp.isnan(y)), fill, lambda state, learned, y, prediction: y, *given)


def _number(value: Any) -> Float[Array, ""]:
    """A scalar as a float; NaN for None."""
    return jnp.asarray(jnp.nan if value is None else value).astype(float)
