"""A recursion turns a stream into values and gradients; model and family are arguments.

state = recursion.init(model, family)
state, grads, info = recursion.step(state, model, family, y, inputs, key)
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from rmcvi.core.inputs import Inputs
from rmcvi.core.pareto import TRUSTED, pareto_k
from rmcvi.core.results import Result
from rmcvi.families import AbstractFamily
from rmcvi.models import AbstractModel

MUCH = 0.25
"""Share of a posterior that no family should leave out; with one mode, the zoo stays below .2."""


class Trainable(eqx.Module):
    """Which leaves are parameters: filters as in `equinox.partition` (default: floating arrays)."""

    model: Any = eqx.is_inexact_array
    family: Any = eqx.is_inexact_array


class Gradients(eqx.Module):
    """Gradient of the ELBO increment; None at leaves that are not trained."""

    model: PyTree
    family: PyTree


class Misfit(eqx.Module):
    """How far q_t is from the posterior, by importance weights; NaN: not estimated."""

    pareto_k: Float[Array, "*batch"]
    """Shape of the weights' tail."""
    left_out: Float[Array, "*batch"]
    """Share of the posterior that q_t leaves out: their distance in total variation."""

    @classmethod
    def unknown(cls, like: Float[Array, ""]) -> "Misfit":
        """Not estimated."""
        return cls(jnp.full_like(like, jnp.nan), jnp.full_like(like, jnp.nan))

    @classmethod
    def of(cls, log_weights: Float[Array, "n"]) -> "Misfit":
        """By weights of q_t's own particles, which know nothing of modes that q_t has missed."""
        k = pareto_k(log_weights)
        return cls(k, jnp.full_like(k, jnp.nan))

    @property
    def fails(self) -> Bool[Array, "*batch"]:
        """Whether the posterior is something else."""
        return (self.pareto_k > TRUSTED) | (self.left_out > MUCH)


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
    calibrated: Float[Array, ""]
    """Share of the kernels' moments that the weights reproduce (NaN: they are not meant to)."""
    misfit: Misfit
    """How far q_t is from the posterior."""

    @classmethod
    def plain(
        cls,
        elbo: Float[Array, ""],
        increment: Float[Array, ""],
        sound: Bool[Array, ""],
        ess: Float[Array, ""] | None = None,
        functional: PyTree = None,
        calibrated: Float[Array, ""] | None = None,
        misfit: Misfit | None = None,
    ) -> "Info":
        """That of a recursion without a window; an `ess` below 2 is a collapse."""
        unknown = jnp.full_like(elbo, jnp.nan)
        ess = unknown if ess is None else ess
        result = jnp.where(ess < 2.0, int(Result.WEIGHTS_COLLAPSED), int(Result.SUCCESS))
        return cls(
            elbo=elbo,
            increment=increment,
            ess=ess,
            contraction=unknown,
            mass=jnp.zeros(0, elbo.dtype),
            mass_beyond=jnp.zeros_like(elbo),
            functional=functional,
            result=jnp.where(sound, result, int(Result.NON_FINITE)),
            calibrated=unknown if calibrated is None else calibrated,
            misfit=Misfit.unknown(elbo) if misfit is None else misfit,
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


class Smoothed(eqx.Module):
    """Draws of states given observations up to t, oldest first, and their moments."""

    samples: Float[Array, "*batch num T dx"]

    @property
    def mean(self) -> Float[Array, "*batch T dx"]:
        """Smoothed means."""
        return jnp.mean(self.samples, -3)

    @property
    def std(self) -> Float[Array, "*batch T dx"]:
        """Smoothed standard deviations."""
        return jnp.std(self.samples, -3)


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

    def variational(self, family: Any) -> AbstractFamily | None:
        """The family if it advances and draws backwards on its own, None if it does not."""
        return family

    def advance(
        self,
        carry: PyTree,
        model: AbstractModel,
        family: Any,
        y: Float[Array, "dy"],
        inputs: Inputs,
        key: Key[Array, ""],
    ) -> PyTree:
        """The family's carry after y_t as cheaply as can be had: nothing is learned."""
        del key
        return family.advance(model, carry, y, inputs)

    def history(self, state: PyTree) -> PyTree | None:
        """The last rows, for backward sampling; None if the recursion keeps none."""
        del state
        return None

    @property
    def gradient_window(self) -> int:
        """Rows of the window that `lengthen` makes longer; 0 if there is none."""
        return 0

    def lengthen(
        self, state: PyTree, window: int | None = None
    ) -> tuple["AbstractRecursion", PyTree]:
        """The recursion and its state with a longer window (default: twice as long)."""
        raise ValueError("lengthen: got a recursion without a window, expected RMCVI")

    def carries(
        self,
        model: AbstractModel,
        family: Any,
        ys: Float[Array, "T dy"],
        inputs: Inputs,
        key: Key[Array, ""],
    ) -> tuple[PyTree, PyTree]:
        """(a_{t-1}, a_t) of the family for every t of a whole sequence, with fixed parameters."""
        del key

        def step(carry: Any, row: Any) -> Any:
            new = family.advance(model, carry, *row)
            return new, (carry, new)

        return jax.lax.scan(step, family.initial_carry(model), (ys, inputs))[1]
