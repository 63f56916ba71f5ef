"""Online EM against the Kalman smoother, dynamax, plain NumPy and finite differences."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rmcvi
from rmcvi import Inputs, OnlineEstimator, Trainable
from rmcvi.baselines import KalmanRecursion
from rmcvi.families import LinearGaussianFamily
from rmcvi.models import ChaoticRNN, LinearGaussian, StochasticVolatility
from rmcvi.optim import OnlineEM
from tests.baselines._linear import C, F, G, S, diagonal_case, full_case, typical_case
from tests.reference import kalman as textbook
from tests.reference.online_em import OnlineEM as PlainEM
from tests.reference.online_em import Parameters

ADAM = optax.adam(1e-2)
ALL = Trainable()


def increments(recursion: Any, case: Any, family: Any, key: int = 0) -> Any:
    """Statistics of every row, parameters held; leading axis: time."""
    model, spec = OnlineEM().tilted(case.model, ALL)
    steps = (jnp.arange(len(case.ys)), jnp.asarray(case.ys), case.inputs)

    def step(state, now):
        t, y, inputs = now
        k = jax.random.fold_in(jax.random.key(key), t)
        state, grads, info = recursion.step(state, model, family, y, inputs, k, spec)
        return state, (grads.model.transition, grads.model.emission, info.functional)

    return jax.jit(lambda: jax.lax.scan(step, recursion.init(model, family, spec), steps)[1])()


def smoothed_sums(case: Any) -> tuple[np.ndarray, np.ndarray]:
    """The same sums over a whole sequence from the textbook's smoother, as lists of blocks."""
    law = textbook.rts_smoother(case.system, textbook.kalman_filter(case.system, case.ys))
    u, dt = np.asarray(case.inputs.u), np.asarray(case.inputs.dt)
    moves, emits = 0.0, 0.0
    for t, y in enumerate(case.ys):
        mean = np.concatenate([law.mean[t - 1], law.mean[t]])
        cov = np.block([[law.cov[t - 1], law.lag_one[t]], [law.lag_one[t].T, law.cov[t]]])
        move, emit = linear_parts(
            case.model, mean, np.nan_to_num(y), Inputs(jnp.asarray(u[t]), jnp.asarray(dt[t]))
        )
        if t > 0:
            moves = moves + expected_square(move, cov) / dt[t]
        square = expected_square(emit, law.cov[t])
        seen = ~np.isnan(y).reshape(len(square), -1).any(1)
        emits = emits + np.where(seen[:, None, None], square, 0.0)
    return np.asarray(moves), np.asarray(emits)


@jax.jit
def linear_parts(model: Any, pair: Any, y: Any, inputs: Inputs) -> Any:
    """Value and slope of v at the mean: of the transition, in (x_{t-1}, x_t), and the emission."""
    move, emit, dim = model.linear_transition(), model.linear_emission(), model.dim_state

    def both(function, x):
        return function(x), jax.jacfwd(function)(x)

    return (
        both(lambda b: move.pairs(b[:dim], b[dim:], inputs), pair),
        both(lambda x: emit.pairs(x, y, inputs), pair[dim:]),
    )


def expected_square(linear: tuple[Any, Any], cov: np.ndarray) -> np.ndarray:
    """E[v v'] under N(mean, cov) of a linear v, given by its value at the mean and its slope."""
    at, slope = map(np.asarray, linear)
    return at[:, :, None] * at[:, None] + np.einsum("bki,ij,blj->bkl", slope, cov, slope)


@pytest.mark.parametrize("make", [full_case, diagonal_case])
def test_statistics_are_those_of_the_kalman_smoother(make: Any) -> None:
    """Gaps, inputs, uneven steps; correlated noises and independent ones."""
    case = make()
    move, emit, _ = increments(KalmanRecursion(), case, None)
    moves, emits = smoothed_sums(case)
    np.testing.assert_allclose(move.moments.sum(0), moves, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(emit.moments.sum(0), emits, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(move.count.sum(0), len(case.ys) - 1)


def test_windowed_statistics_are_the_forward_ones_and_those_of_a_functional() -> None:
    """The recursion's own smoothed sum of v v', pair by pair, is another way to the same number."""
    case, family = typical_case(), LinearGaussianFamily()
    model = LinearGaussian(F, G, S, C)
    case = case._replace(model=model, inputs=Inputs.sequence(len(case.ys)))
    part: Any = model.linear_transition()

    def square(x_prev, x):
        v = part.pairs(x_prev, x, Inputs.of())
        return v[:, :, None] * v[:, None]

    windowed = rmcvi.RMCVI(
        8, window=len(case.ys), bptt=1, negligible=0.0, functional=rmcvi.AdditiveFunctional(square)
    )
    back = increments(windowed, case, family)
    np.testing.assert_allclose(np.cumsum(back[0].moments, 0), back[2], rtol=1e-9, atol=1e-10)
    ahead = increments(rmcvi.RMCVI(8, bptt=1, gradient="forward"), case, family)
    for a, b in zip(jax.tree.leaves(ahead[:2]), jax.tree.leaves(back[:2]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.long
def test_natural_steps_carry_statistics_as_tangents() -> None:
    """Nearly exact where its kernel is: independent coordinates, 50 particles (measured: .5 %)."""
    case = diagonal_case(40)
    _, ys = rmcvi.simulate(case.model, jax.random.key(7), 40, case.inputs.u, case.inputs.dt)
    case = case._replace(ys=np.where(np.isnan(case.ys), np.nan, np.asarray(ys)))
    move, emit, _ = increments(rmcvi.NaturalRMCVI(50), case, LinearGaussianFamily(diagonal=True))
    moves, emits = smoothed_sums(case)
    np.testing.assert_allclose(move.moments.sum(0), moves, rtol=0.01)
    np.testing.assert_allclose(emit.moments.sum(0), emits, rtol=0.01)


def learner_of(model: Any, em: OnlineEM | None, **options: Any) -> OnlineEstimator:
    """Exact, and quick to compile."""
    settings = {"draws": 0, "health": False} | options
    return OnlineEstimator(model, None, KalmanRecursion(), ADAM, ADAM, em=em, **settings)


def test_moving_parameters_are_those_of_plain_numpy() -> None:
    """The exact online EM of Cappe, with gaps and a prior that fades."""
    start = Parameters(f=0.5, q=0.5, g=1.4, r=0.3, m0=0.3, p0=0.81)
    plain = PlainEM(start, power=0.6, prior=5.0, warm_up=10)
    model = LinearGaussian(np.array([0.5]), np.array([1.4]), np.sqrt(0.5), np.sqrt(0.3), 0.3, 0.9)
    truth = LinearGaussian(np.array([0.9]), np.array([1.0]), 0.4, 0.5)
    _, ys = rmcvi.simulate(truth, jax.random.key(0), 150)
    ys = ys.at[0].set(jnp.nan).at[60:66].set(jnp.nan)
    learner = learner_of(model, OnlineEM(power=0.6, prior=5.0, warm_up=10))

    def collect(learner, state, info):
        return learner.parameters(state)

    _, path = rmcvi.scan(learner, learner.init(jax.random.key(0)), ys, collect=collect)
    rows = [plain.step(float(y[0])) for y in ys]
    expected = np.array([[v.f, v.q**0.5, v.g, v.r**0.5] for v in rows])
    names = ("transition", "transition_noise", "emission", "emission_noise")
    got = np.concatenate([np.asarray(path[name]) for name in names], 1)
    assert np.abs(expected[-1] - expected[0]).min() > 0.02
    np.testing.assert_allclose(got, expected, rtol=1e-8)


@pytest.mark.long
def test_full_passes_are_the_em_of_dynamax() -> None:
    """Three rounds, each with one M-step at its end; the likelihood grows as it must."""
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    model = LinearGaussian(F, G, S, C)
    _, ys = rmcvi.simulate(model, jax.random.key(1), 40)
    other = LinearGaussianSSM(2, 3, has_dynamics_bias=False, has_emissions_bias=False)
    noise = [
        v @ v.T for v in (model.parameters()[k + "_noise"] for k in ("transition", "emission"))
    ]
    params: Any
    with jax.numpy_rank_promotion("allow"):
        params, props = other.initialize(
            initial_mean=model.initial_mean,
            initial_covariance=jnp.diag(model.initial_scale() ** 2),
            dynamics_weights=model.transition,
            dynamics_covariance=noise[0],
            emission_weights=model.emission,
            emission_covariance=noise[1],
        )
    e_step = jax.jit(other.e_step)
    m_step = jax.jit(lambda params, batch: other.m_step(params, props, batch, None)[0])
    em, evidence = OnlineEM(power=1.0, prior=0.0, every=40), []
    linear = rmcvi.only(
        model,
        lambda m: (m.transition, m.raw_transition_noise, m.emission, m.raw_emission_noise),
    )
    for _ in range(3):
        learner = learner_of(model, em, trainable=Trainable(model=linear))
        state, infos = rmcvi.scan(learner, learner.init(jax.random.key(0)), ys)
        evidence.append(float(infos.elbo[-1]))
        model = learner.model_at(state)
        with jax.numpy_rank_promotion("allow"):
            stats, log_evidence = e_step(params, ys)
            batch = jax.tree.map(lambda v: jnp.asarray(v)[None], stats)
            kept = params.initial
            params = m_step(params, batch)._replace(initial=kept)
        np.testing.assert_allclose(evidence[-1], log_evidence, rtol=1e-8)
        ours = model.parameters()
        np.testing.assert_allclose(ours["transition"], params.dynamics.weights, rtol=1e-6)
        np.testing.assert_allclose(ours["emission"], params.emissions.weights, rtol=1e-6)
        for name, cov in (("transition", params.dynamics.cov), ("emission", params.emissions.cov)):
            factor = ours[name + "_noise"]
            np.testing.assert_allclose(factor @ factor.T, cov, rtol=1e-5, atol=1e-8)
    assert evidence[0] < evidence[1] < evidence[2]


@pytest.mark.parametrize("which", ["chaotic", "volatility"])
def test_regressions_of_known_states_are_least_squares(which: str) -> None:
    """Statistics of a path that is known; NumPy solves the same regression."""
    truth: Any
    if which == "chaotic":
        truth, start = ChaoticRNN(3), ChaoticRNN(3, rho=0.05, gamma=1.5, noise=0.2)
    else:
        truth = StochasticVolatility(2, level=0.4, persistence=0.8, noise=0.5)
        start = StochasticVolatility(2)
    xs, _ = rmcvi.simulate(truth, jax.random.key(2), 4000)
    em = OnlineEM(prior=0.0, warm_up=1)
    state, (tilted, _) = em.init(start, ALL), em.tilted(start, ALL)
    part = start.linear_transition()
    assert part is not None
    v = jax.jit(jax.vmap(lambda a, b: part.pairs(a, b, Inputs.of())))(xs[:-1], xs[1:])
    seen = jax.vmap(lambda v: v[:, :, None] * v[:, None])(v)
    row = eqx.tree_at(
        lambda m: (m.transition.count, m.transition.moments),
        tilted,
        (jnp.ones(v.shape[1]), jnp.mean(seen, 0)),
    )
    share = jax.tree.map(lambda _: jnp.ones(()), eqx.filter(start, eqx.is_inexact_array))
    _, learned = eqx.filter_jit(em.step)(state, start, row, ALL, share)
    x = np.asarray(xs)
    now = learned.parameters()
    if which == "chaotic":
        drift = np.stack([np.tanh(x[:-1]) @ np.asarray(truth.weights).T, -x[:-1]], 2)
        design, rest = 1e-3 * drift.reshape(-1, 2), np.diff(x, axis=0).ravel()
        (c, d), *_ = np.linalg.lstsq(design, rest, rcond=None)
        np.testing.assert_allclose([now["rho"], now["gamma"]], [1 / d, c / d], rtol=1e-8)
        left = (rest - design @ [c, d]).reshape(-1, 3)
        np.testing.assert_allclose(now["noise"], np.sqrt((left**2).mean(0)), rtol=1e-8)
    else:
        for k in range(2):
            design = np.stack([np.ones(len(x) - 1), x[:-1, k]], 1)
            (c, a), *_ = np.linalg.lstsq(design, x[1:, k], rcond=None)
            left = x[1:, k] - design @ [c, a]
            got = [now["level"][k], now["persistence"][k], now["noise"][k]]
            np.testing.assert_allclose(got, [c / (1 - a), a, left.std()], rtol=1e-6)
