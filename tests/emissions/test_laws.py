"""Laws of counts and shares against SciPy; probabilities of cells sum to one."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from rmcvi.contract import Prediction
from rmcvi.learners.emissions.expert import Foreseen
from rmcvi.learners.emissions.mixing import Grid, Mixing
from rmcvi.models import NegativeBinomial, Poisson, Share

ETA, HALF = 1.3, jnp.asarray(0.5)
COUNTS = np.arange(60.0)
MEAN = np.exp(ETA)
LAWS = {
    "poisson": (Poisson(), stats.poisson(MEAN)),
    "negative-binomial": (NegativeBinomial(2.0), stats.nbinom(2.0, 2.0 / (2.0 + MEAN))),
}


@pytest.mark.parametrize("name", LAWS)
def test_counts_are_those_of_scipy(name):
    law, theirs = LAWS[name]
    ours = law.log_prob(jnp.asarray(COUNTS), jnp.asarray(ETA), HALF)
    np.testing.assert_allclose(ours, theirs.logpmf(COUNTS), rtol=1e-9)
    np.testing.assert_allclose(law.mean(jnp.asarray(ETA)), theirs.mean(), rtol=1e-12)
    np.testing.assert_allclose(law.deviation(jnp.asarray(ETA)), theirs.std(), rtol=1e-12)


@pytest.mark.parametrize("name", LAWS)
def test_ladders_of_counts_have_their_tails_and_quantiles(name):
    law, theirs = LAWS[name]
    ladder = law.ladder(jnp.asarray([ETA, ETA]), jnp.asarray([0.3, 0.7]))
    for count in (0.0, 1.0, 7.0):
        below, above = ladder.tails(jnp.asarray(count))
        np.testing.assert_allclose(below, theirs.cdf(count), atol=1e-8)
        np.testing.assert_allclose(above, theirs.sf(count - 1.0), atol=1e-8)
    for tail in (0.02, 0.05, 0.5, 0.95, 0.98):
        assert law.quantile(ladder, tail) == theirs.ppf(tail)


def test_a_ladder_of_large_counts_has_wider_steps():
    law, theirs = Poisson(), stats.poisson(40_000.0)
    ladder = law.ladder(jnp.log(jnp.asarray([40_000.0])), jnp.ones(1))
    low, high = (float(law.quantile(ladder, p)) for p in (0.05, 0.95))
    assert abs(low - theirs.ppf(0.05)) < 30.0 and abs(high - theirs.ppf(0.95)) < 30.0


@pytest.mark.parametrize("eta", [-6.0, 0.2, 3.0])
def test_the_cells_of_a_share_have_all_of_its_law(eta):
    law, half = Share(0.4), jnp.asarray(0.005)
    cells = np.round(np.arange(101) / 100.0, 2)
    mass = np.exp(np.asarray(law.log_prob(jnp.asarray(cells), jnp.asarray(eta), half)))
    edges = np.concatenate([[-np.inf], np.log((e := cells[:-1] + 0.005) / (1.0 - e)), [np.inf]])
    np.testing.assert_allclose(mass, np.diff(stats.logistic(eta, 0.4).cdf(edges)), atol=1e-12)
    draws = 1.0 / (1.0 + np.exp(-stats.logistic(eta, 0.4).ppf((np.arange(4000) + 0.5) / 4000)))
    assert abs(float(law.mean(jnp.asarray(eta))) - draws.mean()) < 2e-3
    ladder = law.ladder(jnp.asarray([eta]), jnp.ones(1))
    for p in (0.05, 0.5, 0.95):
        assert abs(float(law.quantile(ladder, p)) - np.quantile(draws, p)) < 5e-3


@pytest.mark.parametrize("kind", ["counts", "share"])
@pytest.mark.parametrize("width", [0.0, 3.0])
def test_the_closed_form_has_one_probability_for_all_cells(kind, width):
    counts = kind == "counts"
    cells, half, high = (COUNTS, 0.5, np.inf) if counts else (np.arange(21.0) / 20.0, 0.025, 1.0)
    size = len(cells)
    full = jnp.ones(size)
    grid = Grid(0.0 * full, high * full, half * full, whole=counts)
    middle = 2.3 if counts else 0.93
    prediction = Prediction(
        middle * full, (middle - width) * full, (middle + 2.0 * width) * full, full[0], full
    )
    told = grid.foreseen(prediction, jnp.arange(size), jnp.asarray(cells), 0.9)
    missing = 2e-6 if counts else 1e-12  # counts beyond those that are summed
    assert abs(float(jnp.sum(jnp.exp(told.log_mass))) - 1.0) < missing


def test_bands_are_possible_values():
    one = jnp.ones(3)
    counts = Grid(0.0 * one, jnp.inf * one, 0.5 * one, whole=True)
    mean, low, high = counts.snap(
        jnp.asarray([0.2, -3.0, 7.4]), jnp.asarray([-1.0, -5.0, 2.9]), jnp.asarray([0.0, -4.0, 9.1])
    )
    np.testing.assert_array_equal(low, [0.0, 0.0, 3.0])
    np.testing.assert_array_equal(high, [1.0, 0.0, 9.0])
    np.testing.assert_array_equal(mean, [0.2, 0.0, 7.4])
    shares = Grid(0.0 * one, 100.0 * one, 0.5 * one, whole=False)
    told = shares.snap(120.0 * one, -one, 130.0 * one)
    np.testing.assert_array_equal(jnp.stack(told), [[100.0] * 3, [0.0] * 3, [100.0] * 3])


def _foreseen(mean: float, log_mass: float) -> Foreseen:
    return Foreseen(*(jnp.asarray([v]) for v in (mean, mean - 2.0, mean + 2.0, log_mass, 0.5)))


@pytest.mark.parametrize("better", [True, False])
def test_whoever_predicts_better_leads(better):
    """By probability in the band, by squares in the mean; and comes back when it is better."""
    rng, mixing = np.random.default_rng(0), Mixing.unknown(1)
    grid = Grid(jnp.zeros(1), jnp.full(1, jnp.inf), jnp.full(1, 0.5), whole=True)
    good, bad = _foreseen(10.0, -2.0), _foreseen(14.0, -2.5)
    closed, particles = (bad, good) if better else (good, bad)
    for y in rng.poisson(10.0, 300):
        mixing = mixing.learn(jnp.asarray([float(y)]), closed, particles)
    told = mixing.mixed(grid, closed, particles)
    assert abs(float(told.mean[0]) - 10.0) < 0.5
    assert float(told.low[0]) == 8.0 and float(told.high[0]) == 12.0
    assert float(told.log_mass[0]) > -2.01
    absurd = mixing.learn(jnp.asarray([1e6]), closed, particles)
    assert abs(float(absurd.share[0] - mixing.share[0])) < 0.3
    unseen = mixing.learn(jnp.asarray([jnp.nan]), closed, particles)
    assert unseen.lead[0] == mixing.lead[0] and unseen.count[0] == mixing.count[0]
