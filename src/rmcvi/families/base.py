"""A variational family q_phi with backward factorisation (paper, eq. 5-6).

q_{0:t} = q_t prod_s q_{s-1|s}: the carry a_t = A(a_{t-1}, y_t) gives the natural parameter of q_t,
and q_{s-1|s}(x_s, .) has natural parameter eta_{s-1} + potential(x_s).
"""

import abc
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from rmcvi.core import tree
from rmcvi.core.checks import check_int
from rmcvi.core.inputs import Inputs
from rmcvi.families.exponential import AbstractExponentialFamily
from rmcvi.families.kalman import KalmanModel, check_kalman

Distribution = TypeVar("Distribution", bound=AbstractExponentialFamily)


class AbstractFamily(eqx.Module, Generic[Distribution]):
    """phi is every floating array leaf; the model is an argument and held constant.

    Carries are pytrees of arrays. The carry before the first observation, a_{-1}, is learned.
    """

    distribution: eqx.AbstractVar[Distribution]

    @abc.abstractmethod
    def initial_carry(self, model: Any) -> PyTree:
        """a_{-1}."""

    @abc.abstractmethod
    def advance(self, model: Any, carry: PyTree, y: Float[Array, "dy"], inputs: Inputs) -> PyTree:
        """a_t from a_{t-1} and y_t; NaN coordinates are not observed."""

    @abc.abstractmethod
    def marginal(self, carry: PyTree) -> PyTree:
        """Natural parameter eta_t of q_t."""

    @abc.abstractmethod
    def potential(self, model: Any, carry: PyTree, x: Float[Array, "dx"], inputs: Inputs) -> PyTree:
        """Natural parameter that x_t adds to eta_{t-1}; `carry` is a_{t-1}, `inputs` those of t."""

    def sample(self, carry: PyTree, key: Key[Array, ""], num: int) -> Float[Array, "{num} dx"]:
        """Draws from q_t."""
        return self.distribution.sample(key, self.marginal(carry), num)

    def sample_back(
        self,
        model: Any,
        carry: PyTree,
        x: Float[Array, "n dx"],
        inputs: Inputs,
        key: Key[Array, ""],
    ) -> Float[Array, "n dx"]:
        """One draw from q_{t-1|t}(x, .) for each x; arguments as those of `potential`."""
        eta = self.marginal(carry)

        def one(k, x_i):
            kernel = tree.add(eta, self.potential(model, carry, x_i, inputs))
            return self.distribution.sample(k, kernel, 1)[0]

        return jax.vmap(one)(jax.random.split(key, len(x)), x)

    def project(self) -> "AbstractFamily":
        """The nearest admissible parameters, applied after each gradient step."""
        return self


def scaled_mlp(
    inputs: int, outputs: int, width: int, depth: int, last: float, key: Key[Array, ""]
) -> eqx.nn.MLP:
    """A tanh network whose last layer starts `last` times its usual size, with no bias there."""
    net = eqx.nn.MLP(inputs, outputs, width, depth, jnp.tanh, key=key)

    def layer(mlp: eqx.nn.MLP) -> tuple[Any, Any]:
        return mlp.layers[-1].weight, mlp.layers[-1].bias

    weight, bias = layer(net)
    return eqx.tree_at(layer, net, (last * weight, jnp.zeros_like(bias)))


def correction_networks(
    model: KalmanModel, key: Key[Array, ""], *, hidden: int, memory: int, last: float
) -> tuple[eqx.nn.MLP, eqx.nn.MLP]:
    """Networks that correct a filter step (and carry `memory` numbers) and the backward potential.

    Args:
        model: gives the dimensions.
        key: draws the weights.
        hidden: units in each network.
        memory: numbers carried besides mean and precision.
        last: size of the last layers at first, relative to the usual one.
    """
    check_kalman("model", model)
    check_int("hidden", hidden)
    check_int("memory", memory, 0)
    k1, k2 = jax.random.split(key)
    dx, dy = model.dim_state, model.dim_obs
    size = 3 * dy + 2 * dx + memory + model.dim_input
    cell = scaled_mlp(size, 2 * dx + memory, hidden, 1, last, k1)
    return cell, scaled_mlp(dx, 2 * dx, hidden, 1, last, k2)


def squash(x: Float[Array, "k"]) -> Float[Array, "2*k"]:
    """Two bounded-slope views of a residual: where it is, and how far out it is."""
    return jnp.concatenate([jnp.tanh(x), jnp.arcsinh(x)])


def clip_spectral_norm(weight: Float[Array, "m n"], bound: float) -> Float[Array, "m n"]:
    """Scale a matrix down to spectral norm `bound`, never up (errata B13)."""
    norm = jnp.linalg.norm(weight, 2)
    return weight * jnp.minimum(1.0, bound / jnp.maximum(norm, jnp.finfo(weight.dtype).tiny))
