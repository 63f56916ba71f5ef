"""NaturalRMCVI with several components: exact where one is, and right where one is not."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import rmcvi
from rmcvi.core.gaussian import log_density
from rmcvi.families.kalman import Moments
from rmcvi.models import zoo
from rmcvi.recursion.gaussian_law import Law, Prediction
from rmcvi.recursion.mixture_cut import WEIGHTS, Cut, pieces
from rmcvi.recursion.mixture_law import Mixture
from tests.recursion._natural import FAMILY, MODELS, compare, follow, stream


@pytest.mark.parametrize("name", [pytest.param("correlated", marks=pytest.mark.long), "integrator"])
def test_on_linear_models_it_is_the_kalman_filter_and_its_score(name: str) -> None:
    """Nothing is cut, and equal components join as they are."""
    model = MODELS[name]()
    ys, inputs = stream(model, 30)
    recursion = rmcvi.NaturalRMCVI(6, num_steps=1, components=3)
    compare(follow(recursion, model, ys, inputs), model, ys, inputs)


@eqx.filter_jit
def whole(law: Law, cut: Cut) -> Moments:
    """Moments of all pieces together."""
    weight, mean, root = pieces(law.mean, law.root, cut)
    return Mixture(weight, Law(mean, root)).moments(jnp.asarray(False))


def test_a_cut_keeps_the_moments() -> None:
    """Mean and covariance in three dimensions; along the cut all moments up to the fifth."""
    rng = np.random.default_rng(0)
    law = Law(jnp.arange(3.0), jnp.asarray(np.tril(rng.normal(size=(3, 3)))))
    points, ones = rng.normal(size=(20, 3)), jnp.ones(20)

    @jax.jit
    def cuts(points, share):
        found = Cut.along(points, points[:, 1] ** 2, share)
        apart = pieces(law.mean, law.root, found)[1] - law.mean[None]
        return whole(law, found), apart, Cut.along(points[:, :1], ones, share), found

    found, apart, one, _ = cuts(points, 1.0)
    np.testing.assert_allclose(found.mean, law.mean, atol=1e-12)
    np.testing.assert_allclose(found.covariance, law.root @ np.asarray(law.root).T, atol=1e-12)
    assert np.max(np.abs(apart)) > 0.5
    centres, width = np.asarray(one.shift)[:, 0], float(one.narrow[0, 0])
    fourth = np.asarray(WEIGHTS) @ (centres**4 + 6.0 * centres**2 * width**2 + 3.0 * width**4)
    np.testing.assert_allclose(fourth, 3.0, rtol=1e-12)
    still = cuts(points, 0.0)[-1]
    np.testing.assert_array_equal(still.narrow, np.eye(3))
    np.testing.assert_array_equal(still.shift, 0.0)


def test_a_cut_keeps_the_derivatives_of_moments() -> None:
    """Of the whole; those of a piece are covariances with the score of the whole law."""
    rng = np.random.default_rng(3)
    law = Law(jnp.arange(2.0), jnp.array([[1.0, 0.0], [0.5, 0.8]]))
    change = Law(jnp.array([0.3, -1.0]), jnp.asarray(np.tril(rng.normal(size=(2, 2)))))
    points = jnp.asarray(rng.normal(size=(9, 2)))

    @jax.jit
    def slopes(law, change):
        cut = Cut.along(points, jnp.arange(9.0), 0.7 * jnp.ones(()))
        found = jax.jvp(lambda v: whole(v, cut), (law,), (change,))[1]
        wanted = jax.jvp(lambda v: v.moments(jnp.asarray(False)), (law,), (change,))[1]
        return found, wanted, jax.jvp(lambda v: pieces(v.mean, v.root, cut), (law,), (change,))

    @jax.jit
    def score_at(points):
        def one(x):
            def density(v):
                return log_density(v.root, (x - v.mean)[None])[0]

            return jax.jvp(density, (law,), (change,))[1]

        return jax.vmap(one)(points)

    found, wanted, pair = slopes(law, change)
    np.testing.assert_allclose(found.mean, wanted.mean, atol=1e-12)
    np.testing.assert_allclose(found.covariance, wanted.covariance, atol=1e-12)
    (weight, mean, root), (d_weight, d_mean, d_root) = jax.tree.map(np.asarray, pair)
    nodes, shares = np.polynomial.hermite_e.hermegauss(5)
    shares = np.outer(shares, shares).ravel() / shares.sum() ** 2
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    for k in range(len(weight)):
        x = mean[k][None] + grid @ root[k].T
        slope = np.asarray(score_at(x))
        away = x - mean[k][None]
        np.testing.assert_allclose(d_weight[k], weight[k] * (shares @ slope), atol=1e-12)
        np.testing.assert_allclose(d_mean[k], (shares * slope) @ away, atol=1e-12)
        spread = d_root[k] @ root[k].T
        square = (away.T * (shares * (slope - shares @ slope))[None]) @ away
        np.testing.assert_allclose(spread + spread.T, square, atol=1e-12)


def test_a_cut_prediction_leads_back_to_the_same_law() -> None:
    rng = np.random.default_rng(0)
    draws, points = rng.normal(size=(5, 2, 2)), rng.normal(size=(9, 2))

    @jax.jit
    def together(draws, points):
        """Moments of x_t and E[x_{t-1} | x_t], by the pieces."""
        prior = Prediction(draws[0, 0], draws[1], draws[2, 0], draws[3], draws[4])
        weight, found = Cut.along(points, jnp.arange(9.0), jnp.ones(())).prediction(prior)
        both = Law(
            jnp.concatenate([found.mean, found.before], 1),
            jnp.concatenate([found.root, found.gain], 1) @ jnp.eye(2, 4)[None],
        )
        return Mixture(weight, both).moments(jnp.asarray(False)), prior

    found, prior = together(draws, points)
    root = np.concatenate([prior.root, prior.gain], 0)
    np.testing.assert_allclose(found.mean, np.concatenate([prior.mean, prior.before]), atol=1e-12)
    np.testing.assert_allclose(found.covariance, root @ root.T, atol=1e-12)


@eqx.filter_jit
def joined(mixture: Mixture, num: int) -> tuple[Mixture, Moments, Moments]:
    """Fewer components, and moments of the whole before and after."""
    few = mixture.joined(*mixture.joins(num))
    return few, mixture.moments(jnp.asarray(False)), few.moments(jnp.asarray(False))


def test_neighbours_join_and_modes_stay() -> None:
    """Moments of the whole stay, twelve become three, and none of them bridges the modes."""
    rng = np.random.default_rng(0)
    mean = 0.1 * rng.normal(size=(12, 1)) + np.repeat([-10.0, 0.0, 10.0], 4)[:, None]
    weight = rng.dirichlet(np.ones(12))
    many = Mixture(jnp.asarray(weight), Law(jnp.asarray(mean), jnp.full((12, 1, 1), 0.5)))
    few, before, after = joined(many, 3)
    np.testing.assert_allclose(np.sort(few.law.mean[:, 0]), [-10.0, 0.0, 10.0], atol=0.2)
    assert float(few.law.root.max()) < 0.6
    np.testing.assert_allclose(after.mean, before.mean, atol=1e-12)
    np.testing.assert_allclose(after.covariance, before.covariance, atol=1e-12)
    one = Law(jnp.ones((12, 1)), jnp.ones((12, 1, 1)))
    same, *_ = joined(Mixture(jnp.full(12, 1 / 12), one), 3)
    np.testing.assert_allclose(same.law.root, np.ones((3, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(np.sum(same.weight), 1.0, atol=1e-12)


GROWTH, ROWS = zoo.Growth(), 150
FOUR = rmcvi.NaturalRMCVI(10, num_steps=2, components=4)


def growth_stream(rows: int = ROWS) -> tuple[Array, Array, rmcvi.Inputs]:
    """States, observations with gaps, and time."""
    inputs = rmcvi.Inputs.sequence(rows, jnp.arange(float(rows))[:, None], dim=1)
    states, ys = rmcvi.simulate(GROWTH, jax.random.key(0), rows, inputs.u)
    return states, ys.at[50:53].set(jnp.nan), inputs


def by_quadrature(model: Any, ys: Array, inputs: rmcvi.Inputs) -> tuple[Array, Array]:
    """Filtered means and log-evidence of each row, on a grid: exact for practical purposes."""
    grid = jnp.linspace(-40.0, 40.0, 241)
    points, width = grid[:, None], grid[1] - grid[0]

    def row(law, row):
        y, inputs, t = row
        move = jnp.exp(model.pairwise_log_prob(points, points, inputs)) * width
        prior = jnp.where(t == 0, law, move @ law)
        seen = jnp.exp(jax.vmap(lambda x: model.observed_log_prob(x, y, inputs))(points))
        total = prior @ seen
        law = prior * seen / total
        return law, (law @ points, jnp.log(total))

    start = jnp.exp(jax.vmap(model.initial_log_prob)(points)) * width
    return jax.lax.scan(row, start, (ys, inputs, jnp.arange(len(ys))))[1]


@jax.jit
def told_by_quadrature(model: Any, ys: Array, inputs: rmcvi.Inputs) -> Any:
    """Means and evidence, and the evidence's slopes row by row."""

    def evidence(model):
        told = by_quadrature(model, ys, inputs)
        return told[1], told

    slopes, told = jax.jacfwd(evidence, has_aux=True)(model)
    return told, slopes


def rms(mean: Any, states: Any) -> float:
    return float(np.sqrt(np.mean((np.asarray(mean) - np.asarray(states)) ** 2)))


def test_two_modes_and_their_score() -> None:
    """The growth model: errors of quadrature within 10 %, its score, and gaps on the way.

    A standard error of the score is the root of its increments' sum of squares.
    """
    states, ys, inputs = growth_stream()
    (exact, evidence), slopes = told_by_quadrature(GROWTH, ys, inputs)
    carry, _, grads, info = follow(FOUR, GROWTH, ys, inputs)
    assert rms(carry.mean, states) < 1.1 * rms(exact, states)
    short = (np.sum(evidence) - info.elbo[-1]) / ROWS
    assert 0.0 < float(short) < 0.1
    for told, slope in zip(jax.tree.leaves(grads), jax.tree.leaves(slopes), strict=True):
        told, slope = np.asarray(told), np.asarray(slope)
        assert abs(told.sum() - slope.sum()) < 0.5 * np.sqrt(np.sum(slope**2))
        assert np.corrcoef(told, slope)[0, 1] > 0.95


@pytest.mark.long
def test_one_gaussian_is_not_enough_and_says_so() -> None:
    states, ys, inputs = growth_stream()
    (exact, _), _ = told_by_quadrature(GROWTH, ys, inputs)
    alone, _, _, single = follow(rmcvi.NaturalRMCVI(25), GROWTH, ys, inputs)
    assert rms(alone.mean, states) > 1.2 * rms(exact, states)
    assert float(jnp.mean(single.misfit.fails)) > 0.3
    assert float(jnp.mean(single.misfit.pareto_k > 0.7)) > 0.2


@pytest.mark.long
def test_a_learner_says_so_and_the_remedy_is_silent() -> None:
    """Two modes: one Gaussian raises the alarm, four do not, and answer all questions."""
    _, ys, inputs = growth_stream(300)  # alarms are silent in the first 200
    nothing = rmcvi.Trainable(model=False, family=False)
    for recursion, said in (
        (rmcvi.NaturalRMCVI(25), True),
        (FOUR, False),
    ):
        learner = rmcvi.OnlineEstimator(GROWTH, FAMILY, recursion, trainable=nothing, trial=False)
        state, history = rmcvi.scan(learner, learner.init(jax.random.key(0)), ys, inputs.u)
        flags = np.asarray(history.alarms) & int(rmcvi.Alarm.FAMILY_MISFIT)
        assert np.any(flags > 0) == said
    ahead = learner.forecast(state, 3, u=jnp.arange(3.0)[:, None])
    past = learner.smooth(state, lag=5)
    assert np.all(np.isfinite(ahead.mean)) and past.mean.shape == (6, 1)


@pytest.mark.long
def test_it_conforms() -> None:
    assert "conforms" in str(rmcvi.checks.recursion(FOUR, GROWTH, FAMILY))


def test_what_goes_with_one_gaussian_only_is_refused() -> None:
    family = rmcvi.families.LinearGaussianFamily(diagonal=True)
    with pytest.raises(ValueError, match="components: got 4 with diagonal=True"):
        rmcvi.NaturalRMCVI(10, components=4).init(GROWTH, family)
