"""The value recursion: h_t at the particles, and the coefficients that both gradients share.

H_i = sum_j w_ij (H_j + log m(x_j, x_i)) + log g(x_i, y_t) + Entropy(q_{t-1|t}(x_i, .))
c_i = sum_j w_ij T(x_j) (f_ij - f_i),   f_ij = H_j + log m(x_j, x_i)
k   = Cov over particles of T(x_i) and H_i

The entropy may instead be averaged with the weights and enter f: -log q_{t-1|t} with its closed
normaliser ("sampled", as printed), or with the particles' own normaliser ("empirical": collapsing
the weights then costs up to log N, so that it cannot be fooled; docs/theory/recursion.md).
Statistics T are taken relative to the particles' mean, so that float32 does not cancel.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from rmcvi.contract import Misfit
from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
from rmcvi.core.observation import Observation
from rmcvi.families import AbstractExponentialFamily, AbstractFamily
from rmcvi.models import AbstractModel
from rmcvi.recursion.backward import AbstractBackward, Tilts
from rmcvi.recursion.blocked import in_blocks
from rmcvi.recursion.cloud import Cloud, Slot, Value
from rmcvi.recursion.weights import AbstractWeights


class Estimator(eqx.Module):
    """The choices behind an estimate of h and of its score coefficients."""

    num_particles: int = eqx.field(static=True)
    backward: AbstractBackward
    entropy: str = eqx.field(static=True)
    control: str = eqx.field(static=True)


def propagate(
    est: Estimator,
    model: AbstractModel,
    family: AbstractFamily,
    before: Cloud,
    carries: tuple[PyTree, PyTree],
    observed: Observation,
    key: Key[Array, ""],
) -> Value:
    """Draw x_t from q_t and move h, c and k one step on.

    Args:
        est: the choices.
        model: p.
        family: q.
        before: particles of t - 1.
        carries: a_{t-1} and a_t.
        observed: y_t and its inputs.
        key: for the draws.
    """
    q, (carry_prev, carry) = family.distribution, carries
    y, inputs, first = observed.y, observed.inputs, observed.first
    k1, k2 = jax.random.split(key)
    eta = family.marginal(carry)
    x = est.backward.draw(k1, q, eta, est.num_particles)
    kernels = _kernels(model, family, before, carry_prev, inputs)
    weights, f_bar, entropies, coefficient = _backward_means(
        est, model, before, kernels, x, inputs, k2
    )
    log_g = jax.vmap(lambda v: model.observed_log_prob(v, y, inputs))(x)
    log_chi = jax.vmap(model.initial_log_prob)(x)
    h = jnp.where(first, log_chi, f_bar + entropies) + log_g
    coefficient = tree.where(first, tree.zeros(coefficient), coefficient)

    origin = jnp.mean(x, 0)
    log_q = jax.vmap(lambda v: q.log_prob(eta, v))(x)
    sampled = est.entropy == "sampled"
    terminal = _terminal(est, q, x, origin, eta, h - log_q if sampled else h)
    entropy = -jnp.mean(log_q) if sampled else q.entropy(eta)
    mean = jnp.mean(h)
    cloud = Cloud(x, h - mean, eta, origin, terminal)
    slot = Slot(weights, coefficient, before.x, x, before.origin, before.terminal)
    return Value(cloud, slot, mean, entropy, Misfit.of(h - log_q))


def _backward_means(
    est: Estimator,
    model: AbstractModel,
    before: Cloud,
    kernels: "Kernels",
    x: Float[Array, "n dx"],
    inputs: Inputs,
    key: Key[Array, ""],
) -> tuple[AbstractWeights, Array, Array, PyTree]:
    """Weights, f_i, closed entropies and c_i; in blocks of rows where the weights are."""

    def means(x):
        weights, f, entropies, means = _pair_terms(est, model, before, kernels, x, inputs, key)
        tilts = kernels.tilts(x)
        eta = jax.vmap(kernels.relative)(x)
        known, rest = est.backward.explain(kernels.distribution, kernels.statistics, eta, f)
        plain = est.backward.plain(tilts, weights)
        coefficient = _coefficient(est, plain, rest, kernels.statistics, means)
        coefficient = tree.add(known, coefficient)
        return weights, weights.expect(f), entropies, coefficient

    backward = est.backward
    if backward.rows_at_once is None:
        return means(x)

    def rows(x):
        weights, *rest = means(x)
        return weights.ess(), rest

    ess, rest = jax.lax.map(rows, in_blocks(x, backward.rows_at_once))
    rest = jax.tree.map(lambda v: v.reshape(-1, *v.shape[2:]), rest)
    return backward.compress(kernels.tilts(x), jnp.mean(ess)), *rest


class Kernels(eqx.Module):
    """The kernels q_{t-1|t}(x, .) as functions of x, relative to the previous particles' mean."""

    distribution: AbstractExponentialFamily
    conditional: Callable[[Array], PyTree]
    """Natural parameter of the kernel of x."""
    proposal: PyTree
    origin: Float[Array, "dx"]
    statistics: PyTree

    def relative(self, x: Float[Array, "dx"]) -> PyTree:
        """The same relative to the origin."""
        return self.distribution.relative(self.conditional(x), self.origin)

    def tilt(self, x: Float[Array, "dx"]) -> PyTree:
        """e: what turns the proposal into the kernel of x."""
        return tree.sub(self.relative(x), self.proposal)

    def tilts(self, x: Float[Array, "n dx"]) -> Tilts:
        """Those of all particles."""
        return Tilts(self.tilt, x, self.statistics, self.relative)


def _kernels(
    model: AbstractModel, family: AbstractFamily, before: Cloud, carry_prev: PyTree, inputs: Inputs
) -> Kernels:
    q, origin, eta_prev = family.distribution, before.origin, family.marginal(carry_prev)

    def conditional(x):
        return tree.add(eta_prev, family.potential(model, carry_prev, x, inputs))

    statistics = relative_statistics(q, before.x, origin)
    return Kernels(q, conditional, q.relative(before.proposal, origin), origin, statistics)


def _pair_terms(
    est: Estimator,
    model: AbstractModel,
    before: Cloud,
    kernels: Kernels,
    x: Float[Array, "n dx"],
    inputs: Inputs,
    key: Key[Array, ""],
) -> tuple[AbstractWeights, Array, Array, PyTree]:
    """Weights, f at the pairs, the closed entropies (0 if sampled) and E T under q_{t-1|t}."""
    q, statistics, proposal = kernels.distribution, kernels.statistics, kernels.proposal
    weights = est.backward.weigh(key, q, kernels.tilts(x))
    f = weights.gather(before.h) + weights.transition(model, before.x, x, inputs)
    if est.entropy == "sampled":

        def log_q(s_j, x_i):
            eta = kernels.relative(x_i)
            return tree.vdot(eta, s_j) - q.log_normaliser(eta)

        f = f - weights.pairs(log_q, statistics, x)
        entropies = jnp.zeros_like(x[:, 0])
    elif est.entropy == "empirical":
        log_prev = jax.vmap(lambda s_j: tree.vdot(proposal, s_j))(statistics)
        log_prev = log_prev - q.log_normaliser(proposal)
        f = f - weights.gather(log_prev) - weights.log_density()
        entropies = jnp.zeros_like(x[:, 0])
    else:
        entropies = jax.vmap(lambda x_i: q.entropy(kernels.conditional(x_i)))(x)
    means = None
    if est.control == "none":
        means = jax.vmap(lambda x_i: q.expectation(kernels.relative(x_i)))(x)
    return weights, f, entropies, means


def _coefficient(
    est: Estimator,
    weights: AbstractWeights,
    f: Float[Array, "n m"],
    statistics: PyTree,
    means: PyTree,
) -> PyTree:
    """c_i, with the control variate asked for (errata A3)."""
    f_bar = weights.expect(f)
    if est.control == "none":
        plain = weights.pairs_average(f, statistics)
        return jax.tree.map(lambda v, m: v - _scale(f_bar, m), plain, means)
    centred = weights.pairs_average(f - f_bar[:, None], statistics)
    if est.control == "in-sample":
        return centred
    return jax.tree.map(lambda v: _scale(weights.correction(), v), centred)


def _terminal(
    est: Estimator,
    q: AbstractExponentialFamily,
    x: Float[Array, "n dx"],
    origin: Float[Array, "dx"],
    eta: PyTree,
    value: Float[Array, "n"],
) -> PyTree:
    """k: the score of q_t, E[(T - E T) value], with the control variate asked for."""
    statistics, num = relative_statistics(q, x, origin), x.shape[0]
    eta = q.relative(eta, origin)
    alone = jax.tree.map(lambda v: v[None], eta)
    known, rest = est.backward.explain(q, statistics, alone, value[None])
    known, value = jax.tree.map(lambda v: v[0], known), rest[0]
    if est.control == "none":
        mean = q.expectation(eta)
        left = jax.tree.map(lambda s, m: jnp.mean(_scale(value, s - m[None]), 0), statistics, mean)
    else:
        weight = (value - jnp.mean(value)) / (num - 1 if est.control == "unbiased" else num)
        left = jax.tree.map(lambda s: jnp.tensordot(weight, s, 1), statistics)
    return tree.add(known, left)


def relative_statistics(
    q: AbstractExponentialFamily, x: Float[Array, "n dx"], origin: Float[Array, "dx"]
) -> PyTree:
    """T(x_i - origin) for all particles."""
    return jax.vmap(lambda v: q.statistic(q.shift(v, origin)))(x)


def _scale(weight: Float[Array, "n"], values: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    return weight.reshape(-1, *(1,) * (values.ndim - 1)) * values
