"""The one file to read first: what a recursion is.

A recursion turns a stream into values and gradients. Model and family are arguments, never fields:

    state = recursion.init(model, family)
    state, grads, info = recursion.step(state, model, family, y, inputs, key)

`grads` is the *increment* of the gradient of the ELBO, an ascent direction for (theta, phi). State
is what the next step needs (its size does not grow with t), Info is what a person wants.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float, Int, Key, PyTree

from rmcvi._core.inputs import Inputs
from rmcvi._core.results import Result as Result
from rmcvi.families import AbstractFamily
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
    """Effective sample size of the backward weights, averaged over particles."""
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


class Step(NamedTuple):
    """What `step` returns."""

    state: PyTree
    grads: Gradients
    info: Info


class AbstractRecursion(eqx.Module):
    """A frozen algorithm: hyper-parameters are its fields."""

    @abc.abstractmethod
    def init(
        self, model: AbstractModel, family: AbstractFamily, trainable: Trainable | None = None
    ) -> PyTree:
        """The state before the first observation, for the parameters that will be trained."""

    @abc.abstractmethod
    def step(
        self,
        state: PyTree,
        model: AbstractModel,
        family: AbstractFamily,
        y: Float[Array, "dy"],
        inputs: Inputs,
        key: Key[Array, ""],
        trainable: Trainable | None = None,
    ) -> Step:
        """Take in y_t (NaN = not observed) and return state, gradients and info."""
