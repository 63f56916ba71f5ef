"""The one file to read first: what a recursion is, and what a learner is.

A recursion turns a stream into values and gradients. Model and family are arguments, never fields:

    state = recursion.init(model, family)
    state, grads, info = recursion.step(state, model, family, y, inputs, key)

`grads` is the *increment* of the gradient of the ELBO (or of the likelihood), an ascent direction
for (theta, phi). State is what the next step needs (its size does not grow with t), Info is what a
person wants. RMCVI is a recursion, and so is every rival that learns a state-space model.

A learner predicts y_t, scores the prediction, and only then learns from it:

    state = learner.init(key)
    state, info = learner.update(state, y)

`OnlineEstimator` makes a learner of a recursion; rivals without a state-space model are learners
themselves.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from rmcvi.core.checks import check_array
from rmcvi.core.inputs import Inputs
from rmcvi.core.prediction import Prediction as Prediction
from rmcvi.core.results import Result as Result
from rmcvi.models import AbstractModel


class Trainable(eqx.Module):
    """Which leaves are parameters: filters as in `equinox.partition` (default: floating arrays)."""

    model: Any = eqx.is_inexact_array
    family: Any = eqx.is_inexact_array


class Gradients(eqx.Module):
    """Gradient of the ELBO increment; None at leaves that are not trained."""

    model: PyTree
    family: PyTree


class Info(eqx.Module):
    """What one step has to tell."""

    elbo: Float[Array, ""]
    """Estimate of L_t; elbo / (t + 1) converges to the COLBO."""
    increment: Float[Array, ""]
    """L_t - L_{t-1}."""
    ess: Float[Array, ""]
    """Effective sample size of the weights, averaged over particles (NaN: there are none)."""
    contraction: Float[Array, ""]
    """Factor by which one backward step shrinks a difference (NaN where it was not estimated)."""
    mass: Float[Array, "lags"]
    """Total variation of the gradient's coefficient at lag 0, 1, ... of the window."""
    mass_beyond: Float[Array, ""]
    """The same just outside the window: what truncation leaves out (0 = exact)."""
    functional: PyTree
    """Running smoothed expectation of the additive functional, None if there is none."""
    result: Int[Array, ""]
    """A `Result` code."""

    @classmethod
    def plain(
        cls,
        elbo: Float[Array, ""],
        increment: Float[Array, ""],
        sound: Bool[Array, ""],
        ess: Float[Array, ""] | None = None,
        functional: PyTree = None,
    ) -> "Info":
        """That of a recursion without a window; an `ess` below 2 is a collapse."""
        ess = jnp.full_like(elbo, jnp.nan) if ess is None else ess
        result = jnp.where(ess < 2.0, int(Result.WEIGHTS_COLLAPSED), int(Result.SUCCESS))
        return cls(
            elbo=elbo,
            increment=increment,
            ess=ess,
            contraction=jnp.full_like(elbo, jnp.nan),
            mass=jnp.zeros(0, elbo.dtype),
            mass_beyond=jnp.zeros_like(elbo),
            functional=functional,
            result=jnp.where(sound, result, int(Result.NON_FINITE)),
        )


class Step(NamedTuple):
    """What `step` returns."""

    state: PyTree
    grads: Gradients
    info: Info


class Filtered(eqx.Module):
    """The law of x_t given y_{0:t}."""

    mean: Float[Array, "*batch dx"]
    covariance: Float[Array, "*batch dx dx"]


class AbstractRecursion(eqx.Module):
    """A frozen algorithm: hyper-parameters are its fields.

    `family` is whatever the algorithm learns besides the model: a variational family, a proposal,
    or None.
    """

    @abc.abstractmethod
    def init(self, model: AbstractModel, family: Any, trainable: Trainable | None = None) -> PyTree:
        """The state before the first observation, for the parameters that will be trained."""

    @abc.abstractmethod
    def step(
        self,
        state: PyTree,
        model: AbstractModel,
        family: Any,
        y: Float[Array, "dy"],
        inputs: Inputs,
        key: Key[Array, ""],
        trainable: Trainable | None = None,
    ) -> Step:
        """Take in y_t (NaN = not observed) and return state, gradients and info."""

    @abc.abstractmethod
    def filtered(self, state: PyTree, model: AbstractModel, family: Any) -> Filtered:
        """Mean and covariance of x_t given what was taken in."""

    @abc.abstractmethod
    def draw(
        self, state: PyTree, model: AbstractModel, family: Any, key: Key[Array, ""], num: int
    ) -> Float[Array, "{num} dx"]:
        """Draws of x_t given what was taken in."""


class AbstractLearner(eqx.Module):
    """Anything that predicts the next observation, and learns from it once it has come."""

    dim_obs: eqx.AbstractVar[int]
    dim_input: eqx.AbstractVar[int]

    @abc.abstractmethod
    def init(self, key: Key[Array, ""]) -> PyTree:
        """The state before the first observation."""

    @abc.abstractmethod
    def step(self, state: PyTree, y: Float[Array, "dy"], inputs: Inputs) -> tuple[PyTree, Any]:
        """Predict, score, learn; the info has a field `prediction`."""

    def update(
        self,
        state: PyTree,
        y: ArrayLike,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
    ) -> tuple[PyTree, Any]:
        """Take in one observation (NaN = not observed), compiled."""
        y = jnp.asarray(y, float)
        check_array("y", y, (self.dim_obs,))
        return _update(self, state, y, Inputs.of(u, dt, self.dim_input))


@eqx.filter_jit
def _update(
    learner: AbstractLearner, state: PyTree, y: Array, inputs: Inputs
) -> tuple[PyTree, Any]:
    return learner.step(state, y, inputs)
