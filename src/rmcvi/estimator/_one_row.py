"""One row through a learner as one compiled program, told in one array.

The state is a flat tuple of arrays, given up to the program at each row: nothing is flattened,
copied or fetched that a stream of single rows would pay for a thousand times a second.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from rmcvi._contract import AbstractLearner, Filtered, Prediction
from rmcvi._core.inputs import Inputs
from rmcvi.conjugate import Band
from rmcvi.diagnostics import (
    DriftDetector,
    DriftState,
    PeerMonitor,
    PeerState,
    SensorMonitor,
    SensorState,
)
from rmcvi.estimator._estimator import OnlineEstimator
from rmcvi.estimator._health import Alarm
from rmcvi.estimator._predict import expected_observation

DRAWS = 100
"""Draws of a state behind a value that was not observed."""
SENSORS, PEERS, DRIFT = SensorMonitor(), PeerMonitor(), DriftDetector()
MOST_PEERS = 32
"""Columns that are compared with one another; the work grows with their third power."""


class Monitors(eqx.Module):
    """Eyes of the shell, for learners that have none of their own."""

    sensors: SensorState
    peers: PeerState | None
    drift: DriftState

    @classmethod
    def fresh(cls, dim: int) -> "Monitors":
        """Nothing seen of `dim` columns."""
        peers = PEERS.init(dim) if 1 < dim <= MOST_PEERS else None
        return cls(SENSORS.init(dim), peers, DRIFT.init())


class Row(NamedTuple):
    """What the program told, in the learner's units; NaN where there is nothing to tell."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    filled: np.ndarray
    """Posterior mean of the row; of use where nothing was observed."""
    failure: np.ndarray
    state_mean: np.ndarray
    state_std: np.ndarray
    log_score: float
    elbo: float
    ess: float
    alarms: int


class Program:
    """A learner with its state and the monitors', moved on row by row."""

    def __init__(self, learner: AbstractLearner, state: PyTree, monitors: Monitors):
        arrays, static = eqx.partition(learner, eqx.is_array)
        self.arrays = jax.tree.leaves(arrays)
        leaves, tree = jax.tree.flatten((_copied(state), _copied(monitors)))
        kinds = tuple(str(jax.random.key_impl(v)) if _is_key(v) else None for v in leaves)
        self._fixed = _Fixed(static, jax.tree.structure(arrays), tree, kinds)
        self._leaves = _raw(leaves)
        self._dim = learner.dim_obs

    @property
    def state(self) -> PyTree:
        """The learner's state; it lives until the next row."""
        return self._fixed.unflatten(self._leaves)[0]

    @property
    def monitors(self) -> Monitors:
        """The monitors' state; it lives until the next row."""
        return self._fixed.unflatten(self._leaves)[1]

    def step(
        self, z: np.ndarray, raw: np.ndarray, scale: np.ndarray, u: np.ndarray, dt: float
    ) -> Row:
        """Predict `z`, learn from it; `raw` is the same in the data's units, but for an origin."""
        row = np.concatenate([z, raw, scale, u, [dt]])
        self._leaves, told = _step(self._fixed, self._leaves, self.arrays, row)
        return self._cut(np.asarray(told))

    def _cut(self, told: np.ndarray) -> Row:
        d = self._dim
        k = (len(told) - 5 * d - 4) // 2
        ends = [d, 2 * d, 3 * d, 4 * d, 5 * d, 5 * d + k, 5 * d + 2 * k]
        told = told.astype(float)
        *parts, numbers = (told[a:b] for a, b in zip([0, *ends], [*ends, None], strict=True))
        score, elbo, ess, alarms = numbers.tolist()
        mean, low, high, filled, failure, state_mean, state_std = parts
        return Row(
            mean, low, high, filled, failure, state_mean, state_std, score, elbo, ess, int(alarms)
        )


class _Fixed:
    """Everything but arrays; learners of equal settings share their program."""

    def __init__(self, static: PyTree, arrays: Any, tree: Any, kinds: tuple[str | None, ...]):
        self.static, self.arrays, self.tree, self.kinds = static, arrays, tree, kinds
        leaves, structure = jax.tree.flatten(static)
        self._key = (tuple(leaves), structure, arrays, tree, kinds)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Fixed) and self._key == other._key)

    def unflatten(self, leaves: Any) -> tuple[PyTree, Monitors]:
        """The learner's state and the monitors; keys travel as numbers."""
        pairs = zip(leaves, self.kinds, strict=True)
        whole = [v if kind is None else jax.random.wrap_key_data(v, impl=kind) for v, kind in pairs]
        return jax.tree.unflatten(self.tree, whole)


def _copied(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda v: jnp.array(v, copy=True) if eqx.is_array(v) else v, tree)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _raw(leaves: list[Array]) -> tuple[Array, ...]:
    return tuple(jax.random.key_data(v) if _is_key(v) else v for v in leaves)


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def _step(
    fixed: _Fixed, leaves: tuple[Array, ...], arrays: list[Array], row: Float[Array, "n"]
) -> tuple[tuple[Array, ...], Float[Array, "m"]]:
    learner = eqx.combine(jax.tree.unflatten(fixed.arrays, arrays), fixed.static)
    state, monitors = fixed.unflatten(leaves)
    d = learner.dim_obs
    y, raw, scale, rest = row[:d], row[d : 2 * d], row[2 * d : 3 * d], row[3 * d :]
    inputs = Inputs(rest[:-1], rest[-1])
    state, info = learner.step(state, y, inputs)
    prediction = getattr(info, "prediction", None) or _nothing(d)
    filled, mean, std = _present(learner, state, y, inputs, prediction)
    monitors, failure, alarms = _watch(monitors, info, prediction, (y, filled), raw, scale)
    numbers = [
        prediction.log_score,
        _number(info, "elbo") / jnp.maximum(_number(state, "t"), 1.0),
        _number(info, "ess"),
        alarms.astype(float),
    ]
    told = jnp.concatenate(
        [prediction.mean, prediction.low, prediction.high, filled, failure, mean, std]
        + [v[None].astype(float) for v in numbers]
    )
    return _raw(jax.tree.leaves((state, monitors))), told


def _nothing(dim: int) -> Prediction:
    unknown = jnp.full(dim, jnp.nan)
    return Prediction(unknown, unknown, unknown, jnp.asarray(jnp.nan), unknown)


def _number(thing: Any, name: str) -> Float[Array, ""]:
    """A scalar field as a float; NaN if there is none."""
    value = getattr(thing, name, None)
    return jnp.asarray(jnp.nan if value is None else value).astype(float)


def _present(
    learner: AbstractLearner, state: PyTree, y: Array, inputs: Inputs, prediction: Prediction
) -> tuple[Array, Array, Array]:
    """The row with its gaps filled; mean and deviation of the hidden state, if there is one."""
    empty, gaps = jnp.zeros(0), jnp.any(jnp.isnan(y))
    ask = getattr(learner, "filter", None)
    kind = None if ask is None else jax.eval_shape(ask, state)
    if ask is not None and isinstance(kind, Band):
        filled = jax.lax.cond(gaps, lambda: ask(state).mean.astype(y.dtype), lambda: y)
        return filled, empty, empty
    if ask is None or not isinstance(kind, Filtered):
        return prediction.mean, empty, empty
    told = ask(state)
    variance = jnp.diagonal(told.covariance, axis1=-2, axis2=-1)
    std = jnp.sqrt(jnp.maximum(variance, 0.0))
    if not isinstance(learner, OnlineEstimator):
        return prediction.mean, told.mean, std

    def draw() -> Array:
        model, keys = learner.model_at(state), jax.random.split(jax.random.key(0))
        x = learner.draw(state, keys[0], DRAWS)
        ys = model.emission_draws(keys[1], x, inputs)
        return expected_observation(model, x, ys, inputs).astype(y.dtype)

    filled = jax.lax.cond(gaps, draw, lambda: y)
    return filled, told.mean, std


def _watch(
    monitors: Monitors,
    info: Any,
    prediction: Prediction,
    row: tuple[Array, Array],
    raw: Array,
    scale: Array,
) -> tuple[Monitors, Array, Array]:
    """Failure scores and alarms: the learner's own, and the shell's for what it lacks.

    Sensors are always watched here as well, for standardised values never repeat exactly. `row` is
    what was observed, and the same with its gaps filled, in the learner's units.
    """
    spread = 0.5 * (prediction.high - prediction.low) * scale
    sensors, failure, _ = SENSORS.step(monitors.sensors, raw, prediction.p_value, spread)
    own = getattr(info, "sensor_score", None)
    failure = failure if own is None else jnp.maximum(failure, own)
    peers = monitors.peers
    if peers is not None:
        peers, apart, _ = PEERS.step(peers, *row)
        failure = jnp.maximum(failure, apart)
    drift, flags = monitors.drift, getattr(info, "alarms", None)
    if flags is None:
        # In units of each column's usual change, or a gap in one would look like a change.
        change = sensors.change / scale
        unit = jnp.where((change > 0.0) & ~jnp.isnan(prediction.p_value), change, 1.0)
        number = jnp.maximum(jnp.sum(~jnp.isnan(prediction.p_value)), 1)
        score = (prediction.log_score + jnp.sum(jnp.log(unit))) / number
        drift, drifted, change = DRIFT.step(drift, score)
        # A score that rises is a learner that learns.
        flags = jnp.where(drifted & (change < 0.0), int(Alarm.DRIFT), 0)
    failed = jnp.any(failure > 0.5)
    flags = jnp.where(failed, flags | int(Alarm.SENSOR), flags)
    return Monitors(sensors, peers, drift), failure, flags
