"""The questions that a state-space model with a recursion answers, by its draws and its history."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key

from rmcvi.contract import (
    AbstractLearner,
    AbstractRecursion,
    Band,
    Filtered,
    Prediction,
    Smoothed,
)
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_int, check_real
from rmcvi.core.inputs import Inputs
from rmcvi.learners import query
from rmcvi.learners.query import Trajectories
from rmcvi.learners.records import LearnerState
from rmcvi.models import AbstractModel


class AbstractStateSpaceLearner(AbstractLearner):
    """A learner with a model, whose parameters move, and a recursion."""

    model: eqx.AbstractVar[AbstractModel]
    recursion: eqx.AbstractVar[AbstractRecursion]

    @abc.abstractmethod
    def model_at(self, state: LearnerState, averaged: bool | None = None) -> AbstractModel:
        """The model with its learned parameters."""

    @abc.abstractmethod
    def family_at(self, state: LearnerState, averaged: bool = False) -> Any:
        """The family with its learned parameters."""

    @property
    def dim_state(self) -> int:
        """Length of x."""
        return self.model.dim_state

    @property
    def reach(self) -> int:
        """Rows that are kept, but for the present one."""
        state = jax.eval_shape(self.init, jax.random.key(0))
        return query.history(self, state).y.shape[0] - 1

    def parameters(self, state: LearnerState) -> dict[str, Array]:
        """Those of the model, in its own units."""
        return dict(self.model_at(state).parameters())

    def filter(self, state: LearnerState) -> Filtered:
        """Mean and covariance of x_t given everything so far."""
        return self.recursion.filtered(state.recursion, self.model_at(state), self.family_at(state))

    def draw(self, state: LearnerState, key: Key[Array, ""], num: int) -> Float[Array, "{num} dx"]:
        """Draws of x_t given everything so far."""
        model, family = self.model_at(state), self.family_at(state)
        return self.recursion.draw(state.recursion, model, family, key, num)

    def predict(
        self,
        state: LearnerState,
        y: ArrayLike | None = None,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        *,
        num: int = 1000,
        key: Key[Array, ""] | None = None,
    ) -> Prediction:
        """The next observation and, given `y`, how the prediction fares; nothing is learned."""
        check_int("num", num)
        y = jnp.full(self.dim_obs, jnp.nan) if y is None else jnp.asarray(y, float)
        check_array("y", y, (self.dim_obs,))
        return query.predict_next(
            self, state, y, Inputs.of(u, dt, self.dim_input), num, query.key_or_default(key)
        )

    def log_score(
        self,
        state: LearnerState,
        y: ArrayLike,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        *,
        num: int = 1000,
        key: Key[Array, ""] | None = None,
    ) -> Float[Array, ""]:
        """Predictive log-density of a next observation, over its observed coordinates."""
        return self.predict(state, y, u, dt, num=num, key=key).log_score

    def smooth(
        self, state: LearnerState, lag: int, *, num: int = 200, key: Key[Array, ""] | None = None
    ) -> Smoothed:
        """`num` draws of (x_{t-lag}, ..., x_t) given everything so far; lag < window + bptt."""
        return query.smooth(self, state, lag, num, key)

    def smooth_sequence(
        self,
        state: LearnerState,
        ys: ArrayLike,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        *,
        num: int = 200,
        key: Key[Array, ""] | None = None,
    ) -> Smoothed:
        """`num` draws of all states of a whole sequence, with the parameters learned so far."""
        return query.smooth_sequence(self, state, ys, u, dt, num, key)

    def forecast(
        self,
        state: LearnerState,
        horizon: int,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        *,
        level: float = 0.9,
        num: int = 500,
        key: Key[Array, ""] | None = None,
    ) -> Band:
        """The next `horizon` observations (`u`, `dt`: their inputs, one row each)."""
        inputs = Inputs.sequence(check_int("horizon", horizon), u, dt, self.dim_input)
        return query.simulate(self, state, inputs, level, num, key)[0]

    def trajectories(
        self,
        state: LearnerState,
        horizon: int,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        *,
        num: int = 500,
        key: Key[Array, ""] | None = None,
    ) -> Trajectories:
        """The draws of states and observations behind `forecast`."""
        inputs = Inputs.sequence(check_int("horizon", horizon), u, dt, self.dim_input)
        return query.simulate(self, state, inputs, self.level, num, key)[1]

    def present(
        self,
        state: LearnerState,
        *,
        level: float = 0.9,
        num: int = 100,
        key: Key[Array, ""] | None = None,
    ) -> Band:
        """y_t with the missing coordinates replaced by their posterior."""
        check_real("level", level, 0.0, 1.0)
        return query.present(self, state, level, check_int("num", num), query.key_or_default(key))

    def recent(
        self,
        state: LearnerState,
        lag: int,
        *,
        level: float = 0.9,
        num: int = 500,
        key: Key[Array, ""] | None = None,
    ) -> Band:
        """y_{t-lag}, ..., y_t with the missing coordinates replaced by their posterior."""
        check_real("level", level, 0.0, 1.0)
        return query.recent(self, state, lag, level, num, key)
