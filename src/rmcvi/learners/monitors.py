"""The monitors of `Live`, for every learner: sensors, peers, and what is unusual in a column."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rmcvi.contract import Diagnostics, Prediction
from rmcvi.monitors import (
    AnomalyMonitor,
    AnomalyState,
    PeerMonitor,
    PeerState,
    SensorMonitor,
    SensorState,
    gaussian_p_value,
)
from rmcvi.monitors.health import Alarm

SENSORS, PEERS, ANOMALIES = SensorMonitor(), PeerMonitor(), AnomalyMonitor()
MOST_PEERS = 32
"""Columns that are compared with one another; the work grows with their third power."""
OUTLYING, MOVED, DRIFTING, RHYTHM, STUCK, APART = 1, 2, 3, 4, 5, 6
"""What is unusual: a value, the level, a drift, the rhythm (as in `monitors.anomaly`); it repeats
itself; its peers disagree."""


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
    anomalies: AnomalyState

    @classmethod
    def fresh(cls, dim: int) -> "Monitors":
        """Nothing seen of `dim` columns."""
        peers = PEERS.init(dim) if 1 < dim <= MOST_PEERS else None
        return cls(SENSORS.init(dim), peers, ANOMALIES.init(dim))


class Verdict(eqx.Module):
    """What the monitors think of a row."""

    failure: Float[Array, "dy"]
    """Evidence in [0, 1] that a sensor has failed."""
    anomaly: Float[Array, "dy"]
    kind: Int[Array, "dy"]
    """What the anomaly rests on."""
    age: Float[Array, "dy"]
    """Values since that began."""
    flags: Int[Array, ""]
    """A set of `Alarm` flags: the learner's own, and whether a sensor has failed."""


def watch(
    monitors: Monitors,
    own: Diagnostics,
    prediction: Prediction,
    spread: Float[Array, "dy"],
    row: Values,
    filled: Float[Array, "dy"],
) -> tuple[Monitors, Verdict]:
    """Judge a row.

    Sensors are watched here also if the learner does so, for standardised values never repeat
    exactly. The evidence of repeats and of peers is on the scale of the anomaly score as it is: at
    1/2 it is e^-10, which is met less than once in 10 000 values.

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
    error = (row.full - prediction.mean) * row.scale
    anomalies, found = ANOMALIES.step(monitors.anomalies, error, p_value, spread * row.scale)
    score, kind, age = found.score, found.about, found.age
    peers = monitors.peers
    if peers is not None:
        peers, apart, _ = PEERS.step(peers, row.y, filled)
        kind, age = jnp.where(apart > score, APART, kind), jnp.where(apart > score, 1.0, age)
        score, failure = jnp.maximum(score, apart), jnp.maximum(failure, apart)
    stuck = SENSORS.stuck_score(sensors)
    kind = jnp.where(stuck > jnp.minimum(score, 0.5), STUCK, kind)
    score = jnp.maximum(score, stuck)
    flags = jnp.zeros((), int) if own.alarms is None else own.alarms
    flags = jnp.where(jnp.any(failure > 0.5), flags | int(Alarm.SENSOR), flags)
    return Monitors(sensors, peers, anomalies), Verdict(failure, score, kind, age, flags)
