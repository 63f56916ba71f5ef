"""Models, families, recursions and learners that are wrong on purpose, several ways at once."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import rmcvi
from rmcvi import families, models
from rmcvi.core.prediction import Prediction


class Level(models.AbstractModel):
    """A level read by two gauges: sound, and the base of everything below."""

    persistence: jax.Array
    raw_scale: jax.Array
    dim_state = 1
    dim_obs = 2

    @classmethod
    def build(cls, **fields: Any) -> "Level":
        build: Any = cls  # dimensions are class attributes here, which pyright does not see
        return build(jnp.array([0.8]), jnp.array([-0.7]), **fields)

    def scale(self):
        return jnp.exp(self.raw_scale)

    def initial_log_prob(self, x):
        return norm.logpdf(x, 0.0, self.scale()).sum()

    def initial_sample(self, key):
        return self.scale() * jax.random.normal(key, (1,))

    def transition_log_prob(self, x_prev, x, inputs):
        return norm.logpdf(x, self.persistence * x_prev, self.scale()).sum()

    def transition_sample(self, key, x_prev, inputs):
        return self.persistence * x_prev + self.scale() * jax.random.normal(key, (1,))

    def emission_log_prob(self, x, y, inputs):
        return norm.logpdf(y, jnp.broadcast_to(x, (2,)), 0.5)

    def emission_sample(self, key, x, inputs):
        return jnp.broadcast_to(x, (2,)) + 0.5 * jax.random.normal(key, (2,))


class Sloppy(Level):
    """Forgotten normaliser, wrong scale in a sampler, sum over coordinates, a float field."""

    gain: float = 1.5

    def initial_log_prob(self, x):
        return jnp.sum(-0.5 * (x / self.scale()) ** 2)

    def transition_sample(self, key, x_prev, inputs):
        return self.persistence * x_prev + self.scale() ** 2 * jax.random.normal(key, (1,))

    def emission_log_prob(self, x, y, inputs):
        total = norm.logpdf(y, jnp.broadcast_to(x, (2,)), 0.5).sum()
        return jnp.broadcast_to(total, (2,))


class Leaky(Level):
    """Impure, a shape that is wrong, a branch on a value, NaN in the gradient."""

    def initial_sample(self, key):
        return self.scale() * jax.random.normal(key, (1,)) + COUNT()

    def transition_log_prob(self, x_prev, x, inputs):
        return norm.logpdf(x, self.persistence * x_prev, self.scale())

    def transition_sample(self, key, x_prev, inputs):
        if x_prev[0] > 0.0:
            return x_prev
        return -x_prev

    def observed_log_prob(self, x, y, inputs):
        return jnp.nansum(self.emission_log_prob(x, y, inputs) * x)


class Correlated(Level):
    """Right as a joint density, wrong where a coordinate is missing: no observed_log_prob."""

    def emission_log_prob(self, x, y, inputs):
        away = y - jnp.broadcast_to(x, (2,))
        return norm.logpdf(away, jnp.stack([0.0 * x[0], 0.8 * away[0]]), 0.5)

    def emission_sample(self, key, x, inputs):
        noise = 0.5 * jax.random.normal(key, (2,))
        return jnp.broadcast_to(x, (2,)) + noise + jnp.stack([0.0 * x[0], 0.8 * noise[0]])


class _Count:
    """A number that grows with each call, as a careless cache would."""

    def __init__(self):
        self.calls = 0

    def __call__(self) -> float:
        self.calls += 1
        return 1e-3 * self.calls


COUNT = _Count()


class Greedy(families.AbstractFamily[families.DiagonalGaussian]):
    """A potential that takes precision away far out, and a marginal that an outlier destroys."""

    raw: jax.Array
    distribution: families.DiagonalGaussian

    def __init__(self):
        self.raw = jnp.ones(1)
        self.distribution = families.DiagonalGaussian()

    def initial_carry(self, model):
        return self.raw

    def advance(self, model, carry, y, inputs):
        return 0.5 * carry + jnp.where(jnp.isnan(y), 0.0, y)[:1]

    def marginal(self, carry):
        return families.Natural(carry, jnp.exp(carry * 1e-3))

    def potential(self, model, carry, x, inputs):
        return families.Natural(x, -1e-3 * x**2)

    def project(self):
        return eqx.tree_at(lambda f: f.raw, self, 0.5 * self.raw)


class Growing(Greedy):
    """A carry that becomes longer."""

    def __init__(self):
        super().__init__()

    def advance(self, model, carry, y, inputs):
        return jnp.concatenate([carry, y])


class Talkative(rmcvi.AbstractRecursion):
    """Gradients for frozen leaves, an ELBO that is no sum, draws that are too wide, memory."""

    def init(self, model, family, trainable=None):
        return {"t": jnp.zeros(()), "x": jnp.zeros(model.dim_state)}

    def step(self, state, model, family, y, inputs, key, trainable=None):
        grads = eqx.filter(model, eqx.is_inexact_array)
        zero = jnp.zeros(())
        t, x = state["t"] + 1.0, state["x"] + jnp.where(jnp.isnan(y[:1]), 0.0, y[:1]) ** 60
        info = rmcvi.Info.plain(t, zero, jnp.asarray(True))
        return rmcvi.Step({"t": t, "x": x / (1.0 + x)}, rmcvi.Gradients(grads, None), info)

    def filtered(self, state, model, family):
        return rmcvi.Filtered(state["x"], jnp.eye(model.dim_state))

    def draw(self, state, model, family, key, num):
        return state["x"][None] + 2.0 * jax.random.normal(key, (num, model.dim_state))


class Told(eqx.Module):
    """An info that holds a prediction only."""

    prediction: Prediction


class Peeking(rmcvi.AbstractLearner):
    """Predicts with y in hand, scores rows it has not seen, and cannot stand infinities."""

    dim_obs: int = eqx.field(static=True, default=2)
    dim_input: int = eqx.field(static=True, default=0)
    level: float = eqx.field(static=True, default=0.9)

    def init(self, key) -> Any:
        return jnp.zeros(2)

    def step(self, state, y, inputs):
        now = jnp.where(jnp.isnan(y), state, 0.5 * state + 0.5 * y)
        usual = Prediction.gaussian(now, jnp.ones(2), y, 0.9)
        return now, Told(eqx.tree_at(lambda p: p.log_score, usual, jnp.zeros(())))


class Hoarding(Peeking):
    """A state that grows, and one that is no array."""

    number: float = 1.0

    def init(self, key):
        return {"rows": jnp.zeros((0, 2)), "note": np.float32(self.number)}


class Longer(Peeking):
    """Arrays only, and more of them each time."""

    def init(self, key):
        return jnp.zeros((1, 2))

    def step(self, state, y, inputs):
        _, told = Peeking.step(self, state[-1], y, inputs)
        return jnp.concatenate([state, y[None]]), told
