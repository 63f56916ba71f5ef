"""An extended Kalman filter of many states in a row, at a cost that is linear in their number.

Each window of neighbours (`neighbours`) has a mean and a full covariance of its own. With J the
Jacobian within the window and C the curvature of -log g,

    P- = J P J' + S S',    P- = L L',    M = I + L' C L,    P = L M^-1 L',

and x maximises -(x - m-)' P-^-1 (x - m-) / 2 + log g by Newton's steps. J and C come from as many
directional derivatives as a window has states, whatever their number in all. Then windows speak to
each other: of the mean every block gives its own, and of P- every window takes the covariance of a
pair from the window in whose middle that pair lies. The evidence is Laplace's, block given what is
left of it: log g(x) + sum over blocks of {log diag chol(M^-1) - z^2 / 2} with x = m- + L z.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Key

from rmcvi.baselines.kalman_recursion import KalmanState, start, tangent_step
from rmcvi.baselines.neighbours import Neighbours, neighbours
from rmcvi.contract import AbstractRecursion, Filtered, Trainable
from rmcvi.core.checks import check_int
from rmcvi.core.gaussian import (
    LEAST,
    bounded,
    covariance_of,
    inverse_spd,
    root_of,
    symmetric,
)
from rmcvi.core.inputs import Inputs
from rmcvi.families.kalman import check_kalman

REACH = 3.0
"""A Newton step moves no state further than this many of its predicted deviations."""
FAR = 0.05
"""Share of a random direction's effect that may come from beyond the radius."""


class LocalLaw(eqx.Module):
    """Mean of all states, covariances within each window."""

    mean: Float[Array, "*p d"]
    covariance: Float[Array, "*p k w w"]

    @classmethod
    def initial(cls, sites: Neighbours, model: Any) -> "LocalLaw":
        """The law of x_0."""
        mean, scale = model.initial_moments()
        return cls(mean, _within(sites, scale))


class LocalKalmanRecursion(AbstractRecursion):
    """Extended Kalman filter with local covariances, and the derivatives of its evidence.

    For models whose states stand in a row (or a ring) and act on their neighbours: weather, chains,
    fields in one dimension. Of several states to a place put those of one place side by side. The
    emission may be any; its mode is found. `family` is None.
    """

    radius: int = eqx.field(static=True)
    ring: bool = eqx.field(static=True)
    num_steps: int = eqx.field(static=True)

    def __init__(self, radius: int, *, ring: bool = False, num_steps: int = 2):
        """Choose how far neighbours go.

        Args:
            radius: states further apart than this act on each other through those between; windows
                have three to four times as many states, and with fewer than four times as many in
                all the filter is not local.
            ring: whether the last state is next to the first.
            num_steps: Newton's, to the mode given y_t; one is enough if y_t is linear and Gaussian.
        """
        self.radius = check_int("radius", radius)
        self.ring = bool(ring)
        self.num_steps = check_int("num_steps", num_steps)

    def sites(self, model: Any) -> Neighbours:
        """Who is whose neighbour."""
        return neighbours(model.dim_state, self.radius, self.ring)

    def init(self, model, family, trainable=None):
        """The law of x_0, and its derivatives."""
        check_kalman("model", model)
        sites = self.sites(model)
        traced = any(isinstance(v, Tracer) for v in (jnp.zeros(()), *jax.tree.leaves(model)))
        if not traced and _missed(sites, model) > FAR:
            raise ValueError(
                f"radius: got {self.radius}, expected more: the model acts on states further away"
                " than that (in a ring: ring=True)"
            )
        return start(lambda m: LocalLaw.initial(sites, m), model, trainable or Trainable())

    def step(self, state, model, family, y, inputs, key, trainable=None):
        """Filter and its tangents; nothing is random."""
        sites = self.sites(model)

        def advance(model, law):
            prior = _predict(sites, model, law, inputs)
            prior = jax.tree.map(lambda a, b: jnp.where(state.t == 0, a, b), law, prior)
            return _condition(sites, model, prior, y, inputs, self.num_steps)

        return tangent_step(advance, state, model, family, y, trainable or Trainable())

    def filtered(self, state, model, family):
        """Mean, and covariances between neighbours; zero beyond."""
        sites, law = self.sites(model), state.law
        rows = jnp.arange(model.dim_state)[:, None]
        own = law.covariance[sites.block, sites.place]
        dense = jnp.zeros((len(rows), len(rows)), own.dtype)
        return Filtered(law.mean, symmetric(dense.at[rows, sites.window[sites.block]].set(own)))

    def draw(self, state: KalmanState, model, family, key: Key[Array, ""], num: int):
        """Draws, block after block, each given what is left of it in its window."""
        sites, law = self.sites(model), state.law
        roots = _roots(law.covariance)
        noise = jax.random.normal(key, (len(roots), roots.shape[1], num), roots.dtype)
        inside = np.zeros(sites.window.shape, bool)
        inside[sites.block, sites.place] = True

        def fill(away, row):
            window, before, inside, root, noise = row
            old = away[window]
            whole = root + jnp.diag((jnp.diagonal(root) == 0.0).astype(root.dtype))
            z = solve_triangular(whole, old, lower=True)
            z = jnp.where(jnp.arange(len(window))[:, None] < before, z, noise)
            return away.at[window].set(jnp.where(inside[:, None], root @ z, old)), None

        away = jnp.zeros((model.dim_state, num), roots.dtype)
        rows = (jnp.asarray(sites.window), jnp.asarray(sites.before), jnp.asarray(inside))
        away = jax.lax.scan(fill, away, (*rows, roots, noise))[0]
        return law.mean[None] + away.T


def _missed(sites: Neighbours, model: Any) -> float:
    """Share of the effect of a random direction that comes from beyond the radius, f's or y's."""
    if len(sites.window) == 1:
        return 0.0
    mean, scale = model.initial_moments()
    inputs = Inputs(jnp.zeros(model.dim_input), jnp.ones(()))
    along, direction = jax.random.normal(jax.random.key(0), (2, model.dim_state), mean.dtype)
    point = mean + (scale if scale.ndim == 1 else jnp.diagonal(scale)) * along
    y, shares = model.emission_mean(point, inputs), []

    def log_g(x):
        return model.observed_log_prob(x, y, inputs)

    for function in (lambda x: model.transition_mean(x, inputs), jax.grad(log_g)):
        push = jax.linearize(function, point)[1]
        whole = push(direction)
        seen = jnp.einsum("kij,kj->ki", sites.jacobian(push), direction[sites.window])
        norm = jnp.maximum(jnp.linalg.norm(whole), jnp.finfo(whole.dtype).tiny)
        shares.append(float(jnp.linalg.norm(whole - sites.own(seen)) / norm))
    return max(shares)


def _within(sites: Neighbours, scale: Float[Array, "d"] | Float[Array, "d d"]) -> Any:
    """S S' within each window."""
    if scale.ndim == 1:
        return jax.vmap(jnp.diag)((scale**2)[sites.window])
    return covariance_of(scale)[sites.window[:, :, None], sites.window[:, None, :]]


def _roots(covariance: Float[Array, "k w w"]) -> Float[Array, "k w w"]:
    return jax.vmap(root_of)(covariance)


def _predict(sites: Neighbours, model: Any, law: LocalLaw, inputs: Inputs) -> LocalLaw:
    """x_t before y_t."""
    mean, push = jax.linearize(lambda x: model.transition_mean(x, inputs), law.mean)
    jacobian = sites.jacobian(push)
    moved = jacobian @ law.covariance @ jnp.swapaxes(jacobian, 1, 2)
    moved = moved + _within(sites, model.transition_scale(inputs))
    shared = moved[sites.source]
    shared = 0.5 * (shared + jnp.swapaxes(shared, 1, 2))
    # Pieces of several covariances need not be one: then a window keeps its own.
    whole = jnp.all(jnp.isfinite(_roots(jax.lax.stop_gradient(shared))), (1, 2), keepdims=True)
    return LocalLaw(mean, jnp.where(whole, shared, moved))


def _condition(
    sites: Neighbours,
    model: Any,
    prior: LocalLaw,
    y: Float[Array, "dy"],
    inputs: Inputs,
    num_steps: int,
) -> tuple[LocalLaw, Float[Array, ""]]:
    """The law given y_t, and the evidence of y_t; derivatives go through the last step alone."""

    def log_g(x):
        return model.observed_log_prob(x, y, inputs)

    roots = _roots(prior.covariance)
    variance = sites.own(jnp.diagonal(prior.covariance, axis1=1, axis2=2))
    most = REACH * jnp.sqrt(jax.lax.stop_gradient(variance))

    def curved(x):
        slope, push = jax.linearize(jax.grad(log_g), x)
        curvature = -sites.jacobian(push)
        curvature = 0.5 * (curvature + jnp.swapaxes(curvature, 1, 2))
        inner = jnp.einsum("kai,kab,kbj->kij", roots, curvature, roots)
        return slope, curvature, jax.vmap(inverse_spd)(_sound(inner))

    def newton(x):
        slope, curvature, inverse = curved(x)
        away = (x - prior.mean)[sites.window]
        pull = slope[sites.window] + jnp.einsum("kij,kj->ki", curvature, away)
        z = jnp.einsum("kij,kaj,ka->ki", inverse, roots, pull)
        new = prior.mean + sites.own(jnp.einsum("kij,kj->ki", roots, z))
        return x + jnp.clip(new - x, -most, most), z

    def towards(_, x):
        return newton(x)[0]

    near = jax.lax.fori_loop(0, num_steps - 1, towards, jax.lax.stop_gradient(prior.mean))
    x, z = newton(jax.lax.stop_gradient(near))
    half = jnp.linalg.cholesky(curved(x)[2])
    volume = jnp.log(jnp.diagonal(half, axis1=1, axis2=2))
    root = roots @ half
    posterior = LocalLaw(x, root @ jnp.swapaxes(root, 1, 2))
    return posterior, log_g(x) + jnp.sum(sites.own(volume - 0.5 * z**2))


def _sound(information: Float[Array, "k w w"]) -> Float[Array, "k w w"]:
    """I plus the information, held within bounds where a likelihood is not log-concave."""
    eye = jnp.eye(information.shape[1], dtype=information.dtype)
    matrix = eye[None] + information
    fixed = jax.lax.stop_gradient(matrix)
    most = jnp.max(jnp.trace(fixed, axis1=1, axis2=2)) * jnp.finfo(matrix.dtype).eps
    inside = jnp.all(jnp.isfinite(jnp.linalg.cholesky(fixed - LEAST * eye[None]))) & (most <= 0.1)
    return matrix + (jax.lax.cond(inside, lambda m: m, jax.vmap(bounded), fixed) - fixed)
