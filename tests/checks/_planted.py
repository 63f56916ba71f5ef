"""Models with one fault each that their own densities do not show; `Gauges` has none."""

from typing import Any

import jax
import jax.numpy as jnp

from rmcvi.core.gaussian import normal_log_prob
from rmcvi.models import AbstractGaussianModel, zoo
from rmcvi.models.gaussian import draw_normal
from rmcvi.models.zoo.angle import wrap


class Gauges(AbstractGaussianModel):
    """A level and its slope, read by two gauges: four methods, and nothing wrong."""

    gain: jax.Array
    dim_state: int = 2
    dim_obs: int = 2

    def transition_mean(self, x_prev, inputs):
        return 0.9 * x_prev + 0.1 * jnp.tanh(x_prev[::-1])

    def transition_scale(self, inputs):
        return jnp.full(2, 0.3)

    def emission_mean(self, x, inputs):
        return self.gain * x + 0.1 * x**2

    def emission_scale(self, x, inputs):
        return jnp.full(2, 0.5)


class Faulty(Gauges):
    """Faults by numbers, so that one program serves to find them all; see `faulty`."""

    times: jax.Array | float = 1.0
    bend: jax.Array | float = 0.1
    blind: jax.Array | float = 0.0
    noise: jax.Array | float = 0.5

    def emission_mean(self, x, inputs):
        return self.gain * x + self.bend * x**2

    def emission_log_prob(self, x, y, inputs):
        return normal_log_prob(y, super().emission_mean(x, inputs), jnp.full(2, self.noise))

    def emission_sample(self, key, x, inputs):
        return draw_normal(key, super().emission_mean(x, inputs), jnp.full(2, self.noise))

    def emission_information(self, x, seen, inputs):
        seen = jnp.where(self.blind > 0.0, 1.0, seen)
        return self.times * super().emission_information(x, seen, inputs)


def faulty(**numbers: float) -> AbstractGaussianModel:
    """An information that is so many `times` too large or `blind` to what is missing, an
    emission_mean whose `bend` is not the density's .1, an emission_scale that is .5 whatever the
    `noise` is.
    """
    usual = {"times": 1.0, "bend": 0.1, "blind": 0.0, "noise": 0.5}
    return made(Faulty, gain=GAIN, **{k: jnp.asarray(v) for k, v in (usual | numbers).items()})


class LaplaceStart(Gauges):
    """x_0 is not Gaussian."""

    def initial_log_prob(self, x):
        return jnp.sum(jax.scipy.stats.logistic.logpdf(x))

    def initial_sample(self, key):
        return jax.random.logistic(key, (2,))


class RateForRoot(zoo.Spikes):
    """The rate where its root belongs."""

    def emission_information(self, x, seen, inputs):
        return (seen * self.emission_mean(x, inputs))[:, None] * self.loadings


class OnlyTheSamplerWraps(zoo.Tracking):
    """The bearing is drawn in [-pi, pi) and believed on the line."""

    def emission_log_prob(self, x, y, inputs):
        return normal_log_prob(y, self.emission_mean(x, inputs), self.emission_scale(x, inputs))


class NothingWraps(OnlyTheSamplerWraps):
    """Sampler and density agree, and both jump where the bearing passes its cut."""

    def emission_sample(self, key, x, inputs):
        return draw_normal(key, self.emission_mean(x, inputs), self.emission_scale(x, inputs))


class TurningPendulum(zoo.Pendulum):
    """Its mean goes on from turn to turn, and only the sampler wraps."""

    def emission_log_prob(self, x, y, inputs):
        return normal_log_prob(y, self.emission_mean(x, inputs), self.emission_scale(x, inputs))

    def emission_sample(self, key, x, inputs):
        return wrap(super().emission_sample(key, x, inputs))


def made(kind: Any, **settings: Any) -> AbstractGaussianModel:
    """An instance; that a subclass inherits a constructor pyright does not see."""
    return kind(**settings)


GAIN = jnp.asarray(1.5)
BENEATH = (2.0, 0.0)
"""A home from which the cut of the bearing is far: no draw of the first states is near it."""
PLANTED = {
    "information ten times too large": (
        lambda: faulty(times=10.0**0.5),
        "emission_information is the score's",
        "says too much about x[",
    ),
    "a mean that is not the mean": (
        lambda: faulty(bend=0.0),
        "emission_mean and emission_scale are the sampler's",
        "it must be the mean of y given x",
    ),
    "a rate in place of its root": (
        lambda: made(RateForRoot, neurons=4, rate=3.0),
        "emission_information is the score's",
        "leave the method out",
    ),
    "only the sampler wraps": (
        lambda: made(OnlyTheSamplerWraps, home=BENEATH),
        "angles are wrapped",
        "take the residual the short way round",
    ),
    "nothing wraps": (
        lambda: made(NothingWraps, home=BENEATH),
        "angles pass their cut",
        "take the residual the short way round",
    ),
    "a pendulum that turns": (
        lambda: made(TurningPendulum, wrapped=True),
        "angles are wrapped",
        "would rather see 6.283 away",
    ),
    "an initial law that is not Gaussian": (
        lambda: made(LaplaceStart, gain=GAIN),
        "initial: Gaussian",
        "return both from model.initial_moments",
    ),
    "an information that ignores the mask": (
        lambda: faulty(blind=1.0),
        "emission_information is the score's",
        "multiply its row k by seen[k]",
    ),
    "a scale that is too wide": (
        lambda: faulty(times=2.0, noise=0.25),
        "emission_mean and emission_scale are the sampler's",
        "a variance for its root?",
    ),
}
