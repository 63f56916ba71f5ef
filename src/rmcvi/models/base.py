"""A state-space model p_theta, written for one point: p(x_0) prod m(x_{t-1}, x_t) g(x_t, y_t)."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.core.inputs import Inputs


class AbstractModel(eqx.Module):
    """Three log-densities and three samplers; theta is every floating array leaf.

    `inputs` carries what is known besides y_t: `inputs.u` (exogenous inputs) and `inputs.dt`
    (length of the step, 1 if time is regular). A model that needs neither ignores it.
    """

    dim_state: eqx.AbstractVar[int]
    dim_obs: eqx.AbstractVar[int]

    @property
    def dim_input(self) -> int:
        """Length of `inputs.u`."""
        return 0

    @property
    def fill_value(self) -> float:
        """A value that y can take: densities see it, with weight zero, where y is missing."""
        return 0.0

    @property
    def gaussian(self) -> Any:
        """The model itself if it is an `AbstractGaussianModel`, or None."""
        return None

    @property
    def untilted(self) -> "AbstractModel":
        """The same densities without parameters that are there to be differentiated only."""
        return self

    def parameters(self) -> dict[str, Array]:
        """Parameters by name, in the units of the constructor where the model says how."""
        leaves = jax.tree_util.tree_flatten_with_path(eqx.filter(self, eqx.is_inexact_array))[0]
        return {jax.tree_util.keystr(path).lstrip("."): leaf for path, leaf in leaves}

    @abc.abstractmethod
    def initial_log_prob(self, x: Float[Array, "dx"]) -> Float[Array, ""]:
        """`log chi(x_0)`."""

    @abc.abstractmethod
    def initial_sample(self, key: Key[Array, ""]) -> Float[Array, "dx"]:
        """Draw x_0."""

    @abc.abstractmethod
    def transition_log_prob(
        self, x_prev: Float[Array, "dx"], x: Float[Array, "dx"], inputs: Inputs
    ) -> Float[Array, ""]:
        """`log m(x_{t-1}, x_t)`."""

    @abc.abstractmethod
    def transition_sample(
        self, key: Key[Array, ""], x_prev: Float[Array, "dx"], inputs: Inputs
    ) -> Float[Array, "dx"]:
        """Draw x_t given x_{t-1}."""

    @abc.abstractmethod
    def emission_log_prob(
        self, x: Float[Array, "dx"], y: Float[Array, "dy"], inputs: Inputs
    ) -> Float[Array, "dy"]:
        """`log g(x_t, y_t)`, one number per coordinate of y (independent given x)."""

    @abc.abstractmethod
    def emission_sample(
        self, key: Key[Array, ""], x: Float[Array, "dx"], inputs: Inputs
    ) -> Float[Array, "dy"]:
        """Draw y_t given x_t."""

    def transition_draws(
        self, key: Key[Array, ""], x_prev: Float[Array, "n dx"], inputs: Inputs
    ) -> Float[Array, "n dx"]:
        """One x_t for each x_{t-1}."""
        keys = jax.random.split(key, x_prev.shape[0])
        return jax.vmap(self.transition_sample, (0, 0, None))(keys, x_prev, inputs)

    def emission_draws(
        self, key: Key[Array, ""], xs: Float[Array, "n dx"], inputs: Inputs
    ) -> Float[Array, "n dy"]:
        """One y_t for each x_t; override if many are cheaper together."""
        keys = jax.random.split(key, xs.shape[0])
        return jax.vmap(lambda k, x: self.emission_sample(k, x, inputs))(keys, xs)

    def expected_observation(
        self, xs: Float[Array, "n dx"], draws: Float[Array, "n dy"], inputs: Inputs
    ) -> Float[Array, "dy"]:
        """E y over draws of x_t, given one draw of y_t for each of them."""
        return jnp.mean(draws, 0)

    def observed_log_prob(
        self, x: Float[Array, "dx"], y: Float[Array, "dy"], inputs: Inputs
    ) -> Float[Array, ""]:
        """`log g` over the coordinates of y that are not NaN; override if they are correlated."""
        seen = ~jnp.isnan(y)
        log_g = self.emission_log_prob(x, jnp.where(seen, y, self.fill_value), inputs)
        return jnp.sum(jnp.where(seen, log_g, 0.0))

    def pairwise_log_prob(
        self, x_prev: Float[Array, "m dx"], x: Float[Array, "n dx"], inputs: Inputs
    ) -> Float[Array, "n m"]:
        """`log m(x_prev[j], x[i])` for all pairs: row = now, column = before."""

        def row(x_i):
            return jax.vmap(lambda x_j: self.transition_log_prob(x_j, x_i, inputs))(x_prev)

        return jax.vmap(row)(x)


def check_densities(model: AbstractModel) -> None:
    """Raise unless the three log-densities have the shapes that the recursion relies on."""
    x, y = jnp.zeros(model.dim_state), jnp.zeros(model.dim_obs)
    inputs = Inputs(jnp.zeros(model.dim_input), jnp.ones(()))
    for name, function, arguments, expected in (
        ("initial_log_prob", model.initial_log_prob, (x,), ()),
        ("transition_log_prob", model.transition_log_prob, (x, x, inputs), ()),
        ("emission_log_prob", model.emission_log_prob, (x, y, inputs), y.shape),
    ):
        shape = jax.eval_shape(function, *arguments).shape
        if shape != expected:
            raise ValueError(
                f"model.{name}: got a result of shape {shape}, expected {expected}"
                + (", one number per coordinate of y" if expected else ", one number")
            )
