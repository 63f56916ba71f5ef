"""Many independent streams advanced together: one program, a row of it per stream.

    fleet = Fleet(learner, 100)
    states = fleet.init(key)
    states, infos = fleet.update(states, ys, active=active)

A fleet is a learner whose observations have a leading axis of streams; so has every answer (after
the axis of time, where there is one), and every array of its state. Each stream has parameters,
particles and a clock of its own. A row of NaN is an observation that did not come; a stream that is
not active has not joined yet, or rests: its clock stands still.
"""

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Key, PyTree

from rmcvi.contract import AbstractLearner, Band, Diagnostics, Filtered, Smoothed
from rmcvi.core import tree
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_instance, check_int
from rmcvi.core.inputs import Inputs

Collect = Callable[["Fleet", PyTree, Any], PyTree]


class Fleet(AbstractLearner):
    """One learner, `count` streams."""

    learner: AbstractLearner
    count: int = eqx.field(static=True)
    dim_obs: int = eqx.field(static=True)
    dim_input: int = eqx.field(static=True)
    level: float = eqx.field(static=True)

    def __init__(self, learner: AbstractLearner, count: int):
        """`learner` is the starting point of every stream."""
        check_instance("learner", learner, AbstractLearner)
        self.learner = learner
        self.count = check_int("count", count)
        self.dim_obs, self.dim_input = learner.dim_obs, learner.dim_input
        self.level = learner.level

    def init(self, key: Key[Array, ""]) -> PyTree:
        """States of all streams; that of stream i is `learner.init(split(key, count)[i])`."""
        return jax.vmap(self.learner.init)(jax.random.split(key, self.count))

    def stream(self, states: PyTree, index: int) -> PyTree:
        """The state of one stream, for `fleet.learner`."""
        return jax.tree.map(lambda v: v[index], states)

    def step(
        self,
        state: PyTree,
        y: Float[Array, "streams dy"],
        inputs: Inputs,
        active: Bool[Array, "streams"] | None = None,
    ) -> tuple[PyTree, Any]:
        """Every active stream one step on; the info of an inactive one means nothing."""
        new, infos = jax.vmap(self.learner.step)(state, y, inputs)
        if active is not None:
            new = jax.vmap(tree.where)(active, new, state)
        return new, infos

    def update(
        self,
        state: PyTree,
        y: ArrayLike,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        active: ArrayLike | None = None,
    ) -> tuple[PyTree, Any]:
        """Take in one observation per stream (rows of `y`, `u` and `dt`), compiled."""
        y = jnp.asarray(y, float)
        check_array("y", y, (self.count, self.dim_obs))
        inputs = Inputs.of(u, dt, self.dim_input, self.streams)
        return _update(self, state, y, inputs, _active(active, y))

    def scan(
        self,
        states: PyTree,
        ys: ArrayLike,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        active: ArrayLike | None = None,
        collect: Collect | None = None,
    ) -> tuple[PyTree, PyTree]:
        """All rows of `ys`, of shape (T, streams, dy), in one compiled loop.

        Args:
            states: of all streams.
            ys: observations, NaN = not observed.
            u: inputs, of shape (T, streams, du).
            dt: lengths of the steps, of shape (T, streams).
            active: which streams take part, of the same shape (default: all).
            collect: `collect(fleet, states, infos)` picks what is stacked over time (default:
                `infos`).
        """
        ys = jnp.asarray(ys, float)
        check_array("ys", ys, (None, self.count, self.dim_obs))
        inputs = Inputs.sequence(len(ys), u, dt, self.dim_input, self.streams)
        return _scan(self, states, ys, inputs, _active(active, ys), collect)

    @property
    def streams(self) -> tuple[int, ...]:
        """One leading axis."""
        return (self.count,)

    @property
    def dim_state(self) -> int:
        """Length of one stream's hidden state."""
        return self.learner.dim_state

    @property
    def units(self) -> Literal["raw", "standard"]:
        """Those of the learner."""
        return self.learner.units

    @property
    def reach(self) -> int:
        """That of the learner."""
        return self.learner.reach

    @property
    def gradient_window(self) -> int:
        """That of the learner."""
        return self.learner.gradient_window

    def forecast(
        self,
        state: PyTree,
        horizon: int,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        *,
        level: float = 0.9,
    ) -> Band:
        """The next rows of every stream, of shape (horizon, streams, dy)."""
        steps = check_int("horizon", horizon)
        inputs = Inputs.sequence(steps, u, dt, self.dim_input, self.streams)

        def one(state: PyTree, inputs: Inputs) -> Band:
            return self.learner.forecast(state, steps, inputs.u, inputs.dt, level=level)

        return jax.vmap(one, in_axes=(0, 1), out_axes=1)(state, inputs)

    def present(self, state: PyTree, *, level: float = 0.9) -> Band:
        """The present row of every stream."""
        return jax.vmap(lambda s: self.learner.present(s, level=level))(state)

    def recent(self, state: PyTree, lag: int, *, level: float = 0.9) -> Band:
        """The last rows of every stream, of shape (lag + 1, streams, dy)."""
        return jax.vmap(lambda s: self.learner.recent(s, lag, level=level), out_axes=1)(state)

    def parameters(self, state: PyTree) -> dict[str, Array]:
        """Those of every stream."""
        return jax.vmap(self.learner.parameters)(state)

    def diagnostics(self, state: PyTree, info: Any) -> Diagnostics:
        """What every stream's learner knows about itself."""
        return jax.vmap(self.learner.diagnostics)(state, info)

    def filter(self, state: PyTree) -> Filtered:
        """The hidden state of every stream."""
        return jax.vmap(self.learner.filter)(state)

    def smooth(self, state: PyTree, lag: int) -> Smoothed:
        """Draws of the last hidden states of every stream."""
        return jax.vmap(lambda s: self.learner.smooth(s, lag))(state)

    def smooth_sequence(
        self,
        state: PyTree,
        ys: ArrayLike,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
    ) -> Smoothed:
        """Draws of all hidden states of a sequence of shape (T, streams, dy)."""
        ys = jnp.asarray(ys, float)
        check_array("ys", ys, (None, self.count, self.dim_obs))
        inputs = Inputs.sequence(len(ys), u, dt, self.dim_input, self.streams)

        def one(state: PyTree, ys: Array, inputs: Inputs) -> Smoothed:
            return self.learner.smooth_sequence(state, ys, inputs.u, inputs.dt)

        return jax.vmap(one, in_axes=(0, 1, 1))(state, ys, inputs)

    def lengthen(self, state: PyTree, window: int | None = None) -> tuple["Fleet", PyTree]:
        """Every stream with a longer window."""
        longer, _ = self.learner.lengthen(self.stream(state, 0), window)
        states = jax.vmap(lambda s: self.learner.lengthen(s, window)[1])(state)
        return Fleet(longer, self.count), states

    def trained(self) -> "Fleet":
        """The parameters of the learner, and None elsewhere."""
        return eqx.tree_at(
            lambda fleet: fleet.learner,
            eqx.filter(self, False),
            self.learner.trained(),
            is_leaf=lambda v: v is None,
        )

    def at_level(self, level: float) -> "Fleet":
        """The same fleet with intervals of another probability."""
        return Fleet(self.learner.at_level(level), self.count)


def _active(active: ArrayLike | None, ys: Array) -> Array | None:
    """`active` as an array with one truth value per observation."""
    if active is None:
        return None
    present = jnp.asarray(active, bool)
    if present.shape != ys.shape[:-1]:
        raise ValueError(f"active: got shape {present.shape}, expected {ys.shape[:-1]}")
    return present


@eqx.filter_jit
def _update(
    fleet: Fleet, states: PyTree, ys: Array, inputs: Inputs, active: Array | None
) -> tuple[PyTree, Any]:
    return fleet.step(states, ys, inputs, active)


@eqx.filter_jit
def _scan(
    fleet: Fleet,
    states: PyTree,
    ys: Array,
    inputs: Inputs,
    active: Array | None,
    collect: Collect | None,
) -> tuple[PyTree, PyTree]:
    def step(states, row):
        states, infos = fleet.step(states, *row)
        return states, infos if collect is None else collect(fleet, states, infos)

    return jax.lax.scan(step, states, (ys, inputs, active))
