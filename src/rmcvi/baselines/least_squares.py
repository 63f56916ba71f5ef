"""Recursive least squares on lagged values, inputs and an intercept.

    y_t = W x_t + noise,    x_t = (1, u_t, y_{t-l} for l in lags).

Each row of W is a `Regression` of its own, in units of the noise: a row in which its coordinate is
missing teaches it nothing, and it alone nothing.

With forgetting, no coefficient is ever less certain than before the first row. Without, that never
binds, and the recursion is exact.
"""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.baselines.rival import AbstractRival, Past, RivalInfo, Tails
from rmcvi.core.checks import check_int, check_real
from rmcvi.core.inputs import Inputs
from rmcvi.core.moments import RunningVariance
from rmcvi.core.regression import Regression


class LeastSquaresState(eqx.Module):
    """Coefficients, their square-root covariances, the noise, and the values that lags need."""

    regression: Regression
    noise: RunningVariance
    tails: Tails
    history: Float[Array, "lags dy"]
    """Latest first; own predictions where values were missing, 0 before the first row."""
    past: Past


class RecursiveLeastSquares(AbstractRival):
    """A vector autoregression with inputs, learned exactly and at once.

    Meant for series in standard units: the ridge is the same for all coefficients. Lags count rows,
    whatever their `dt`.
    """

    dim_obs: int = eqx.field(static=True)
    dim_input: int = eqx.field(static=True)
    lags: tuple[int, ...] = eqx.field(static=True)
    forget: float = eqx.field(static=True)
    ridge: float = eqx.field(static=True)
    level: float = eqx.field(static=True)
    memory: float = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    def __init__(
        self,
        dim_obs: int,
        dim_input: int = 0,
        *,
        lags: Sequence[int] = (1, 2, 3),
        forget: float = 1.0,
        ridge: float = 1.0,
        level: float = 0.9,
        memory: float = 100.0,
        scale: float = 1.0,
    ):
        """Set up the rival.

        Args:
            dim_obs: length of y.
            dim_input: length of u.
            lags: which past rows explain the next, such as (1, 2, 3, 23, 24, 25) for hours.
            forget: weight of a row relative to the one after it, in (0, 1].
            ridge: weight of the prior W = 0, in rows.
            level: probability of the predictive interval.
            memory: number of values that the noise variance remembers (`math.inf`: all).
            scale: standard deviation of the noise before anything is known.
        """
        self.dim_obs = check_int("dim_obs", dim_obs)
        self.dim_input = check_int("dim_input", dim_input, 0)
        self.lags = tuple(check_int("lags", lag) for lag in lags)
        self.forget = 1.0 if forget == 1.0 else check_real("forget", forget, 0.0, 1.0)
        self.ridge = check_real("ridge", ridge, 0.0)
        self.level = check_real("level", level, 0.0, 1.0)
        self.memory = memory if memory == math.inf else check_real("memory", memory, 1.0)
        self.scale = check_real("scale", scale, 0.0)

    @property
    def num_coefficients(self) -> int:
        """Length of x, the regressors of each coordinate."""
        return 1 + self.dim_input + self.dim_obs * len(self.lags)

    def init(self, key: Key[Array, ""]) -> LeastSquaresState:
        """The state before the first observation; nothing is drawn."""
        del key
        shape = self.dim_obs, self.num_coefficients
        return LeastSquaresState(
            regression=jax.vmap(Regression.prior)(jnp.zeros(shape), jnp.full(shape, self._most)),
            noise=RunningVariance.prior(self.dim_obs, self.scale),
            tails=Tails.unknown(self.dim_obs),
            history=jnp.zeros((max(self.lags, default=0), self.dim_obs)),
            past=Past.empty(self.dim_obs),
        )

    @property
    def _most(self) -> float:
        """Standard deviation of a coefficient before the first row, in units of the noise."""
        return 1.0 / math.sqrt(self.ridge)

    def regressors(self, state: LeastSquaresState, inputs: Inputs) -> Float[Array, "p"]:
        """x_t = (1, u_t, lagged values)."""
        past = [state.history[lag - 1] for lag in self.lags]
        return jnp.concatenate([jnp.ones(1), inputs.u, *past])

    def step(
        self, state: LeastSquaresState, y: Float[Array, "dy"], inputs: Inputs
    ) -> tuple[LeastSquaresState, RivalInfo]:
        """Predict, score, learn."""
        y = jnp.where(jnp.isfinite(y), y, jnp.nan)
        seen, x = ~jnp.isnan(y), self.regressors(state, inputs)
        law = state.regression
        mean = law.weights @ x
        white, leverage = jax.vmap(lambda row: row.leverage(x))(law)
        variance = 1.0 + leverage  # of the prediction, in units of the noise
        scale = jnp.sqrt(state.noise.value * variance)
        tails, prediction = state.tails.predict(mean, scale, y, self.level)
        error = jnp.where(seen, y - mean, 0.0)
        most, noise = jnp.full(x.size, self._most), jnp.asarray(1.0 / self.forget)
        # The noise is the unit; Potter's update of a value that weighs its own forgetting.
        learned = jax.vmap(lambda row, f, e: row.learn(f, e, noise, self.forget, most))(
            law, white, error
        )
        new = LeastSquaresState(
            regression=Regression(
                jnp.where(seen[:, None], learned.weights, law.weights),
                jnp.where(seen[:, None, None], learned.root, law.root),
            ),
            noise=state.noise.add(error**2 / variance, seen, self.memory),
            tails=tails,
            history=jnp.concatenate([jnp.where(seen, y, mean)[None], state.history])[
                : len(state.history)
            ],
            past=state.past.push(y, mean, scale),
        )
        return new, RivalInfo(prediction)

    def parameters(self, state: LeastSquaresState) -> dict[str, Array]:
        """Coefficients of (1, u, lagged values), a row per column, and the noise."""
        noise = jnp.sqrt(state.noise.value)
        return {"coefficients": state.regression.weights, "*.noise": noise}
