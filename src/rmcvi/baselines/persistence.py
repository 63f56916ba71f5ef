"""Tomorrow is like today: a random walk, observed without noise.

    y_t | past ~ N(y_s, (t - s) v),    s = time of the last observed value,

with v the running mean of (y_t - y_s)^2 / (t - s): its maximum likelihood estimate. The tails are
Gaussian or Student's, whichever has fared better.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from rmcvi.baselines.rival import AbstractRival, Past, RivalInfo, Tails
from rmcvi.core.checks import check_int, check_real
from rmcvi.core.inputs import Inputs
from rmcvi.core.moments import RunningVariance


class PersistenceState(eqx.Module):
    """The last value of each coordinate, its age, and how fast values wander."""

    last: Float[Array, "dy"]
    age: Float[Array, "dy"]
    """Time since `last` was observed, in usual steps."""
    begun: Bool[Array, "dy"]
    """Whether there has been a value."""
    rate: RunningVariance
    """Variance per usual step."""
    tails: Tails
    past: Past


class Persistence(AbstractRival):
    """Repeats the last observed value (0 before the first). Inputs are ignored."""

    dim_obs: int = eqx.field(static=True)
    dim_input: int = eqx.field(static=True)
    level: float = eqx.field(static=True)
    memory: float = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    def __init__(
        self,
        dim_obs: int,
        dim_input: int = 0,
        *,
        level: float = 0.9,
        memory: float = 100.0,
        scale: float = 1.0,
    ):
        """Set up the rival.

        Args:
            dim_obs: length of y.
            dim_input: length of u, which is not used.
            level: probability of the predictive interval.
            memory: number of values that the variance remembers (`math.inf`: all).
            scale: standard deviation before anything is known.
        """
        self.dim_obs = check_int("dim_obs", dim_obs)
        self.dim_input = check_int("dim_input", dim_input, 0)
        self.level = check_real("level", level, 0.0, 1.0)
        self.memory = memory if memory == jnp.inf else check_real("memory", memory, 1.0)
        self.scale = check_real("scale", scale, 0.0)

    def init(self, key: Key[Array, ""]) -> PersistenceState:
        """The state before the first observation; nothing is drawn."""
        del key
        zero = jnp.zeros(self.dim_obs)
        rate = RunningVariance.prior(self.dim_obs, self.scale)
        return PersistenceState(
            last=zero,
            age=zero,
            begun=jnp.zeros(self.dim_obs, bool),
            rate=rate,
            tails=Tails.unknown(self.dim_obs),
            past=Past.empty(self.dim_obs),
        )

    def step(
        self, state: PersistenceState, y: Float[Array, "dy"], inputs: Inputs
    ) -> tuple[PersistenceState, RivalInfo]:
        """Predict, score, learn."""
        y = jnp.where(jnp.isfinite(y), y, jnp.nan)
        seen = ~jnp.isnan(y)
        age = state.age + jnp.maximum(inputs.dt, jnp.finfo(y.dtype).eps)
        spread = jnp.where(state.begun, jnp.sqrt(age * state.rate.value), self.scale)
        tails, prediction = state.tails.predict(state.last, spread, y, self.level)
        square = jnp.where(seen, y - state.last, 0.0) ** 2 / age
        new = PersistenceState(
            last=jnp.where(seen, y, state.last),
            age=jnp.where(seen, 0.0, age),
            begun=state.begun | seen,
            rate=state.rate.add(square, seen & state.begun, self.memory),
            tails=tails,
            past=state.past.push(y, state.last, spread),
        )
        return new, RivalInfo(prediction)

    def parameters(self, state: PersistenceState) -> dict[str, Array]:
        """Standard deviation of the change over a usual step."""
        return {"*.change": jnp.sqrt(state.rate.value)}
