"""Bootstrap and guided particle filters, online smoothing of additive functionals, and their score.

    x_t^i ~ r(. | x_{t-1}^{a_i}, y_t),  W_t^i proportional to W_{t-1}^{a_i} m g / r,
    log p(y_t | y_{0:t-1}) ~ log sum_i W_{t-1}^{a_i} m g / r,

with systematic resampling when the effective sample size falls below a share of N. The score is an
additive functional (Fisher's identity; Poyiadjis, Doucet and Singh, O(N^2); with M backward draws
the tangent filter of PaRIS):

    a_i = sum_j Lambda_i(j) {a_j + grad log m(x_j, x_i)} + grad log g(x_i, y_t)
    S_t = sum_i W_i a_i,    increment = S_t - S_{t-1}

Only differences between particles matter for what follows, so a is kept centred, and the mean that
is taken out is the increment.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from rmcvi.baselines.cloud import (
    AbstractLinking,
    Cloud,
    Links,
    Paris,
    effective_size,
    normalised,
    resample,
)
from rmcvi.baselines.proposals import PROPOSALS, check_proposal, propose
from rmcvi.contract import AbstractRecursion, Gradients, Info, Step, Trainable
from rmcvi.core import tree
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_instance, check_int, check_option, check_real
from rmcvi.core.compensated import CompensatedSum
from rmcvi.core.observation import Observation
from rmcvi.models import AbstractModel, check_densities


def move_score(
    model: tuple[PyTree, PyTree],
    tangents: PyTree,
    links: Links,
    before: Cloud,
    now: Cloud,
    observed: Observation,
) -> tuple[PyTree, PyTree]:
    """Per-particle gradients after y_t, centred, and the increment of the score.

    Args:
        model: its (trained, rest) partition.
        tangents: the gradients of t - 1.
        links: what each particle now averages over.
        before: particles of t - 1.
        now: particles of t.
        observed: y_t and its inputs.
    """
    (theta, rest), inputs, first = model, observed.inputs, observed.first

    def particle(theta, x_prev, w, x):
        current: AbstractModel = eqx.combine(theta, rest)
        log_m = w @ current.pairwise_log_prob(x_prev, x[None], inputs)[0]
        prior = jnp.where(first, current.initial_log_prob(x), log_m)
        return prior + current.observed_log_prob(x, observed.y, inputs)

    fresh = links.rows(
        lambda x_prev, w, x: jax.grad(particle)(theta, x_prev, w, x), before.x, now.x
    )
    old = links.average(tangents)
    return centred(tree.add(tree.where(first, tree.zeros(old), old), fresh), now)


def move_functional(
    function: Callable,
    forget: float,
    tau: PyTree,
    links: Links,
    before: Cloud,
    now: Cloud,
    first: Bool[Array, ""],
) -> tuple[PyTree, PyTree]:
    """The same for h(x_{t-1}, x_t), which starts at t = 1."""

    def row(x_prev, w, x):
        return jax.tree.map(
            lambda v: jnp.tensordot(w, v, 1), jax.vmap(lambda before: function(before, x))(x_prev)
        )

    old = jax.tree.map(lambda v: forget * v, links.average(tau))
    new = tree.add(old, links.rows(row, before.x, now.x))
    return centred(tree.where(first, tree.zeros(new), new), now)


def centred(values: PyTree, now: Cloud) -> tuple[PyTree, PyTree]:
    """Deviations from the weighted mean, and that mean."""
    w = jnp.exp(now.log_weight)
    mean = jax.tree.map(lambda v: jnp.tensordot(w, v, 1), values)
    return jax.tree.map(lambda v, m: v - m[None], values, mean), mean


class ParticleState(eqx.Module):
    """Particles, the log-likelihood so far, and per-particle statistics (None if not asked for)."""

    t: Int[Array, ""]
    cloud: Cloud
    evidence: CompensatedSum
    tangents: PyTree
    tau: PyTree
    total: PyTree


class Moved(eqx.Module):
    """One filter step: particles, log p(y_t | y_{0:t-1}), ancestors, and whether it is sound."""

    cloud: Cloud
    increment: Float[Array, ""]
    ancestor: Int[Array, "n"]
    resampled: Bool[Array, ""]
    sound: Bool[Array, ""]


class ParticleRecursion(AbstractRecursion):
    """A particle filter; `family` is None and `info.elbo` the log-likelihood estimate.

    `functional`: h(x_{t-1}, x_t) -> pytree, whose running smoothed sum is `info.functional`.
    `gradient`: estimate the score, for recursive maximum likelihood; otherwise gradients are zero.
    `backward` serves both: `Paris(2)` (default) or `AllPairs()`.
    """

    num_particles: int = eqx.field(static=True)
    proposal: str = eqx.field(static=True)
    threshold: float = eqx.field(static=True)
    gradient: bool = eqx.field(static=True)
    functional: Callable | None = eqx.field(static=True)
    forget: float = eqx.field(static=True)
    backward: AbstractLinking

    def __init__(
        self,
        num_particles: int = 1000,
        *,
        proposal: str = "bootstrap",
        threshold: float = 0.5,
        gradient: bool = False,
        functional: Callable | None = None,
        forget: float = 1.0,
        backward: AbstractLinking | None = None,
    ):
        """Choose the effort and what is asked for.

        Args:
            num_particles: N.
            proposal: "bootstrap" or "guided".
            threshold: share of effective particles below which they are resampled.
            gradient: whether the score is estimated.
            functional: h(x_{t-1}, x_t) whose smoothed sum is reported (default: none).
            forget: what is kept of that sum from step to step, in (0, 1].
            backward: how backward expectations are taken (default: two draws, PaRIS).
        """
        self.num_particles = check_int("num_particles", num_particles, 2)
        self.proposal = check_option("proposal", proposal, PROPOSALS)
        self.threshold = check_real("threshold", threshold, 0.0)
        self.gradient = bool(gradient)
        if functional is not None and not callable(functional):
            raise ValueError(f"functional: got {functional!r}, expected a callable of (x_prev, x)")
        self.functional = functional
        self.forget = 1.0 if forget == 1.0 else check_real("forget", forget, 0.0, 1.0)
        self.backward = Paris() if backward is None else backward
        check_instance("backward", self.backward, AbstractLinking)

    def init(self, model, family, trainable=None):
        """The state before the first observation."""
        check_proposal(self.proposal, model)
        check_densities(model)
        cloud = Cloud.empty(self.num_particles, model.dim_state)
        theta = eqx.filter(model, (trainable or Trainable()).model)
        tau = total = None
        if self.functional is not None:
            value = jax.eval_shape(self.functional, cloud.x[0], cloud.x[0])
            tau = tree.zeros(value, self.num_particles)
            total = jax.tree.map(lambda v: CompensatedSum.zeros(*v.shape), value)
        return ParticleState(
            t=jnp.zeros((), int),
            cloud=cloud,
            evidence=CompensatedSum.zeros(),
            tangents=tree.zeros(theta, self.num_particles) if self.gradient else None,
            tau=tau,
            total=total,
        )

    def step(self, state, model, family, y, inputs, key, trainable=None):
        """Move the particles, then the statistics that they carry."""
        check_array("y", y, (model.dim_obs,))
        trainable = trainable or Trainable()
        theta, rest = eqx.partition(model, trainable.model)
        first = state.t == 0
        k1, k2 = jax.random.split(key)
        observed = Observation(y, inputs, first)
        moved = move_cloud(k1, model, state.cloud, observed, self.proposal, self.threshold)
        grads, tangents, tau, total = tree.zeros(theta), state.tangents, state.tau, state.total
        sound = moved.sound
        if tree.has_arrays(tangents) or self.functional is not None:
            links = self.backward.link(k2, model, state.cloud, moved.cloud.x, inputs)
            ends = (links, state.cloud, moved.cloud)
            if tree.has_arrays(tangents):
                tangents, grads = move_score((theta, rest), tangents, *ends, observed)
            if self.functional is not None:
                tau, mean = move_functional(self.functional, self.forget, tau, *ends, first)
                total = jax.tree.map(
                    lambda s, v: s.add(jnp.where(sound, v, 0.0), self.forget),
                    total,
                    mean,
                    is_leaf=_is_sum,
                )
            sound = sound & tree.all_finite((tangents, grads, tau))
            tangents, tau = tree.where(sound, (tangents, tau), (state.tangents, state.tau))
            grads = tree.where(sound, grads, tree.zeros(grads))
        evidence = state.evidence.add(moved.increment)
        new = ParticleState(state.t + 1, moved.cloud, evidence, tangents, tau, total)
        value = jax.tree.map(lambda s: s.value, total, is_leaf=_is_sum)
        ess = effective_size(moved.cloud.log_weight)
        phi = tree.zeros(eqx.filter(family, trainable.family))
        info = Info.plain(evidence.value, moved.increment, sound, ess, value)
        return Step(new, Gradients(grads, phi), info)

    def filtered(self, state, model, family):
        """Weighted moments."""
        return state.cloud.moments()

    def draw(self, state, model, family, key, num):
        """Resampled particles."""
        return state.cloud.draw(key, num)


def move_cloud(
    key: Key[Array, ""],
    model: AbstractModel,
    cloud: Cloud,
    observed: Observation,
    proposal: str,
    threshold: float,
) -> Moved:
    """Resample if need be, propose, weigh; weights that are all zero leave the particles alone.

    Args:
        key: for ancestors and draws.
        model: the state-space model.
        cloud: particles of t - 1.
        observed: y_t and its inputs.
        proposal: "bootstrap" or "guided".
        threshold: share of effective particles below which they are resampled.
    """
    k1, k2 = jax.random.split(key)
    ancestor, log_weight, resampled = resample(k1, cloud.log_weight, threshold)
    x, log_w = propose(proposal, k2, model, cloud.x[ancestor], observed)
    log_weight, increment = normalised(log_weight + log_w)
    sound = jnp.isfinite(increment) & jnp.all(jnp.isfinite(x))
    new = tree.where(sound, Cloud(x, log_weight), cloud)
    ancestor = jnp.where(sound, ancestor, jnp.arange(len(ancestor), dtype=ancestor.dtype))
    return Moved(new, jnp.where(sound, increment, 0.0), ancestor, resampled & sound, sound)


def _is_sum(value: object) -> bool:
    return isinstance(value, CompensatedSum)
