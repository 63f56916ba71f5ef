"""Recursive least squares on lagged values, inputs and an intercept.

    y_t = W x_t + noise,    x_t = (1, u_t, y_{t-l} for l in lags),    f = S' x_t,  a = 1 + f' f,
    W <- W + e f' S' / a,    S <- (S - S f f' / (a + sqrt(a))) / sqrt(forget),    e = y_t - W x_t.

S S' is the covariance of a row of W in units of the noise. Its square root is updated (Potter), so
that it stays positive in float32 over millions of steps. Each coordinate has its own S: a row in
which it is missing teaches it nothing, and it alone nothing.

With forgetting, S grows where nothing is learned. It is held back: no coefficient is ever less
certain than before the first row. Without forgetting that never binds, and the recursion is exact.
"""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi._contract import AbstractLearner
from rmcvi._core.checks import check_int, check_real
from rmcvi._core.inputs import Inputs
from rmcvi.baselines._residual import RivalInfo, RunningVariance
from rmcvi.baselines._tails import Tails


class LeastSquaresState(eqx.Module):
    """Coefficients, their square-root covariances, the noise, and the values that lags need."""

    weights: Float[Array, "dy p"]
    root: Float[Array, "dy p p"]
    noise: RunningVariance
    tails: Tails
    history: Float[Array, "lags dy"]
    """Latest first; own predictions where values were missing, 0 before the first row."""


class RecursiveLeastSquares(AbstractLearner):
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
        p, eye = self.num_coefficients, jnp.eye(self.num_coefficients)
        return LeastSquaresState(
            weights=jnp.zeros((self.dim_obs, p)),
            root=jnp.tile(eye / math.sqrt(self.ridge), (self.dim_obs, 1, 1)),
            noise=RunningVariance.prior(self.dim_obs, self.scale),
            tails=Tails.unknown(self.dim_obs),
            history=jnp.zeros((max(self.lags, default=0), self.dim_obs)),
        )

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
        mean = state.weights @ x
        white = jnp.einsum("dij,i->dj", state.root, x)
        spread = 1.0 + jnp.sum(white**2, 1)
        scale = jnp.sqrt(state.noise.value * spread)
        tails, prediction = state.tails.predict(mean, scale, y, self.level)
        error = jnp.where(seen, y - mean, 0.0)
        weights, root = jax.vmap(self._learn)(state.weights, state.root, white, spread, error)
        new = LeastSquaresState(
            weights=jnp.where(seen[:, None], weights, state.weights),
            root=jnp.where(seen[:, None, None], root, state.root),
            noise=state.noise.add(error**2 / spread, seen, self.memory),
            tails=tails,
            history=jnp.concatenate([jnp.where(seen, y, mean)[None], state.history])[
                : len(state.history)
            ],
        )
        return new, RivalInfo(prediction)

    def _learn(
        self,
        weights: Float[Array, "p"],
        root: Float[Array, "p p"],
        white: Float[Array, "p"],
        spread: Float[Array, ""],
        error: Float[Array, ""],
    ) -> tuple[Float[Array, "p"], Float[Array, "p p"]]:
        """One coordinate's row of W and its S."""
        gain = root @ white
        weights = weights + gain * (error / spread)
        root = root - jnp.outer(gain, white / (spread + jnp.sqrt(spread)))
        if self.forget == 1.0:
            return weights, root
        root = root / math.sqrt(self.forget)
        length = jnp.sqrt(self.ridge) * jnp.linalg.norm(root, axis=1)
        return weights, root / jnp.maximum(length, 1.0)[:, None]
