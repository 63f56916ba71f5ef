"""Online variational sequential Monte Carlo (Mastrototaro and Olsson, 2024): a learned proposal.

    x^i = T_phi(x_{t-1}^{a_i}, y_t, e^i),   w^i = m_theta g_theta / r_phi,
    increment of the gradient = grad_{theta, phi} log sum_i W_{t-1}^{a_i} w^i,

with particles before, ancestors and e held fixed: stochastic approximation of the one-step
objective. At the true theta its mean in theta vanishes as N grows. That in phi drowns in noise as N
grows, hence two remedies: L fresh ancestors and draws for phi alone (the paper's), or the doubly
reparametrised sum_i Wbar_i^2 d log w^i / dx dx / dphi (Tucker et al., 2019), Wbar normalised.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from rmcvi.baselines.cloud import Cloud, effective_size, normalised, resample, systematic
from rmcvi.baselines.proposals import ProposalNetwork
from rmcvi.contract import AbstractRecursion, Gradients, Info, Step, Trainable
from rmcvi.core import tree
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_instance, check_int, check_real
from rmcvi.core.compensated import CompensatedSum
from rmcvi.core.observation import Observation
from rmcvi.models import AbstractGaussianModel, check_densities


class OVSMCState(eqx.Module):
    """Particles, and the log-likelihood so far."""

    t: Int[Array, ""]
    cloud: Cloud
    evidence: CompensatedSum


class OVSMC(AbstractRecursion):
    """`family` is a `ProposalNetwork`; `info.elbo` is the log-likelihood estimate.

    `num_gradient` = L draws for the gradient in phi, None for the N particles themselves;
    `doubly`: that gradient doubly reparametrised.
    """

    num_particles: int = eqx.field(static=True)
    num_gradient: int | None = eqx.field(static=True)
    doubly: bool = eqx.field(static=True)
    threshold: float = eqx.field(static=True)

    def __init__(
        self,
        num_particles: int = 100,
        *,
        num_gradient: int | None = None,
        doubly: bool = True,
        threshold: float = 0.5,
    ):
        """Choose the effort and the estimator.

        Args:
            num_particles: N.
            num_gradient: L draws for the gradient in phi (default: the particles themselves).
            doubly: whether that gradient is doubly reparametrised.
            threshold: share of effective particles below which they are resampled.
        """
        self.num_particles = check_int("num_particles", num_particles, 2)
        self.num_gradient = num_gradient and check_int("num_gradient", num_gradient)
        self.doubly = bool(doubly)
        self.threshold = check_real("threshold", threshold, 0.0)

    def init(self, model, family, trainable=None):
        """The state before the first observation."""
        check_instance("model", model, AbstractGaussianModel)
        check_instance("family", family, ProposalNetwork)
        check_densities(model)
        cloud = Cloud.empty(self.num_particles, model.dim_state)
        return OVSMCState(jnp.zeros((), int), cloud, CompensatedSum.zeros())

    def step(self, state, model, family, y, inputs, key, trainable=None):
        """Propagate with the current proposal; differentiate the one-step evidence."""
        check_array("y", y, (model.dim_obs,))
        trainable = trainable or Trainable()
        theta, theta_rest = eqx.partition(model, trainable.model)
        phi, phi_rest = eqx.partition(family, trainable.family)
        observed, before = Observation(y, inputs, state.t == 0), state.cloud
        k1, k2, k3, k4 = jax.random.split(key, 4)

        def evidence_of(theta, phi, parents, key):
            learned, proposal = eqx.combine(theta, theta_rest), eqx.combine(phi, phi_rest)
            return one_step(learned, model, proposal, parents, observed, key, doubly=self.doubly)

        ancestor, log_weight, _ = resample(k1, before.log_weight, self.threshold)
        arguments = (theta, phi, Cloud(before.x[ancestor], log_weight), k2)
        if self.num_gradient is None:
            grads, (increment, cloud) = jax.grad(evidence_of, (0, 1), has_aux=True)(*arguments)
        else:
            slope, (increment, cloud) = jax.grad(evidence_of, has_aux=True)(*arguments)
            chosen = systematic(k3, before.log_weight, self.num_gradient)
            equal = jnp.full(self.num_gradient, -math.log(self.num_gradient), log_weight.dtype)
            fresh = (theta, phi, Cloud(before.x[chosen], equal), k4)
            grads = (slope, jax.grad(evidence_of, 1, has_aux=True)(*fresh)[0])
        sound = jnp.isfinite(increment) & tree.all_finite((cloud.x, grads))
        cloud = tree.where(sound, cloud, before)
        grads, increment = tree.where(
            sound, (grads, increment), (tree.zeros(grads), jnp.zeros_like(increment))
        )
        evidence = state.evidence.add(increment)
        ess = effective_size(cloud.log_weight)
        return Step(
            OVSMCState(state.t + 1, cloud, evidence),
            Gradients(*grads),
            Info.plain(evidence.value, increment, sound, ess),
        )

    def variational(self, family):
        """None: its family is a proposal."""
        return None

    def filtered(self, state, model, family):
        """Weighted moments."""
        return state.cloud.moments()

    def draw(self, state, model, family, key, num):
        """Resampled particles."""
        return state.cloud.draw(key, num)


def one_step(
    model: Any,
    frozen: Any,
    proposal: ProposalNetwork,
    parents: Cloud,
    observed: Observation,
    key: Key[Array, ""],
    *,
    doubly: bool = False,
) -> tuple[Float[Array, ""], tuple[Float[Array, ""], Cloud]]:
    """What to differentiate; then log sum_i W_i w_i and the new particles.

    Args:
        model: p.
        frozen: the model as the proposal sees it, a constant.
        proposal: r.
        parents: the ancestors and their weights.
        observed: y_t and its inputs.
        key: for the draws.
        doubly: reparametrise twice; then only the gradient of what is to be differentiated has a
            meaning.
    """
    frozen = jax.lax.stop_gradient(frozen)
    before, y, inputs = parents.x, observed.y, observed.inputs

    def begin() -> PyTree:
        return proposal.start(key, frozen, before.shape[0], y, inputs)

    def go_on() -> PyTree:
        noise = jax.random.normal(key, before.shape, before.dtype)
        return jax.vmap(lambda v, e: proposal.sample(frozen, v, e, y, inputs, doubly))(
            before, noise
        )

    def log_joint(model: Any, x: Float[Array, "n dx"]) -> Float[Array, "n"]:
        def one(x_prev, x):
            prior = jax.lax.cond(
                observed.first,
                lambda: model.initial_log_prob(x),
                lambda: model.transition_log_prob(x_prev, x, inputs),
            )
            return prior + model.observed_log_prob(x, y, inputs)

        return jax.vmap(one)(before, x)

    x, log_r = jax.lax.cond(observed.first, begin, go_on)
    log_w = log_joint(model, x) - log_r
    new_weight, increment = normalised(parents.log_weight + log_w)
    out = jax.lax.stop_gradient((increment, Cloud(x, new_weight)))
    if not doubly:
        return increment, out
    w = jnp.exp(out[1].log_weight)
    in_theta = w @ log_joint(model, out[1].x)
    in_phi = w**2 @ (log_joint(jax.lax.stop_gradient(model), x) - log_r)
    return in_theta + in_phi, out
