"""Online variational SMC: its gradient, what its proposal learns, and what theta becomes."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import rmcvi
from rmcvi import Inputs, OnlineEstimator, Trainable
from rmcvi.baselines import OVSMC, ParticleRecursion, ProposalNetwork, log_evidence
from rmcvi.baselines.cloud import Cloud
from rmcvi.baselines.ovsmc import one_step
from rmcvi.core.observation import Observation
from rmcvi.models import LinearGaussian, StochasticVolatility
from tests.baselines._linear import Case, follow, typical_case, z_score
from tests.reference.kalman import LinearSystem, kalman_filter

NOTHING = Trainable(model=False, family=False)
KEYS = jax.random.split(jax.random.key(6), 4000)


def line(f: float) -> LinearGaussian:
    """One state, seen sharply: the bootstrap proposal wastes most particles."""
    return LinearGaussian(jnp.array([f]), jnp.array([1.0]), 0.5, 0.15)


@functools.cache
def new() -> Case:
    """A stream that nothing has learned from."""
    ys = rmcvi.simulate(line(0.8), jax.random.key(4), 40)[1]
    return Case(line(0.8), None, np.asarray(ys), Inputs(jnp.zeros((40, 0)), jnp.ones(40)))


class Learned(NamedTuple):
    model: Any
    proposal: Any
    ys: Any


@functools.cache
def learned() -> Learned:
    """theta and phi learned together from a bad theta and the bootstrap proposal."""
    ys = rmcvi.simulate(line(0.8), jax.random.key(3), 2500)[1]
    start = line(0.3)
    learner = OnlineEstimator(
        start,
        ProposalNetwork(start, key=jax.random.key(1), hidden=8, base="bootstrap"),
        OVSMC(32),
        optax.adam(3e-3),
        optax.adam(1e-2),
        trainable=Trainable(model=rmcvi.only(start, lambda m: m.transition)),
        draws=5,
        average_from=1000,
        health=False,
        drift=False,
        sensors=False,
    )
    state, infos = rmcvi.scan(learner, learner.init(jax.random.key(0)), ys)
    assert np.all(infos.step.result != rmcvi.Result.NON_FINITE)
    model, family = learner.model_at(state, averaged=True), learner.family_at(state)
    return Learned(model, family, ys)


@pytest.mark.long
def test_theta_comes_near_the_maximum_likelihood() -> None:
    """Within five standard errors of the truth, inflated for the incomplete score."""
    got = learned()
    curve = [float(log_evidence(line(f), got.ys)) for f in (0.75, 0.8, 0.85)]
    se = 1.0 / np.sqrt(-np.diff(curve, 2)[0] / 0.05**2)
    assert abs(got.model.transition[0] - 0.8) <= 5.0 * np.sqrt(2500 / 1500) * se
    assert se < 0.03


@functools.cache
def runs(name: str) -> Any:
    """Evidence estimates and mean ess of 32 runs on a new stream, at equal N.

    Resampling at every step (threshold 2) makes the weights, hence ess, those of one step.
    """
    base = ProposalNetwork(new().model, key=jax.random.key(1), hidden=8)
    off = jax.tree.map(lambda v: 0.0 * v if eqx.is_inexact_array(v) else v, base)
    parts: dict[str, Any] = {
        "bootstrap": lambda: (ParticleRecursion(32, threshold=2.0), None),
        "optimal": lambda: (ParticleRecursion(32, proposal="guided", threshold=2.0), None),
        "learned": lambda: (OVSMC(32, threshold=2.0), learned().proposal),
        "off": lambda: (OVSMC(32, threshold=2.0), off),
    }
    recursion, family = parts[name]()
    keys = jax.random.split(jax.random.key(5), 32)
    infos, _, increments = follow(recursion, new(), family, keys, NOTHING)
    assert np.all(np.isfinite(increments))
    return np.asarray(infos.elbo)[:, -1], float(np.mean(infos.ess))


@pytest.mark.long
def test_learned_proposal_beats_bootstrap() -> None:
    """Most of the loss to the exact evidence is gone; the guided proposal is optimal here."""
    exact = float(log_evidence(new().model, jnp.asarray(new().ys)))
    (bootstrap, few), (ours, many), (_, most) = map(runs, ("bootstrap", "learned", "optimal"))
    se = np.hypot(ours.std(ddof=1), bootstrap.std(ddof=1)) / np.sqrt(32)
    assert ours.mean() - bootstrap.mean() > 5.0 * se
    assert exact - ours.mean() < 0.1 * (exact - bootstrap.mean())
    assert few < 0.5 * many
    assert many > 0.7 * most


def test_without_its_network_the_evidence_is_unbiased() -> None:
    """The mean of exp(estimate - log p(y)) is one; the guided base makes it vary little."""
    one, length = np.eye(1), len(new().ys)
    system = LinearSystem.build(0.8 * one, 0.25 * one, one, 0.15**2 * one, np.zeros(1), one, length)
    exact = kalman_filter(system, new().ys).log_evidence[-1]
    estimates = runs("off")[0]
    assert z_score(np.exp(estimates - exact), 1.0) <= 5.0
    assert estimates.std() < 0.5


@pytest.mark.long
def test_guided_base_is_the_guided_filter() -> None:
    """With its network switched off: same weights, hence the same law of the evidence."""
    a, b = runs("off")[0], runs("optimal")[0]
    se = np.hypot(a.std(ddof=1), b.std(ddof=1)) / np.sqrt(32)
    assert abs(a.mean() - b.mean()) <= 5.0 * se
    assert abs(runs("off")[1] / runs("optimal")[1] - 1.0) < 0.05


class OneStep(NamedTuple):
    """The point (theta, phi), how many of its numbers are theta, and two gradients there."""

    flat: Any
    num_theta: int
    objective: Any
    plain: Any
    doubly: Any


@functools.cache
def one_step_case() -> OneStep:
    """Two states, correlated noise, a missing coordinate; a proposal away from its base."""
    case = typical_case()
    proposal = ProposalNetwork(case.model, key=jax.random.key(1), hidden=3)
    proposal = jax.tree.map(lambda v: v + 0.1 if eqx.is_inexact_array(v) else v, proposal)
    x = 0.5 * jax.random.normal(jax.random.key(2), (6, 2))
    log_weight = jax.nn.log_softmax(jax.random.normal(jax.random.key(3), (6,)))
    y, inputs = jnp.asarray(case.ys[0]), jax.tree.map(lambda v: v[0], case.inputs)
    assert np.isnan(y).any()
    theta, rest = eqx.partition(case.model, eqx.is_inexact_array)
    phi, phi_rest = eqx.partition(proposal, eqx.is_inexact_array)
    flat, unravel = ravel_pytree((theta, phi))

    def objective(flat, first, key, doubly):
        theta, phi = unravel(flat)
        model, proposal = eqx.combine(theta, rest), eqx.combine(phi, phi_rest)
        ends = (Cloud(x, log_weight), Observation(y, inputs, first), key)
        return one_step(model, case.model, proposal, *ends, doubly=doubly)[0]

    def gradient(doubly):
        at = jax.grad(lambda v, first, key: objective(v, first, key, doubly))
        return jax.jit(jax.vmap(at, (None, None, 0)))

    value = jax.jit(lambda v, first, key: objective(v, first, key, False))
    num_theta = ravel_pytree(theta)[0].size
    return OneStep(flat, num_theta, value, gradient(False), gradient(True))


@pytest.mark.parametrize("first", [False, True])
def test_gradient_is_the_slope_of_the_objective(first: bool) -> None:
    """Common random numbers, the proposal's copy of the model held; three random directions."""
    case, now, step = one_step_case(), jnp.asarray(first), 1e-6
    slopes = case.plain(case.flat, now, KEYS)
    for key, slope in zip(KEYS[:3], slopes, strict=False):
        way = jax.random.normal(key, case.flat.shape)
        up, down = (case.objective(case.flat + s * way, now, key) for s in (step, -step))
        np.testing.assert_allclose((up - down) / (2 * step), slope @ way, rtol=1e-5, atol=1e-7)


def test_doubly_reparametrised_gradient_has_the_same_mean() -> None:
    """In theta they are the same number; in phi they differ by noise."""
    case = one_step_case()
    a, b = (g(case.flat, jnp.asarray(False), KEYS) for g in (case.plain, case.doubly))
    theta = slice(case.num_theta)
    np.testing.assert_allclose(a[:, theta], b[:, theta], rtol=1e-9, atol=1e-11)
    assert z_score((a - b)[:, case.num_theta :], 0.0) <= 5.0
    assert z_score(a[:, case.num_theta :], 0.0) > 10.0


def test_wrong_calls_are_refused() -> None:
    model = StochasticVolatility()
    with pytest.raises(ValueError, match="family: got NoneType, expected ProposalNetwork"):
        OVSMC(10).init(model, None)
    with pytest.raises(ValueError, match="base: got 'guidd'"):
        ProposalNetwork(model, key=jax.random.key(0), base="guidd")
