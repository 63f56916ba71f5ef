"""The exact family of a linear-Gaussian model: Kalman marginals, transition density as potential.

Errata B3: either its own Kalman model, whose parameters are phi, or the model's (no phi at all).
"""

from typing import Any

import jax

from rmcvi.core.gaussian import colour, root_of
from rmcvi.families.base import AbstractFamily
from rmcvi.families.exponential import DiagonalGaussian, FullGaussian
from rmcvi.families.kalman import (
    KalmanModel,
    backward_law,
    check_kalman,
    condition,
    expand,
    initial_moments,
    linearised_potential,
    mean_field,
    natural,
    predict,
)


class LinearGaussianFamily(AbstractFamily[DiagonalGaussian | FullGaussian]):
    """Kalman filter and backward kernels of `kalman`, or of the learned model if it is None.

    Tied to a non-linear Gaussian model it is the extended Kalman smoother.
    """

    kalman: Any
    distribution: DiagonalGaussian | FullGaussian

    def __init__(self, kalman: KalmanModel | None = None, *, diagonal: bool = False):
        """`diagonal` forces independent coordinates (exact when F and G are diagonal)."""
        if kalman is not None:
            check_kalman("kalman", kalman)
        self.kalman = kalman
        self.distribution = DiagonalGaussian() if diagonal else FullGaussian()

    @property
    def diagonal(self) -> bool:
        """Whether coordinates are independent."""
        return isinstance(self.distribution, DiagonalGaussian)

    def _model(self, model: Any) -> Any:
        return model if self.kalman is None else self.kalman

    def initial_carry(self, model):
        """The law of x_0."""
        return initial_moments(self._model(model))

    def advance(self, model, carry, y, inputs):
        """Predict, then condition on y_t."""
        kalman = self._model(model)
        now, _ = condition(kalman, predict(kalman, carry, inputs), y, inputs)
        return mean_field(now) if self.diagonal else now

    def marginal(self, carry):
        """N(mean, covariance)."""
        return natural(self.distribution, carry)

    def potential(self, model, carry, x, inputs):
        """x_{t-1} -> m(x_{t-1}, x_t), linearised at the filter's mean."""
        score, curvature = linearised_potential(self._model(model), carry.mean, x, inputs)
        return expand(self.distribution, carry.mean, score, curvature)

    def sample(self, carry, key, num):
        """From mean and covariance, which may be singular."""
        noise = jax.random.normal(key, (num, carry.mean.size), carry.mean.dtype)
        return carry.mean[None] + colour(root_of(carry.covariance), noise)

    def sample_back(self, model, carry, x, inputs, key):
        """By the gain of the linearised transition, whose noise may be singular."""
        if self.diagonal:
            return super().sample_back(model, carry, x, inputs, key)
        centre, gain, covariance = backward_law(self._model(model), carry, inputs)
        noise = jax.random.normal(key, x.shape, x.dtype)
        mean = carry.mean[None] + (x - centre[None]) @ gain.T
        return mean + colour(root_of(covariance), noise)
