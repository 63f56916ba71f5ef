"""Non-amortised family: each time step has its own q_t and its own potential (paper, appendix E.2).

q_t = N(mean, diag), eta~_t(x) = (net(x), constant precision); nothing is shared through time, so
the parameters of step t are found by gradient steps on y_t and then left alone.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.core.checks import check_int
from rmcvi.core.inputs import Inputs
from rmcvi.core.positive import positive, unconstrained
from rmcvi.families.base import AbstractFamily, scaled_mlp
from rmcvi.families.exponential import DiagonalGaussian, Natural
from rmcvi.families.kalman import KalmanModel, Moments, check_kalman, predict


class PerStepCarry(eqx.Module):
    """q_t as the next step sees it."""

    mean: Float[Array, "*batch dx"]
    raw_scale: Float[Array, "*batch dx"]


class PerStepFamily(AbstractFamily[DiagonalGaussian]):
    """Parameters phi^t of one step: q_t and the potential that links it to step t - 1."""

    mean: Float[Array, "dx"]
    raw_scale: Float[Array, "dx"]
    net: eqx.nn.MLP
    raw_precision: Float[Array, "dx"]
    distribution: DiagonalGaussian

    def __init__(self, model: KalmanModel, *, key: Key[Array, ""], hidden: int = 100):
        """Start at a unit-free guess: mean 0, the transition noise as scale."""
        check_kalman("model", model)
        check_int("hidden", hidden)
        noise = model.transition_scale(Inputs(jnp.zeros(model.dim_input), jnp.ones(())))
        scale = noise if noise.ndim == 1 else jnp.sqrt(jnp.sum(noise**2, 1))
        dx = model.dim_state
        self.mean = jnp.zeros(dx)
        self.raw_scale = unconstrained(scale)
        self.net = scaled_mlp(dx, dx, hidden, 1, 0.1, key)
        self.raw_precision = unconstrained(1.0 / scale)
        self.distribution = DiagonalGaussian()

    def parameters(self) -> PerStepCarry:
        """q_t, to be kept when the next step is fitted."""
        return PerStepCarry(self.mean, self.raw_scale)

    def initial_carry(self, model):
        """q_t itself: nothing is carried but the last step's parameters."""
        del model
        return self.parameters()

    def advance(self, model, carry, y, inputs):
        """q_t itself: y_t has entered by the fit."""
        del model, carry, y, inputs
        return self.parameters()

    def marginal(self, carry):
        """Natural parameter of N(mean, scale^2)."""
        precision = positive(carry.raw_scale) ** -2
        return Natural(precision * carry.mean, precision)

    def potential(self, model, carry, x, inputs):
        """A Gaussian whose centre is x plus a network's shift, in the precision's unit."""
        del model, carry, inputs
        root = positive(self.raw_precision)
        return Natural(root**2 * x + root * self.net(x), root**2)

    def warm_start(self, model: KalmanModel, inputs: Inputs) -> "PerStepFamily":
        """The family of the next step: linearised prediction of q_t, networks kept."""
        now = Moments(self.mean, jnp.diag(positive(self.raw_scale) ** 2), jnp.zeros(()))
        later = predict(model, now, inputs)
        scale = jnp.sqrt(jnp.diagonal(later.covariance))
        return eqx.tree_at(
            lambda f: (f.mean, f.raw_scale), self, (later.mean, unconstrained(scale))
        )
