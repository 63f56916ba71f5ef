"""Particle filters, PaRIS and particle maximum likelihood against Kalman and `particles`."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rmcvi
from rmcvi import Inputs, OnlineEstimator, Trainable
from rmcvi.baselines import AllPairs, Paris, ParticleRecursion, log_evidence, score
from rmcvi.baselines.cloud import Cloud, draw_backward, systematic
from rmcvi.models import AbstractModel, LinearGaussian, StochasticVolatility
from tests.baselines._linear import follow, scalar_case, typical_case, z_score
from tests.reference.kalman import kalman_filter, rts_smoother

RUNS = jax.random.split(jax.random.key(0), 48)
GAP = 3  # where scalar_case has no observation
LINKS = {"all": AllPairs(), "paris": Paris(2)}


def product(x_prev: Any, x: Any) -> Any:
    """A functional whose smoothed sum the Kalman smoother knows."""
    return x_prev[0] * x[0]


@functools.cache
def filter_runs(proposal: str) -> Any:
    """Two states, correlated noises, gaps, inputs, uneven steps."""
    nothing = Trainable(model=False, family=False)
    recursion = ParticleRecursion(400, proposal=proposal)
    return follow(recursion, typical_case(), None, RUNS, nothing)


@functools.cache
def smoothing_runs(name: str) -> Any:
    """The score and a functional, on one state."""
    case = scalar_case()
    recursion = ParticleRecursion(128, gradient=True, functional=product, backward=LINKS[name])
    return follow(recursion, case, None, RUNS, TRANSITION)


TRANSITION = Trainable(model=rmcvi.only(scalar_case().model, lambda m: m.transition))


@pytest.mark.parametrize("proposal", ["bootstrap", "guided"])
def test_evidence_is_unbiased(proposal: str) -> None:
    case = typical_case()
    exact = kalman_filter(case.system, case.ys).log_evidence
    infos = filter_runs(proposal)[0]
    assert z_score(np.exp(np.asarray(infos.elbo) - exact[None]), 1.0) <= 5.0
    assert np.all(infos.result == 0)


@pytest.mark.parametrize("proposal", ["bootstrap", "guided"])
def test_filter_is_kalman(proposal: str) -> None:
    """400 particles, 48 runs: the bias, 1 / N, is below the standard error."""
    case = typical_case()
    exact = kalman_filter(case.system, case.ys)
    laws = filter_runs(proposal)[1]
    assert z_score(laws.mean, exact.mean) <= 5.0
    assert z_score(laws.covariance, exact.cov) <= 5.0


def test_guided_estimates_vary_less() -> None:
    spread = {p: np.std(np.asarray(filter_runs(p)[0].elbo)[:, -1]) for p in ("bootstrap", "guided")}
    assert spread["guided"] < 0.7 * spread["bootstrap"]


@pytest.mark.parametrize("name", LINKS)
def test_functional_is_the_smoothed_sum(name: str) -> None:
    case = scalar_case()
    law = rts_smoother(case.system, kalman_filter(case.system, case.ys))
    exact = np.sum(law.lag_one[1:, 0, 0] + law.mean[:-1, 0] * law.mean[1:, 0])
    assert z_score(smoothing_runs(name)[0].functional[:, -1], exact) <= 5.0


@pytest.mark.parametrize("name", LINKS)
def test_increments_add_up_to_the_score(name: str) -> None:
    case = scalar_case()
    exact = score(case.model, jnp.asarray(case.ys), case.inputs, TRANSITION).transition
    assert z_score(smoothing_runs(name)[2].sum(1), np.asarray(exact)) <= 5.0
    assert abs(exact[0]) > 0.5


@functools.cache
def other_library(num: int, runs: int) -> dict[str, np.ndarray]:
    """Bootstrap evidence and PaRIS of the package `particles`, on the same scalar stream."""
    import particles
    from particles import distributions, state_space_models
    from particles.collectors import Paris as TheirParis

    class Line(state_space_models.StateSpaceModel):
        def PX0(self):
            return distributions.Normal(loc=0.3, scale=0.9)

        def PX(self, t, xp):
            return distributions.Normal(loc=0.8 * xp, scale=0.5)

        def PY(self, t, xp, x):
            return distributions.Normal(loc=0.0 * x if t == GAP else x, scale=0.5)

        def upper_bound_log_pt(self, t):
            return -0.5 * np.log(2.0 * np.pi * 0.25)

        def add_func(self, t, xp, x):
            return np.zeros_like(x) if t == 0 else xp * x

    ys = np.nan_to_num(scalar_case().ys[:, 0])

    def one():
        fk = state_space_models.Bootstrap(ssm=Line(), data=list(ys))
        smc = particles.SMC(fk=fk, N=num, collect=[TheirParis()])
        smc.run()
        return smc.logLt + 0.5 * np.log(2.0 * np.pi * 0.25), vars(smc.summaries)["paris"][-1]

    state = np.random.get_state()
    np.random.seed(0)
    values = np.array([one() for _ in range(runs)])
    np.random.set_state(state)
    return {"evidence": values[:, 0], "paris": values[:, 1]}


@pytest.mark.long
def test_agrees_with_particles() -> None:
    """It knows no missing data: there, y at the gap is a constant that tells nothing."""
    infos = smoothing_runs("paris")[0]
    theirs = other_library(128, 16)
    for ours, name in ((infos.elbo, "evidence"), (infos.functional, "paris")):
        a, b = np.asarray(ours)[:, -1], theirs[name]
        se = np.hypot(a.std(ddof=1) / np.sqrt(len(a)), b.std(ddof=1) / np.sqrt(len(b)))
        assert abs(a.mean() - b.mean()) <= 5.0 * se, name
        assert se < 0.1


class Plain(AbstractModel):
    """A model that does not tell that its noise is Gaussian."""

    line: LinearGaussian
    dim_state: int
    dim_obs: int

    def __init__(self, line: LinearGaussian):
        self.line, self.dim_state, self.dim_obs = line, 1, 1

    def initial_log_prob(self, x):
        return self.line.initial_log_prob(x)

    def initial_sample(self, key):
        return self.line.initial_sample(key)

    def transition_log_prob(self, x_prev, x, inputs):
        return self.line.transition_log_prob(x_prev, x, inputs)

    def transition_sample(self, key, x_prev, inputs):
        return self.line.transition_sample(key, x_prev, inputs)

    def emission_log_prob(self, x, y, inputs):
        return self.line.emission_log_prob(x, y, inputs)

    def emission_sample(self, key, x, inputs):
        return self.line.emission_sample(key, x, inputs)


@pytest.mark.parametrize("way", ["rejection", "fallback", "plain"])
def test_backward_draws_have_the_backward_law(way: str) -> None:
    line = scalar_case().model
    before = Cloud(
        jnp.array([[-1.0], [-0.2], [0.5], [1.1]]), jnp.log(jnp.array([0.4, 0.3, 0.2, 0.1]))
    )
    num, model = 2000, Plain(line) if way == "plain" else line
    tries = 1 if way == "fallback" else 200

    @jax.jit
    def drawn():
        x = jnp.array([[0.3]])
        xs = jnp.tile(x, (num, 1))
        index = draw_backward(jax.random.key(1), model, before, xs, Inputs.of(), tries)
        log_m = line.pairwise_log_prob(before.x, x, Inputs.of())[0]
        return index, jax.nn.softmax(before.log_weight + log_m)

    index, law = map(np.asarray, drawn())
    share = np.bincount(np.asarray(index), minlength=4) / num
    assert np.all(np.abs(share - law) <= 5.0 * np.sqrt(law * (1.0 - law) / num))


def test_systematic_counts_are_the_weights_rounded() -> None:
    w = np.exp(3.0 * np.random.default_rng(0).normal(size=50))
    w /= w.sum()
    index = jax.jit(lambda key, log_w: systematic(key, log_w, 200))(jax.random.key(1), np.log(w))
    count = np.bincount(np.asarray(index), minlength=50)
    assert np.all(np.abs(count - 200 * w) < 1.0)
    assert count.sum() == 200


@pytest.mark.long
def test_particle_maximum_likelihood_finds_the_parameter() -> None:
    """Within five standard errors of the truth, in float32, through the learner."""
    with jax.enable_x64(False):
        truth = LinearGaussian(jnp.array([0.8]), jnp.array([1.0]), 0.5, 0.5)
        ys = rmcvi.simulate(truth, jax.random.key(3), 1500)[1]
        start = LinearGaussian(jnp.array([0.4]), jnp.array([1.0]), 0.5, 0.5)
        learner = OnlineEstimator(
            start, None, ParticleRecursion(64, gradient=True), optax.adam(5e-3), optax.sgd(0.0),
            trainable=Trainable(model=rmcvi.only(start, lambda m: m.transition)),
            draws=5, average_from=750, health=False, drift=False, sensors=False,
        )  # fmt: skip
        state, infos = rmcvi.scan(learner, learner.init(jax.random.key(0)), ys)
        learned: Any = learner.model_at(state, averaged=True)
        assert infos.step.elbo.dtype == jnp.float32
    at = np.array([0.75, 0.8, 0.85])
    curve = [float(log_evidence(line_at(f), jnp.asarray(ys, float))) for f in at]
    information = -np.diff(curve, 2)[0] / 0.05**2
    se = np.sqrt(2.0 / information)
    assert abs(learned.transition[0] - 0.8) <= 5.0 * se
    assert se < 0.05


def line_at(f: float) -> LinearGaussian:
    return LinearGaussian(jnp.array([f]), jnp.array([1.0]), 0.5, 0.5)


def test_nothing_finite_leaves_the_particles_alone() -> None:
    model = StochasticVolatility()
    recursion = ParticleRecursion(8)
    state, step = jax.jit(lambda: recursion.init(model, None))(), jax.jit(recursion.step)
    state, _, _ = step(state, model, None, np.ones(1), Inputs.of(), jax.random.key(0))
    new, grads, info = step(state, model, None, np.full(1, 1e300), Inputs.of(), jax.random.key(1))
    np.testing.assert_array_equal(new.cloud.x, state.cloud.x)
    assert info.result == rmcvi.Result.NON_FINITE
    assert all(np.all(leaf == 0.0) for leaf in jax.tree.leaves(grads))


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(ValueError, match="proposal: got 'guidd'"):
        ParticleRecursion(10, proposal="guidd")
    with pytest.raises(ValueError, match="model: got Plain, expected AbstractGaussianModel"):
        ParticleRecursion(10, proposal="guided").init(Plain(scalar_case().model), None)
