"""The monitors of `Live`, for learners that have none: sensors, peers, drift."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rmcvi.contract import Diagnostics, Prediction
from rmcvi.monitors import (
    DriftDetector,
    DriftState,
    PeerMonitor,
    PeerState,
    SensorMonitor,
    SensorState,
    gaussian_p_value,
)
from rmcvi.monitors.health import Alarm

SENSORS, PEERS, DRIFT = SensorMonitor(), PeerMonitor(), DriftDetector()
MOST_PEERS = 32
"""Columns that are compared with one another; the work grows with their third power."""
STUCK, OUTLYING, APART = 1, 2, 3
"""Why a column has failed: it repeats, it is not as predicted, its peers disagree."""


class Values(eqx.Module):
    """One row as the program sees it, one entry per column, NaN = unknown."""

    y: Float[Array, "dy"]
    """What the learner is given, in its units; NaN also where a value is doubted."""
    last: Float[Array, "dy"]
    """The last value that came before, in the same units."""
    move: Float[Array, "dy"]
    """The value less the last one, in the units of the data."""
    scale: Float[Array, "dy"]
    """Units of the data in one of the learner's."""

    @property
    def full(self) -> Float[Array, "dy"]:
        """What was observed, doubted or not, in the learner's units."""
        return jnp.where(jnp.isnan(self.y), self.last + self.move / self.scale, self.y)


class Monitors(eqx.Module):
    """What each monitor remembers."""

    sensors: SensorState
    peers: PeerState | None
    drift: DriftState

    @classmethod
    def fresh(cls, dim: int) -> "Monitors":
        """Nothing seen of `dim` columns."""
        peers = PEERS.init(dim) if 1 < dim <= MOST_PEERS else None
        return cls(SENSORS.init(dim), peers, DRIFT.init())


def watch(
    monitors: Monitors,
    own: Diagnostics,
    prediction: Prediction,
    spread: Float[Array, "dy"],
    row: Values,
    filled: Float[Array, "dy"],
) -> tuple[Monitors, Float[Array, "dy"], Int[Array, "dy"], Int[Array, ""]]:
    """Failure scores, their kinds and the alarms: the learner's own, and what it lacks.

    Sensors are always watched here as well, for standardised values never repeat exactly.

    Args:
        monitors: what they remember.
        own: what the learner knows about itself.
        prediction: of this row.
        spread: its standard deviation.
        row: what came.
        filled: the row with its gaps filled, in the learner's units.
    """
    doubted = jnp.isnan(row.y) & ~jnp.isnan(row.move)
    tail = gaussian_p_value(row.full, prediction.mean, spread)
    p_value = jnp.where(doubted, tail, prediction.p_value)
    sensors, failure, _ = SENSORS.step(
        monitors.sensors, row.full, p_value, spread * row.scale, row.move
    )
    if own.sensor_score is not None:
        failure = jnp.maximum(failure, own.sensor_score)
    kind = jnp.where(failure > 0.5, OUTLYING, 0)
    peers = monitors.peers
    if peers is not None:
        peers, apart, _ = PEERS.step(peers, row.y, filled)
        kind = jnp.where((apart > 0.5) & (kind == 0), APART, kind)
        failure = jnp.maximum(failure, apart)
    kind = jnp.where(SENSORS.is_stuck(sensors), STUCK, kind)
    drift, flags = monitors.drift, own.alarms
    if flags is None:
        # In units of each column's usual change, or a gap in one would look like a change.
        change = sensors.change / row.scale
        unit = jnp.where((change > 0.0) & ~jnp.isnan(prediction.p_value), change, 1.0)
        number = jnp.maximum(jnp.sum(~jnp.isnan(prediction.p_value)), 1)
        score = (prediction.log_score + jnp.sum(jnp.log(unit))) / number
        drift, drifted, change = DRIFT.step(drift, score)
        # A score that rises is a learner that learns.
        flags = jnp.where(drifted & (change < 0.0), int(Alarm.DRIFT), 0)
    failed = jnp.any(failure > 0.5)
    flags = jnp.where(failed, flags | int(Alarm.SENSOR), flags)
    return Monitors(sensors, peers, drift), failure, kind, flags
