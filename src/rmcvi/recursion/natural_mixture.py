"""A mixture of Gaussians, for posteriors with several modes: each component as in `natural_full`.

q_{t-1} = sum_k w_k N(m_k, B_k B_k'). A component is cut into narrower ones before f moves it, if f
is not linear over it, and again before y_t is taken in, if its posterior is not Gaussian
(`mixture_law`). Every piece is predicted, fitted and moment-matched on its own, its evidence Z_c
gives its new weight,

    w_c <- w_c Z_c / sum w Z,    gradient = sum_c w_c (d log w_c + E_c[dh]),

and pieces join until as many are left as there were components (docs/theory/natural.md).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, Key, PyTree

from rmcvi.contract import Gradients, Info, Step, Trainable
from rmcvi.core import tree
from rmcvi.core.compensated import CompensatedSum
from rmcvi.core.gaussian import whitened_normal
from rmcvi.core.observation import Observation
from rmcvi.families import LinearGaussianFamily
from rmcvi.families.kalman import Moments
from rmcvi.recursion.gaussian_fit import Fit, ascend, inside
from rmcvi.recursion.gaussian_law import Law, Prediction, initial_law
from rmcvi.recursion.gaussian_match import Match
from rmcvi.recursion.mixture_cut import Cut, cut_law, cut_prediction, pieces
from rmcvi.recursion.mixture_law import Mixture
from rmcvi.recursion.natural_full import Row
from rmcvi.recursion.settings import NaturalSettings


class MixtureState(eqx.Module):
    """What the next step needs, and E[x_{t-1} | y_{0:t}]."""

    t: Int[Array, ""]
    mixture: Mixture
    tangents: Mixture
    """Its derivative in each parameter."""
    elbo: CompensatedSum
    smoothed: Float[Array, "dx"]

    @property
    def carry(self) -> Moments:
        """Moments of q_t, or of x_0 before any row."""
        return self.mixture.moments(self.t == 0)

    def draw(
        self, family: LinearGaussianFamily, key: Key[Array, ""], num: int
    ) -> Float[Array, "{num} dx"]:
        """Draws from q_t."""
        del family
        return self.mixture.draw(key, num)


class Cuts(eqx.Module):
    """Both cuts of every component; they hold still where parameters are differentiated."""

    before: Cut
    after: Cut

    def predictions(
        self, row: Row, model: Any, mixture: Mixture
    ) -> tuple[Float[Array, "c"], Prediction]:
        """Of every piece, and its weight."""
        weight, prior = _moved(row, model, mixture, self.before)
        share, prior = jax.vmap(Cut.prediction)(self.after, prior)
        return (weight[:, None] * share).reshape(-1), _flat(prior)


def _moved(
    row: Row, model: Any, mixture: Mixture, cut: Cut
) -> tuple[Float[Array, "c"], Prediction]:
    """Weights and predictions of the pieces that f moves."""
    share, mean, root = jax.vmap(pieces)(mixture.law.mean, mixture.law.root, cut)
    prior = jax.vmap(lambda v: row.predict(model, v))(_flat(Law(mean, root)))
    return (mixture.weight[:, None] * share).reshape(-1), prior


class Pieces(eqx.Module):
    """Every piece after y_t: where it came from, its fit, its evidence, its weight."""

    prior: Prediction
    match: Match
    log_evidence: Float[Array, "c"]
    bound: Float[Array, ""]
    """Lower bound of the evidence of y_t under the mixture predicted."""
    posterior: Mixture


def init(settings: NaturalSettings, model: Any, trained: Any) -> MixtureState:
    """The state before the first observation; `trained` picks the parameters."""
    theta, rest = eqx.partition(model, trained)
    flat, unravel = ravel_pytree(theta)

    def start(v):
        return Mixture.copies(initial_law(eqx.combine(unravel(v), rest)), settings.components)

    slopes = jax.jacfwd(start)(flat)
    return MixtureState(
        t=jnp.zeros((), int),
        mixture=start(flat),
        tangents=jax.tree.map(lambda v: jnp.moveaxis(v, -1, 0), slopes),
        elbo=CompensatedSum.zeros(),
        smoothed=initial_law(model).mean,
    )


def step(
    settings: NaturalSettings,
    state: MixtureState,
    model: Any,
    family: LinearGaussianFamily,
    observed: Observation,
    key: Key[Array, ""],
    trainable: Trainable,
) -> Step:
    """Cut, predict, fit every piece to y_t, join, then move the derivatives on."""
    k_outer, k_inner = jax.random.split(key)
    noise = whitened_normal(k_outer, settings.num_particles, model.dim_state)
    row = Row(observed, noise, whitened_normal(k_inner, settings.num_inner, model.dim_state))
    cuts = _cuts(settings, row, model.untilted, state.mixture)
    found = _pieces(settings, row, model.untilted, state.mixture, cuts)
    joins = found.posterior.joins(settings.components)
    gradient, tangents = _derivatives(state, (model, trainable), row, cuts, found, joins)
    mixture = found.posterior.joined(*joins)
    sound = tree.all_finite((mixture, found.bound, gradient, tangents))
    back = jax.vmap(lambda prior, z: prior.before + prior.gain @ z.mean)
    moved = MixtureState(
        t=state.t + 1,
        mixture=mixture,
        tangents=tangents,
        elbo=state.elbo.add(found.bound),
        smoothed=found.posterior.weight @ back(found.prior, found.match),
    )
    stood = eqx.tree_at(lambda s: s.t, state, state.t + 1)
    new = tree.where(sound, moved, stood)
    ess = found.posterior.weight @ jax.vmap(lambda v: v.fit.ess)(found.match)
    info = Info.plain(new.elbo.value, jnp.where(sound, found.bound, 0.0), sound, ess)
    gradient = tree.where(sound, gradient, tree.zeros(gradient))
    return Step(new, Gradients(gradient, eqx.filter(family, False)), info)


def _cuts(settings: NaturalSettings, row: Row, model: Any, mixture: Mixture) -> Cuts:
    """How every component is cut before f moves it, and every piece before it sees y_t."""
    first, inputs = row.observed.first, row.observed.inputs
    before = jax.vmap(lambda law: cut_law(model, law, row.noise, inputs, ~first))(mixture.law)
    prior = _moved(row, model, mixture, before)[1]

    def cut(prior):
        def target(z):
            return row.target(model, prior, z)

        log_g = row.log_likelihoods(model, prior)
        return cut_prediction(log_g, _fit(settings, target, row.noise))

    return Cuts(before, jax.vmap(cut)(prior))


def _fit(settings: NaturalSettings, target: Any, noise: Float[Array, "n dx"]) -> Fit:
    return ascend(target, noise, settings.num_steps, settings.rate or 1.0)


def _pieces(
    settings: NaturalSettings, row: Row, model: Any, mixture: Mixture, cuts: Cuts
) -> Pieces:
    """Every piece, fitted to y_t and weighed."""
    weight, prior = cuts.predictions(row, model, mixture)

    def fitted(prior):
        fit = _fit(settings, lambda z: row.target(model, prior, z), row.noise)
        return Match.of(fit, row.log_likelihoods(model, prior), settings.corrected)

    match = jax.vmap(fitted)(prior)
    elbo = jax.vmap(lambda v: v.fit.elbo)(match)
    log_z = jax.vmap(lambda v: v.log_evidence)(match) if settings.corrected else elbo
    total = jax.nn.logsumexp(log_z, b=weight)
    posterior = Mixture(
        weight * jnp.exp(log_z - total), jax.vmap(Prediction.posterior)(prior, match)
    )
    bound = jax.nn.logsumexp(elbo, b=weight)
    return Pieces(prior, match, log_z - total, bound, posterior)


def _derivatives(
    state: MixtureState,
    learned: tuple[Any, Trainable],
    row: Row,
    cuts: Cuts,
    found: Pieces,
    joins: tuple[Array, Array],
) -> tuple[PyTree, Mixture]:
    """Gradient in theta of the evidence of y_t, and the derivatives of q_t.

    Args:
        state: has those of q_{t-1}.
        learned: the model, and which of its leaves.
        row: y_t and the noise.
        cuts: of components.
        found: every piece after y_t.
        joins: which of them become one.
    """
    model, trainable = learned
    theta, rest = eqx.partition(model, trainable.model)
    flat, unravel = ravel_pytree(theta)
    tilted = model.untilted is not model

    def at_particles(flat, mixture):
        current = eqx.combine(unravel(flat), rest)
        weight, moved = cuts.predictions(row, current, mixture)

        def piece(moved, prior, z):
            def h(z):
                value = row.target(current, moved, z)
                return value + row.tilt(current, prior, z) if tilted else value

            values, slopes = inside(*jax.vmap(jax.value_and_grad(h))(z))
            others = inside(jax.vmap(h)(row.noise), jnp.zeros_like(slopes))[0]
            return jnp.concatenate([values, others]), slopes

        values, slopes = jax.vmap(piece)(moved, found.prior, found.match.fit.z)
        return weight, values, slopes, Law(moved.mean, moved.root)

    now, posterior = found.match, found.posterior

    def along(direction, tangent):
        primals, tangents = (flat, state.mixture), (direction, tangent)
        weight, values, slopes, moved = jax.jvp(at_particles, primals, tangents)[1]
        weight = weight * jnp.exp(found.log_evidence)
        weight = weight + posterior.weight * jnp.sum(now.weights * values, 1)
        total = jnp.sum(weight)
        law = jax.vmap(Prediction.posterior_tangent)(found.prior, now, moved, values, slopes)
        change = Mixture(weight - posterior.weight * total, law)
        return total, jax.jvp(lambda v: v.joined(*joins), (posterior,), (change,))[1]

    directions = jnp.eye(flat.size, dtype=flat.dtype)
    gradient, tangents = jax.vmap(along)(directions, state.tangents)
    return unravel(gradient), tangents


def _flat(values: PyTree) -> PyTree:
    """Pieces of all components in one row."""
    return jax.tree.map(lambda v: v.reshape(-1, *v.shape[2:]), values)
