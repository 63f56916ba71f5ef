"""The learner's eyes: health of its steps, drift of its score, failure of its sensors."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from rmcvi.contract import Info, Prediction
from rmcvi.learners.best import go_on
from rmcvi.learners.predict import deviation
from rmcvi.monitors import DriftDetector, DriftState, SensorMonitor, SensorState
from rmcvi.monitors.health import Alarm, Health, HealthState


class WatchState(eqx.Module):
    """What each monitor remembers; None for one that is left out."""

    health: HealthState | None
    drift: DriftState | None
    sensors: SensorState | None

    @property
    def factor(self) -> Float[Array, ""]:
        """Length of the steps as a share of what the optimisers say."""
        return jnp.ones(()) if self.health is None else self.health.factor


class Suspicion(eqx.Module):
    """What is thought of an observation before it is learned from."""

    score: Float[Array, "dy"] | None
    """Evidence in [0, 1] that each sensor has failed."""
    masked: Bool[Array, "dy"]
    """Coordinates to be treated as missing."""


class Watch(eqx.Module):
    """Three monitors, each of which may be None."""

    health: Health | None
    drift: DriftDetector | None
    sensors: SensorMonitor | None
    mask_failed: bool = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        health: Health | bool,
        drift: DriftDetector | bool,
        sensors: SensorMonitor | bool,
        mask_failed: bool,
    ) -> "Watch":
        """Monitors, True for their defaults and False for none."""
        if mask_failed and not sensors:
            raise ValueError("mask_failed: got True, expected False without sensors and draws")
        return cls(
            health=Health() if health is True else health or None,
            drift=DriftDetector() if drift is True else drift or None,
            sensors=SensorMonitor() if sensors is True else sensors or None,
            mask_failed=mask_failed,
        )

    @property
    def damps(self) -> bool:
        """Whether an unstable learner takes shorter steps, or goes back to its best time."""
        return self.health is not None and self.health.damp

    def init(self, dim: int) -> WatchState:
        """Nothing seen yet of `dim` coordinates."""
        return WatchState(
            health=None if self.health is None else self.health.init(dim),
            drift=None if self.drift is None else self.drift.init(),
            sensors=None if self.sensors is None else self.sensors.init(dim),
        )

    def suspect(
        self, state: WatchState, y: Float[Array, "dy"], prediction: Prediction | None, level: float
    ) -> tuple[WatchState, Suspicion]:
        """Judge the sensors; when most fail together the model is the suspect, none is masked.

        Args:
            state: of the monitors.
            y: the observation.
            prediction: of it.
            level: probability of the prediction's interval.
        """
        if self.sensors is None or state.sensors is None or prediction is None:
            return state, Suspicion(None, jnp.zeros(y.shape, bool))
        spread = deviation(prediction, level)
        sensors, score, failed = self.sensors.step(state.sensors, y, prediction.p_value, spread)
        few = 2 * jnp.sum(failed) <= y.size
        masked = failed & few & self.mask_failed
        return WatchState(state.health, state.drift, sensors), Suspicion(score, masked)

    def conclude(
        self,
        state: WatchState,
        y: Float[Array, "dy"],
        prediction: Prediction | None,
        info: Info,
        suspicion: Suspicion,
    ) -> tuple[WatchState, Int[Array, ""], Float[Array, ""] | None]:
        """Alarms after the step, and the drift statistic."""
        score = jnp.asarray(jnp.nan) if prediction is None else prediction.log_score
        alarms, health, drift, change = jnp.zeros((), int), state.health, state.drift, None
        if self.health is not None and health is not None:
            told = info.ess, info.mass_beyond, info.misfit.fails
            health, alarms = self.health.step(health, y, score, told)
        if self.drift is not None and drift is not None:
            drift, drifted, change = self.drift.step(drift, score)
            alarms = alarms + jnp.where(drifted, int(Alarm.DRIFT), 0)
        if suspicion.score is not None:
            failed = jnp.any(suspicion.score > 0.5)
            alarms = alarms + jnp.where(failed, int(Alarm.SENSOR), 0)
        return WatchState(health, drift, state.sensors), alarms, change

    def restore(self, state: WatchState, learner: Any) -> Any:
        """The learner's state, its best parameters kept or put back; without damping, as it is."""
        if self.health is None or state.health is None or learner.best is None:
            return learner
        return go_on(self.health, state.health, learner)
