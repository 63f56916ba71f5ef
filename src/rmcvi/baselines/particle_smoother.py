"""Whole sequences by particles: the filter, a fixed-lag smoother and backward sampling.

Fixed lag: sum_i W_t^i x_{t-lag}^{a(i)}, a(i) being the ancestor of particle i at t - lag; cheap,
and deaf to what y after t tells about x_{t-lag}. Backward sampling: x_{t-1} ~ Lambda(x_t, .), right
as N grows; it keeps all particles of all steps (T N dx numbers).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.baselines.cloud import Cloud, draw_backward, effective_size, moments, systematic
from rmcvi.baselines.particle import move_cloud
from rmcvi.baselines.proposals import PROPOSALS, check_proposal
from rmcvi.contract import Filtered
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_int, check_option
from rmcvi.core.inputs import Inputs
from rmcvi.core.observation import Observation
from rmcvi.models import AbstractModel

RESAMPLE = 0.5
"""Share of effective particles below which they are resampled: the usual choice."""


class ParticleFiltered(eqx.Module):
    """Moments of x_t given y_{0:t}, the estimate of log p(y_{0:t}), effective sample sizes."""

    mean: Float[Array, "T dx"]
    covariance: Float[Array, "T dx dx"]
    log_evidence: Float[Array, "T"]
    ess: Float[Array, "T"]


def particle_filter(
    model: AbstractModel,
    ys: Float[Array, "T dy"],
    inputs: Inputs | None = None,
    *,
    key: Key[Array, ""],
    num_particles: int = 1000,
    proposal: str = "bootstrap",
) -> ParticleFiltered:
    """Filter a whole sequence.

    Args:
        model: the state-space model.
        ys: observations, NaN = not observed.
        inputs: exogenous inputs and step lengths (default: none, usual steps).
        key: for the draws.
        num_particles: N.
        proposal: "bootstrap" or "guided".
    """
    steps = _steps(model, ys, inputs, num_particles, proposal)
    return _filter(model, steps, key, num_particles, proposal)


def fixed_lag_smoother(
    model: AbstractModel,
    ys: Float[Array, "T dy"],
    inputs: Inputs | None = None,
    *,
    key: Key[Array, ""],
    num_particles: int = 1000,
    lag: int = 10,
    proposal: str = "bootstrap",
) -> Filtered:
    """Moments of x_t given y_{0:t+lag} (at the end: all of y); memory O(lag N).

    Args:
        model: the state-space model.
        ys: observations, NaN = not observed.
        inputs: exogenous inputs and step lengths (default: none, usual steps).
        key: for the draws.
        num_particles: N.
        lag: rows of the future that are looked at.
        proposal: "bootstrap" or "guided".
    """
    steps = _steps(model, ys, inputs, num_particles, proposal)
    lag = min(check_int("lag", lag, 0), len(ys) - 1)
    return _fixed_lag(model, steps, key, num_particles, lag, proposal)


def particle_smoother(
    model: AbstractModel,
    ys: Float[Array, "T dy"],
    inputs: Inputs | None = None,
    *,
    key: Key[Array, ""],
    num_particles: int = 1000,
    num_trajectories: int = 100,
    proposal: str = "bootstrap",
) -> Float[Array, "{num_trajectories} T dx"]:
    """Trajectories given all of y, by forward filtering and backward sampling.

    Args:
        model: the state-space model.
        ys: observations, NaN = not observed.
        inputs: exogenous inputs and step lengths (default: none, usual steps).
        key: for the draws.
        num_particles: N.
        num_trajectories: how many are drawn.
        proposal: "bootstrap" or "guided".
    """
    steps = _steps(model, ys, inputs, num_particles, proposal)
    check_int("num_trajectories", num_trajectories)
    return _sample(model, steps, key, num_particles, num_trajectories, proposal)


def _steps(
    model: AbstractModel, ys: Array, inputs: Inputs | None, num_particles: int, proposal: str
) -> tuple[Array, Array, Inputs]:
    check_int("num_particles", num_particles, 2)
    check_proposal(check_option("proposal", proposal, PROPOSALS), model)
    check_array("ys", ys, (None, model.dim_obs))
    return jnp.arange(len(ys)), ys, Inputs.checked(inputs, ys.shape[:1], model.dim_input)


@eqx.filter_jit
def _filter(
    model: AbstractModel,
    steps: tuple[Array, Array, Inputs],
    key: Key[Array, ""],
    num: int,
    proposal: str,
) -> ParticleFiltered:
    def step(cloud, now):
        t, y, inputs = now
        k = jax.random.fold_in(key, t)
        moved = move_cloud(k, model, cloud, Observation(y, inputs, t == 0), proposal, RESAMPLE)
        law, ess = moved.cloud.moments(), effective_size(moved.cloud.log_weight)
        return moved.cloud, (law.mean, law.covariance, moved.increment, ess)

    start = Cloud.empty(num, model.dim_state)
    mean, covariance, increment, ess = jax.lax.scan(step, start, steps)[1]
    return ParticleFiltered(mean, covariance, jnp.cumsum(increment), ess)


@eqx.filter_jit
def _fixed_lag(
    model: AbstractModel,
    steps: tuple[Array, Array, Inputs],
    key: Key[Array, ""],
    num: int,
    lag: int,
    proposal: str,
) -> Filtered:
    size, own = lag + 1, jnp.arange(num, dtype=jnp.int32)

    def law(ring, ancestor, slot, log_weight):
        return moments(ring[slot][ancestor[slot]], log_weight)

    def step(state, now):
        cloud, ring, ancestor = state
        t, y, inputs = now
        k = jax.random.fold_in(key, t)
        moved = move_cloud(k, model, cloud, Observation(y, inputs, t == 0), proposal, RESAMPLE)
        ancestor = jax.lax.cond(
            moved.resampled, lambda: ancestor[:, moved.ancestor], lambda: ancestor
        )
        slot = t % size
        ring, ancestor = ring.at[slot].set(moved.cloud.x), ancestor.at[slot].set(own)
        out = law(ring, ancestor, (t + 1) % size, moved.cloud.log_weight)
        return (moved.cloud, ring, ancestor), out

    cloud = Cloud.empty(num, model.dim_state)
    start = (cloud, jnp.zeros((size, *cloud.x.shape), cloud.x.dtype), jnp.tile(own, (size, 1)))
    (cloud, ring, ancestor), laws = jax.lax.scan(step, start, steps)
    length = len(steps[0])
    rest = (length - lag + jnp.arange(lag)) % size
    tail = jax.vmap(lambda slot: law(ring, ancestor, slot, cloud.log_weight))(rest)
    return jax.tree.map(lambda a, b: jnp.concatenate([a[lag:], b]), laws, tail)


@eqx.filter_jit
def _sample(
    model: AbstractModel,
    steps: tuple[Array, Array, Inputs],
    key: Key[Array, ""],
    num: int,
    num_trajectories: int,
    proposal: str,
) -> Float[Array, "num_trajectories T dx"]:
    k_forward, k_last, k_backward = jax.random.split(key, 3)

    def forward(cloud, now):
        t, y, inputs = now
        k = jax.random.fold_in(k_forward, t)
        moved = move_cloud(k, model, cloud, Observation(y, inputs, t == 0), proposal, RESAMPLE)
        return moved.cloud, moved.cloud

    last, clouds = jax.lax.scan(forward, Cloud.empty(num, model.dim_state), steps)
    ends = last.x[systematic(k_last, last.log_weight, num_trajectories)]

    def backward(x, now):
        before, t, inputs = now
        index = draw_backward(jax.random.fold_in(k_backward, t), model, before, x, inputs)
        return before.x[index], before.x[index]

    before, links = jax.tree.map(lambda v: v[:-1], clouds), jax.tree.map(lambda v: v[1:], steps)
    _, path = jax.lax.scan(backward, ends, (before, links[0], links[2]), reverse=True)
    return jnp.moveaxis(jnp.concatenate([path, ends[None]]), 0, 1)
