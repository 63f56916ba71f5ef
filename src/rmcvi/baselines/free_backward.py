"""The family of function regression: q_t and a backward kernel that is free of q_{t-1}.

    q_t = N(mean, scale^2),   q_t(x_{t-1} | x_t) = N(net(x_t), back_scale^2),   diagonal.

`centred`: the same kernel in better coordinates, m + s net((x_t - m-) / s-), with m, s the mean and
scale of q_{t-1} and m-, s- those predicted for x_t, so that a network serves more than one step.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.core.checks import check_instance, check_int
from rmcvi.core.gaussian import log_density
from rmcvi.core.inputs import Inputs
from rmcvi.core.positive import positive, unconstrained
from rmcvi.families.kalman import Moments, initial_moments, predict
from rmcvi.models import AbstractModel


class Anchor(eqx.Module):
    """Where x_{t-1} was found and where x_t is expected."""

    mean: Float[Array, "dx"]
    scale: Float[Array, "dx"]
    mean_ahead: Float[Array, "dx"]
    scale_ahead: Float[Array, "dx"]


class FreeBackward(eqx.Module):
    """Parameters of one step."""

    mean: Float[Array, "dx"]
    raw_scale: Float[Array, "dx"]
    net: eqx.nn.MLP
    raw_back_scale: Float[Array, "dx"]
    centred: bool = eqx.field(static=True)

    def __init__(
        self,
        model: AbstractModel,
        *,
        key: Key[Array, ""],
        hidden: int = 100,
        centred: bool = True,
    ):
        """One hidden ReLU layer; q_0 starts at the law of x_0 where the model tells it."""
        check_instance("model", model, AbstractModel)
        check_int("hidden", hidden)
        dx = model.dim_state
        self.mean, scale = jnp.zeros(dx), jnp.ones(dx)
        if model.gaussian is not None:
            start = initial_moments(model.gaussian)
            self.mean, scale = start.mean, jnp.sqrt(jnp.diagonal(start.covariance))
        self.raw_scale = self.raw_back_scale = unconstrained(scale)
        self.net = eqx.nn.MLP(dx, dx, hidden, 1, jax.nn.relu, key=key)
        self.centred = bool(centred)

    @property
    def scale(self) -> Float[Array, "dx"]:
        """Standard deviations of q_t."""
        return positive(self.raw_scale)

    @property
    def back_scale(self) -> Float[Array, "dx"]:
        """Standard deviations of the backward kernel."""
        return positive(self.raw_back_scale)

    def back_mean(self, x: Float[Array, "dx"], anchor: Anchor) -> Float[Array, "dx"]:
        """Mean of x_{t-1} given x_t."""
        if not self.centred:
            return self.net(x)
        return anchor.mean + anchor.scale * self.net((x - anchor.mean_ahead) / anchor.scale_ahead)

    def log_prob(self, x: Float[Array, "dx"]) -> Float[Array, ""]:
        """`log q_t(x)`."""
        return log_density(self.scale, (x - self.mean)[None])[0]

    def predicted(self, model: AbstractModel, inputs: Inputs) -> "FreeBackward":
        """The start of the next step: linearised prediction of q_t if the model tells it."""
        if model.gaussian is None:
            return self
        now = Moments(self.mean, jnp.diag(self.scale**2), jnp.zeros(()))
        later = predict(model.gaussian, now, inputs)
        scale = jnp.sqrt(jnp.diagonal(later.covariance))
        return eqx.tree_at(
            lambda f: (f.mean, f.raw_scale), self, (later.mean, unconstrained(scale))
        )
