"""A model whose gradient is a statistic: log m + <e, s>, log g + <e', s'>, at e = e' = 0.

The derivative of the evidence in e is E[sum s | y], so that a recursion which is given e as a
parameter returns the increment of the smoothed statistic where its gradient should be, whatever the
recursion. With v_ij = u_j + z_i, features and targets of a pair, sums over pairs need matrix
products only (docs/theory/online-em.md).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core.inputs import Inputs
from rmcvi.models.gaussian import AbstractGaussianModel
from rmcvi.models.linear_part import LinearPart, Statistics


class Tilted(AbstractGaussianModel):
    """`base`, with the tilts of its linear parts as further parameters; None leaves a part out."""

    base: AbstractGaussianModel
    transition: Statistics | None
    emission: Statistics | None
    dim_state: int = eqx.field(static=True)
    dim_obs: int = eqx.field(static=True)

    def __init__(
        self,
        base: AbstractGaussianModel,
        transition: Statistics | None,
        emission: Statistics | None,
    ):
        """`base` with tilts, usually zero."""
        self.base, self.transition, self.emission = base, transition, emission
        self.dim_state, self.dim_obs = base.dim_state, base.dim_obs

    @property
    def dim_input(self) -> int:
        """That of the base."""
        return self.base.dim_input

    @property
    def fill_value(self) -> float:
        """That of the base."""
        return self.base.fill_value

    @property
    def untilted(self) -> AbstractGaussianModel:
        """The base: with tilts of zero its values are the same."""
        return self.base

    def transition_tilt(self, x_prev, x, inputs):
        """The tilt of one pair."""
        part = self.base.linear_transition()
        if part is None or self.transition is None:
            return jnp.zeros(())
        v = part.pairs(x_prev, x, inputs) / jnp.sqrt(inputs.dt)
        return jnp.sum(self.transition.tilt(v))

    def emission_tilt(self, x, y, inputs):
        """The tilt of what is seen of y; a block that is not seen as a whole has none."""
        part = self.base.linear_emission()
        if part is None or self.emission is None:
            return jnp.zeros(())
        v = part.pairs(x, jnp.where(jnp.isnan(y), 0.0, y), inputs)
        seen = jnp.all(~jnp.isnan(y).reshape(len(v), -1), 1)
        return jnp.sum(jnp.where(seen, self.emission.tilt(v), 0.0))

    def transition_log_prob(self, x_prev, x, inputs):
        """`log m + <e, s>`."""
        log_m = self.base.transition_log_prob(x_prev, x, inputs)
        return log_m + self.transition_tilt(x_prev, x, inputs)

    def observed_log_prob(self, x, y, inputs):
        """`log g + <e, s>`."""
        return self.base.observed_log_prob(x, y, inputs) + self.emission_tilt(x, y, inputs)

    def pairwise_log_prob(self, x_prev, x, inputs):
        """All pairs."""
        log_m, part = self.base.pairwise_log_prob(x_prev, x, inputs), self.base.linear_transition()
        if part is None or self.transition is None:
            return log_m
        column, row, slope, deviation = _terms(part, self.transition, x_prev, x, inputs)
        return log_m + deviation @ slope.T + row[:, None] + column[None]

    def moment_log_prob(self, x_prev, x, row_weight, column_weight, cross, inputs):
        """A weighted sum over pairs, from the moments of the weights."""
        weights = (row_weight, column_weight, cross)
        log_m = self.base.moment_log_prob(x_prev, x, *weights, inputs)
        part = self.base.linear_transition()
        if part is None or self.transition is None:
            return log_m
        column, row, slope, _ = _terms(part, self.transition, x_prev, x, inputs)
        return log_m + row_weight @ row + column_weight @ column + jnp.sum(cross * slope)

    def initial_moments(self):
        """Those of the base."""
        return self.base.initial_moments()

    def diagonals(self, dt):
        """Those of the base."""
        return self.base.diagonals(dt)

    def initial_log_prob(self, x):
        """That of the base."""
        return self.base.initial_log_prob(x)

    def initial_sample(self, key):
        """That of the base, as all that follows."""
        return self.base.initial_sample(key)

    def transition_mean(self, x_prev, inputs):
        """`f(x)`."""
        return self.base.transition_mean(x_prev, inputs)

    def transition_jacobian(self, x_prev, inputs):
        """Its derivative."""
        return self.base.transition_jacobian(x_prev, inputs)

    def transition_scale(self, inputs):
        """The matrix S."""
        return self.base.transition_scale(inputs)

    def emission_mean(self, x, inputs):
        """Where y is expected."""
        return self.base.emission_mean(x, inputs)

    def emission_scale(self, x, inputs):
        """How far from there."""
        return self.base.emission_scale(x, inputs)

    def emission_information(self, x, seen, inputs):
        """What it tells about x."""
        return self.base.emission_information(x, seen, inputs)

    def emission_log_prob(self, x, y, inputs):
        """Coordinate by coordinate, without the tilt."""
        return self.base.emission_log_prob(x, y, inputs)

    def emission_sample(self, key, x, inputs):
        """Draw y given x."""
        return self.base.emission_sample(key, x, inputs)


def _terms(
    part: LinearPart,
    tilt: Statistics,
    x_prev: Float[Array, "m dx"],
    x: Float[Array, "n dx"],
    inputs: Inputs,
) -> tuple[Array, Array, Array, Array]:
    """The tilt of pair (j, i) as column_j + row_i + slope_j' deviation_i.

    v_ij = u_j + z_i: u_j are the features and the mean of x less the offset, z_i is x_i less that
    mean and has no features.
    """
    centre = jnp.mean(x, 0)
    u = jax.vmap(lambda v: part.pairs(v, centre, inputs))(x_prev)
    num = part.coefficients.value.shape[1]
    both = tilt.moments + jnp.swapaxes(tilt.moments, 1, 2)
    slope = jnp.einsum("jbk,bkl->jbl", u, both[:, :, num:]).reshape(x_prev.shape)
    quadratic = jnp.einsum("jbk,bkl,jbl->j", u, tilt.moments, u)
    deviation = x - centre[None]
    z = deviation.reshape(len(x), *tilt.count.shape, -1)
    row = jnp.einsum("ibk,bkl,ibl->i", z, tilt.moments[:, num:, num:], z)
    column = jnp.sum(tilt.count) + quadratic / inputs.dt
    return column, row / inputs.dt, slope / inputs.dt, deviation
