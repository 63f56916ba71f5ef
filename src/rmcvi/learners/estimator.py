"""What users hold in their hands: one object that learns from a stream.

    learner = OnlineEstimator(model, family, RMCVI(100), adam(1e-4), adam(1e-3))
    state = learner.init(key)
    state, info = learner.update(state, y)

Every method is pure. Step t draws from fold_in(key, t), so that single updates, chunks and a
resumed run give the same numbers. At each step: predict y_t, score the prediction, only then learn.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key, PyTree

from rmcvi.contract import AbstractRecursion, Diagnostics, Trainable
from rmcvi.core.array_checks import check_key
from rmcvi.core.checks import check_instance, check_int, check_real
from rmcvi.core.inputs import Inputs
from rmcvi.learners.best import Best
from rmcvi.learners.learning import learn
from rmcvi.learners.predict import foresee
from rmcvi.learners.questions import AbstractStateSpaceLearner
from rmcvi.learners.records import LearnerInfo, LearnerState
from rmcvi.learners.trial import Trial, obey
from rmcvi.learners.watch import Watch
from rmcvi.models import AbstractModel
from rmcvi.monitors import DriftDetector, SensorMonitor
from rmcvi.monitors.health import Health
from rmcvi.optim import Ascent, Averaging, GradientGuard, OnlineEM, fisher
from rmcvi.recursion.history import History

KEPT = 9
"""Rows kept for a recursion that keeps none: `recent` looks back 8, as with the default window."""


class OnlineEstimator(AbstractStateSpaceLearner):
    """Learns theta and phi on two time scales while it predicts, filters and watches itself.

    `model` and `family` are the starting point; the current ones are `model_at(state)` and
    `family_at(state)`.
    """

    model: AbstractModel
    family: Any
    recursion: AbstractRecursion
    trainable: Trainable
    model_ascent: Ascent
    family_ascent: Ascent
    em: OnlineEM | None
    steps: int = eqx.field(static=True)
    draws: int = eqx.field(static=True)
    level: float = eqx.field(static=True)
    screen_width: float | None = eqx.field(static=True)
    watch: Watch
    trial: Trial | None
    dim_obs: int = eqx.field(static=True)
    dim_input: int = eqx.field(static=True)

    def __init__(
        self,
        model: AbstractModel,
        family: Any,
        recursion: AbstractRecursion,
        model_optimiser: optax.GradientTransformation | None = None,
        family_optimiser: optax.GradientTransformation | None = None,
        *,
        trainable: Trainable | None = None,
        em: OnlineEM | None = None,
        steps: int = 1,
        draws: int = 100,
        level: float = 0.9,
        screen_width: float | None = 20.0,
        guard: GradientGuard | bool = True,
        average: float | None = None,
        average_from: int | None = None,
        answer_averaged: bool | None = None,
        health: Health | bool = True,
        drift: DriftDetector | bool = True,
        sensors: SensorMonitor | bool = True,
        mask_failed: bool = False,
        trial: bool = True,
    ):
        """Put a learner together; for the options, True means their defaults and False none.

        Args:
            model: p_theta to start from.
            family: q_phi to start from (for a rival: its proposal, or None).
            recursion: how gradients are made, such as `RMCVI(100)`.
            model_optimiser: optax transformation, meant for descent, for theta. None: `fisher()`,
                with `average=1` and `answer_averaged`, and no rate to choose.
            family_optimiser: the same for phi, usually faster. None: Adam with rate 1e-3.
            trainable: which leaves are learned (default: all floating arrays).
            em: learns those that enter linearly in closed form (default: gradients for all).
            steps: gradient steps per observation, each with new particles.
            draws: particles behind a prediction (0: no prediction, no screen, no alarms).
            level: probability of its interval.
            screen_width: an observation further out than this many half-widths is pulled in.
            guard: cuts gradients that are absurdly long.
            average: average the iterates, in the coordinates in which the optimiser moves, with
                weights that grow like t^average: 0 has the smallest variance in the end, 1
                forgets a bad start.
            average_from: average from that observation on (default with `average`: the first).
            answer_averaged: predictions and all other questions use the averaged model; the
                recursion itself always uses the last iterate.
            health: alarms for collapsed weights, a short window and unstable steps, and damping.
            drift: watches the predictive score for a change.
            sensors: watches each coordinate for a failed sensor.
            mask_failed: treat coordinates of failed sensors as missing, unless most have failed.
            trial: compare predictions with those of earlier parameters and of the family before
                training, and go back where learning made them worse (with `health` that damps).
        """
        check_instance("model", model, AbstractModel)
        check_instance("recursion", recursion, AbstractRecursion)
        cutter = GradientGuard() if guard is True else guard or None
        by_fisher = model_optimiser is None
        averaging = Averaging.asked_for(by_fisher, average, average_from, answer_averaged)
        self.model = model
        self.family = family
        self.recursion = recursion
        self.trainable = Trainable() if trainable is None else trainable
        self.model_ascent = Ascent(
            fisher() if model_optimiser is None else model_optimiser,
            None if by_fisher else cutter,  # Fisher steps have a guard in their own metric
            averaging,
        )
        self.family_ascent = Ascent(
            optax.adam(1e-3) if family_optimiser is None else family_optimiser, cutter, averaging
        )
        self.em = em
        if em is not None:
            check_instance("em", em, OnlineEM)
            em.init(model, self.trainable)
        self.steps = check_int("steps", steps)
        self.draws = check_int("draws", draws, 0)
        self.level = check_real("level", level, 0.0, 1.0)
        self.screen_width = screen_width and check_real("screen_width", screen_width, 1.0)
        self.dim_obs, self.dim_input = model.dim_obs, model.dim_input
        watched = self.draws > 0
        self.watch = Watch.of(health, drift and watched, sensors and watched, bool(mask_failed))
        compared = watched and self.watch.damps and recursion.variational(family) is not None
        self.trial = Trial() if trial and compared else None

    def init(self, key: Key[Array, ""]) -> LearnerState:
        """The state before the first observation."""
        check_key("key", key)
        theta = eqx.filter(self.model, self.trainable.model)
        phi = eqx.filter(self.family, self.trainable.family)
        model, trainable = self.differentiated(self.model)
        statistics = self.recursion.init(model, self.family, trainable)
        em = None if self.em is None else self.em.init(self.model, self.trainable)
        return LearnerState(
            key=key,
            t=jnp.zeros((), int),
            theta=theta,
            phi=phi,
            theta_ascent=self.model_ascent.init(theta),
            phi_ascent=self.family_ascent.init(phi),
            recursion=statistics,
            watch=self.watch.init(self.dim_obs),
            skipped=jnp.zeros((), int),
            best=Best.of(theta, phi, em) if self.watch.damps else None,
            past=self._no_past() if self.recursion.history(statistics) is None else None,
            em=em,
            trial=self.trial.init(self, theta, em) if self.trial is not None else None,
        )

    def differentiated(self, model: AbstractModel) -> tuple[AbstractModel, Trainable]:
        """The model that the recursion is given, and which of its leaves it differentiates."""
        if self.em is None:
            return model, self.trainable
        return self.em.tilted(model, self.trainable)

    def _no_past(self) -> History:
        draws = jnp.zeros((self.draws, self.dim_state))
        rows = KEPT if self.draws else 1
        return History.empty(rows, draws, self.dim_obs, self.dim_input)

    def diagnostics(self, state: LearnerState, info: LearnerInfo) -> Diagnostics:
        """ELBO per row, effective sample size, failed sensors, alarms."""
        rows = jnp.maximum(state.t.astype(float), 1.0)
        return Diagnostics(
            elbo=info.elbo.astype(float) / rows,
            ess=info.ess,
            sensor_score=info.sensor_score,
            alarms=info.alarms,
        )

    def trained(self) -> "OnlineEstimator":
        """Its parameters, and None elsewhere."""
        parts = (
            eqx.filter(self.model, self.trainable.model),
            eqx.filter(self.family, self.trainable.family),
        )
        nothing = eqx.filter(self, False)
        return eqx.tree_at(
            lambda v: (v.model, v.family), nothing, parts, is_leaf=lambda v: v is None
        )

    def model_at(self, state: LearnerState, averaged: bool | None = None) -> AbstractModel:
        """The model with its learned parameters (`averaged` None: as `answer_averaged` says)."""
        averaging = self.model_ascent.averaging
        if averaged is None:
            averaged = averaging is not None and averaging.answers
        theta = self._average(state.theta_ascent) if averaged else state.theta
        return eqx.combine(theta, self.model)

    def family_at(self, state: LearnerState, averaged: bool = False) -> Any:
        """The family with its learned parameters."""
        phi = self._average(state.phi_ascent) if averaged else state.phi
        return eqx.combine(phi, self.family)

    def _average(self, ascent: Any) -> PyTree:
        if self.model_ascent.averaging is None:
            raise ValueError("averaged: got True, expected False without average or average_from")
        return ascent.average

    def freeze(
        self, state: LearnerState, *, model: Any = None, family: Any = None, frozen: bool = True
    ) -> LearnerState:
        """Stop (or, with `frozen=False`, resume) learning of some parameters in mid-stream.

        `model` and `family` pick leaves, as in `freeze(state, model=lambda m: m.log_rho)`.
        """
        for name, ascent, where in (
            ("theta_ascent", self.model_ascent, model),
            ("phi_ascent", self.family_ascent, family),
        ):
            if where is not None:
                new = ascent.freeze(getattr(state, name), where, frozen)
                state = eqx.tree_at(lambda s, n=name: getattr(s, n), state, new)
        return state

    @property
    def method(self) -> str:
        """The recursion, the model, the family, and how parameters are learned."""
        names = (type(v).__name__ for v in (self.recursion, self.model, self.family))
        learned = "gradients" if self.em is None else "online EM, gradients for the rest"
        return "{} of a {} model with {}; parameters by {}".format(*names, learned)

    @property
    def gradient_window(self) -> int:
        """That of the recursion."""
        return self.recursion.gradient_window

    def lengthen(
        self, state: LearnerState, window: int | None = None
    ) -> tuple["OnlineEstimator", LearnerState]:
        """The same learner in mid-stream with a longer window (default: twice as long).

        The remedy for `Alarm.WINDOW_SHORT`; the next update compiles anew.
        """
        recursion, statistics = self.recursion.lengthen(state.recursion, window)
        learner = eqx.tree_at(lambda v: v.recursion, self, recursion)
        return learner, eqx.tree_at(lambda s: s.recursion, state, statistics)

    def step(
        self, state: LearnerState, y: Float[Array, "dy"], inputs: Inputs
    ) -> tuple[LearnerState, LearnerInfo]:
        """The pure step behind `update` and `scan`: predict, score, learn."""
        k_learn, k_predict = jax.random.split(jax.random.fold_in(state.key, state.t))
        finite = jnp.where(jnp.isfinite(y), y, jnp.nan)
        prediction, screened, before = foresee(self, state, finite, inputs, k_predict)
        watch, suspicion = self.watch.suspect(state.watch, finite, prediction, self.level)
        used = jnp.where(suspicion.masked, jnp.nan, screened)
        new, info, sound = learn(self, state, used, inputs, k_learn)
        watch, alarms, change = self.watch.conclude(watch, finite, prediction, info, suspicion)
        if self.trial is not None and state.trial is not None and prediction is not None:
            rows = (finite, used)
            trial, verdict = self.trial.step(self, state, rows, inputs, prediction.log_score)
            new, alarms = obey(self, verdict, trial, new), alarms + verdict.alarms
        new = eqx.tree_at(
            lambda s: (s.t, s.watch, s.skipped),
            new,
            (state.t + 1, watch, state.skipped + ~sound),
        )
        new = self.watch.restore(watch, new)
        if new.past is not None:
            new = eqx.tree_at(lambda s: s.past, new, new.past.push(before, used, inputs))
        return new, LearnerInfo(
            prediction=prediction,
            step=info,
            pulled=~(screened == finite) & jnp.isfinite(finite),
            masked=suspicion.masked,
            sensor_score=suspicion.score,
            drift=change,
            alarms=alarms,
            factor=watch.factor,
            cuts=self.model_ascent.cuts(new.theta_ascent) + self.family_ascent.cuts(new.phi_ascent),
            skipped=new.skipped,
        )
