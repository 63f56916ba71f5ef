"""Recursive maximum likelihood with the exact tangent filter: d law_t / d theta moves with law_t.

    (law_t, l_t) = filter(theta, law_{t-1}, y_t),
    (dlaw_t, dl_t) = its derivative along (e_p, dlaw_{t-1} / dtheta_p), for every parameter p.

The increment of the gradient is dl_t. At fixed theta the increments add up to the exact score;
along a moving theta this is recursive maximum likelihood. A step costs O(P) filter steps.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, Key, PyTree

from rmcvi.baselines.kalman import Law, filter_step, initial_law
from rmcvi.contract import AbstractRecursion, Filtered, Gradients, Info, Step, Trainable
from rmcvi.core import tree
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_instance
from rmcvi.core.compensated import CompensatedSum
from rmcvi.core.gaussian import colour
from rmcvi.families.kalman import check_kalman
from rmcvi.models import AbstractModel, LinearGaussian


class KalmanState(eqx.Module):
    """The law of x_t, its derivative in each parameter (None if nothing is learned), evidence."""

    t: Int[Array, ""]
    law: Any
    tangents: Any
    evidence: CompensatedSum


class KalmanRecursion(AbstractRecursion):
    """The exact filter of a `LinearGaussian`, and exact recursive maximum likelihood for it.

    `family` is None. `info.elbo` is log p(y_{0:t}) under the parameters of the time.
    """

    def init(self, model, family, trainable=None):
        """The law of x_0, and its derivatives."""
        check_instance("model", model, AbstractModel)
        check_instance("model", model.untilted, LinearGaussian)
        return start(initial_law, model, trainable or Trainable())

    def step(self, state, model, family, y, inputs, key, trainable=None):
        """Filter and its tangents; nothing is random."""
        advance = functools.partial(_advance, y=y, inputs=inputs, first=state.t == 0)
        return tangent_step(advance, state, model, family, y, trainable or Trainable())

    def filtered(self, state, model, family):
        """The exact law."""
        return Filtered(state.law.mean, state.law.dense())

    def draw(self, state, model, family, key, num):
        """Draws from it."""
        return _draw(state.law, key, num)


class ExtendedKalmanRecursion(AbstractRecursion):
    """The extended Kalman filter of any `KalmanModel`.

    The model is fixed, and its gradients are zero, unless `learn`: then they are those of the
    linearised evidence (the recursive prediction error method).
    """

    learn: bool = eqx.field(static=True, default=False)

    def init(self, model, family, trainable=None):
        """The law of x_0."""
        check_kalman("model", model)
        return start(initial_law, model, (trainable or Trainable()) if self.learn else None)

    def step(self, state, model, family, y, inputs, key, trainable=None):
        """One linearised step."""
        advance = functools.partial(_advance, y=y, inputs=inputs, first=state.t == 0)
        return tangent_step(advance, state, model, family, y, trainable or Trainable())

    def filtered(self, state, model, family):
        """The linearised law."""
        return Filtered(state.law.mean, state.law.dense())

    def draw(self, state, model, family, key, num):
        """Draws from it."""
        return _draw(state.law, key, num)


def _advance(model: Any, law: Law, **row: Any) -> tuple[Law, Float[Array, ""]]:
    return filter_step(model, law, **row)


def start(initial: Callable[[Any], PyTree], model: Any, trainable: Trainable | None) -> KalmanState:
    """The state before any row: the law of x_0 and its derivatives (None: of nothing).

    Args:
        initial: the law of a model.
        model: at whose parameters.
        trainable: which of them.
    """
    tangents = None
    if trainable is not None:
        theta, rest = eqx.partition(model, trainable.model)
        flat, unravel = ravel_pytree(theta)
        if flat.size > 0:
            law = jax.jacfwd(lambda v: initial(eqx.combine(unravel(v), rest)))(flat)
            tangents = jax.tree.map(lambda v: jnp.moveaxis(v, -1, 0), law)
    return KalmanState(jnp.zeros((), int), initial(model), tangents, CompensatedSum.zeros())


def tangent_step(
    advance: Callable[[Any, PyTree], tuple[PyTree, Float[Array, ""]]],
    state: KalmanState,
    model: Any,
    family: Any,
    y: Float[Array, "dy"],
    trainable: Trainable,
) -> Step:
    """One row of a filter and of its derivatives; a row that fails leaves the law as it was.

    Args:
        advance: of a model and the law of x_{t-1}, the law of x_t and the evidence of y_t.
        state: has the law and its derivatives.
        model: at whose parameters.
        family: of which nothing is learned.
        y: the row, for its shape.
        trainable: which parameters.
    """
    check_array("y", y, (model.dim_obs,))
    theta, rest = eqx.partition(model, trainable.model)
    flat, unravel = ravel_pytree(theta)

    def of(flat, law):
        return advance(eqx.combine(unravel(flat), rest), law)

    def along(direction, tangent):
        return jax.jvp(of, (flat, state.law), (direction, tangent))

    if state.tangents is None:
        law, increment = of(flat, state.law)
        tangents, gradient = None, jnp.zeros_like(flat)
    else:
        directions = jnp.eye(flat.size, dtype=flat.dtype)
        check_array("trainable.model", state.tangents.mean, (flat.size, model.dim_state))
        (law, increment), (tangents, gradient) = jax.vmap(along, out_axes=(None, 0))(
            directions, state.tangents
        )
    sound = tree.all_finite((law, increment, tangents, gradient))
    law, tangents = tree.where(sound, (law, tangents), (state.law, state.tangents))
    increment, gradient = tree.where(
        sound, (increment, gradient), tree.zeros((increment, gradient))
    )
    evidence = state.evidence.add(increment)
    phi = tree.zeros(eqx.filter(family, trainable.family))
    return Step(
        KalmanState(state.t + 1, law, tangents, evidence),
        Gradients(unravel(gradient), phi),
        Info.plain(evidence.value, increment, sound),
    )


def _draw(law: Law, key: Key[Array, ""], num: int) -> Float[Array, "num dx"]:
    noise = jax.random.normal(key, (num, law.mean.size), law.mean.dtype)
    diagonal = law.covariance.ndim == 1
    root = jnp.sqrt(law.covariance) if diagonal else jnp.linalg.cholesky(law.covariance)
    return law.mean[None] + colour(root, noise)
