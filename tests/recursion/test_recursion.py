"""What the recursion promises besides its gradient."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rmcvi
from rmcvi import families, models
from rmcvi.core import tree
from rmcvi.recursion.backward import Tilts
from rmcvi.recursion.weights import DenseWeights
from tests.recursion._runs import linear_family, linear_model, run, stream

SMALL, TIED = (
    rmcvi.RMCVI(num_particles=5, window=4, bptt=2, entropy="sampled"),
    families.LinearGaussianFamily(),
)
"""Tests that `run` these two with `linear_model` over six rows share one program."""


def some_tilts(num: int = 12) -> tuple[families.DiagonalGaussian, Tilts]:
    """Tilts of a diagonal Gaussian with positive precision."""
    q = families.DiagonalGaussian()
    x_prev, x = jnp.asarray(np.random.default_rng(0).normal(size=(2, num, 2)))
    statistics = jax.vmap(q.statistic)(x_prev)
    return q, tilts_of([0.5, 1.0], x, statistics)


def tilts_of(precision: list[float], x: jax.Array, statistics: Any) -> Tilts:
    """Kernels are tilts of a standard normal law."""

    def tilt(v):
        return families.Natural(v, jnp.array(precision))

    def kernel(v):
        return families.Natural(v, 1.0 + jnp.array(precision))

    return Tilts(tilt, x, statistics, kernel)


@pytest.mark.parametrize(
    "backward",
    [rmcvi.SampledIndices(2), rmcvi.AcceptReject(2, max_tries=1000), rmcvi.AcceptReject(2, 1)],
    ids=["indices", "accept-reject", "fallback"],
)
def test_drawn_indices_are_unbiased(backward: Any) -> None:
    """Frequencies of drawn indices against the full weights, five standard errors."""
    check_frequencies(backward, [0.5, 1.0])


def check_frequencies(backward: Any, precision: list[float], num: int = 1000) -> None:
    """Of indices drawn for tilts of that precision."""

    @jax.jit
    def both(keys):
        q, tilts = some_tilts()
        tilts = tilts_of(precision, tilts.x, tilts.statistics)
        drawn = jax.vmap(lambda k: backward.weigh(k, q, tilts).average(jnp.eye(12)))(keys)
        exact = rmcvi.FullWeights().weigh(keys[0], q, tilts).average(jnp.eye(12))
        return jnp.mean(drawn, 0), exact

    mean, exact = map(np.asarray, both(jax.random.split(jax.random.key(1), num)))
    error = np.sqrt(exact * (1 - exact) / (2 * num))
    np.testing.assert_array_less(np.abs(mean - exact), 5 * error + 1e-12)


def test_accept_reject_falls_back_where_the_weights_are_unbounded() -> None:
    """A negative precision has no supremum: the exact law is used, nothing loops."""
    check_frequencies(rmcvi.AcceptReject(2), [-0.5, 1.0])


def test_adjoint_of_average_is_push() -> None:
    """<W v, d> = <v, W' d> for both representations."""

    @jax.jit
    def products(v, d):
        q, tilts = some_tilts()
        kinds = (rmcvi.FullWeights(), rmcvi.CalibratedWeights(), rmcvi.SampledIndices(3))
        found = [kind.weigh(jax.random.key(4), q, tilts) for kind in kinds]
        return [(tree.vdot(w.average(v), d), tree.vdot(v, w.push(d.T).T)) for w in found]

    for left, right in products(*np.random.default_rng(3).normal(size=(2, 12, 3))):
        np.testing.assert_allclose(left, right, rtol=1e-12)


def test_one_dominant_weight_does_not_inflate_its_correction() -> None:
    """Errata A3: the self-normalisation factor is capped."""
    assert float(DenseWeights(jnp.eye(3)).correction().max()) == pytest.approx(5.0)


@pytest.mark.long
def test_closed_and_sampled_entropy_agree_in_expectation() -> None:
    """Mean ELBO over many runs, five standard errors plus the 1 / N bias."""
    model = linear_model()
    family, ys = linear_family("innovation"), stream(model, 4)

    def elbo(entropy, seed):
        recursion = rmcvi.RMCVI(num_particles=200, window=2, bptt=1, entropy=entropy)
        none = rmcvi.Trainable(model=False, family=False)
        state, total = recursion.init(model, family, none), jnp.zeros(())
        for t in range(4):
            k = jax.random.fold_in(seed, t)
            state, _, info = recursion.step(state, model, family, ys[t], rmcvi.Inputs.of(), k, none)
            total = info.elbo
        return total

    keys = jax.random.split(jax.random.key(0), 300)
    closed = np.asarray(jax.jit(jax.vmap(lambda k: elbo("closed", k)))(keys))
    sampled = np.asarray(jax.jit(jax.vmap(lambda k: elbo("sampled", k)))(keys))
    error = np.sqrt((closed.var() + sampled.var()) / len(keys))
    assert abs(closed.mean() - sampled.mean()) < 5 * error + 0.02


@pytest.mark.long
def test_sampled_entropy_can_be_fooled_and_the_empirical_one_cannot() -> None:
    """Few fixed particles: as printed, the estimated ELBO runs away from every likelihood."""
    model = models.ChaoticRNN(2)
    family = families.PerStepFamily(model, key=jax.random.key(0), hidden=8)
    _, ys = rmcvi.simulate(model, jax.random.key(1), 12)

    def final(entropy):
        recursion = rmcvi.PerStepRMCVI(20, num_steps=60, entropy=entropy)
        state, _, infos = run(recursion, model, family, ys)
        return float(infos.elbo[-1]), float(infos.ess[1:].mean()), state

    fooled, honest = final("sampled"), final("empirical")
    assert fooled[0] > 1e3 and fooled[1] < 2.0
    assert honest[0] < 50.0 and honest[1] > 2.5


def test_float32_statistics_hold_over_1e5_steps() -> None:
    """Errata A9: an exact q gives the log evidence whatever is drawn; that of plain floats."""
    ys = np.random.default_rng(0).normal(size=(100_000, 1)).astype(np.float32)
    with jax.enable_x64(False):
        model = models.LinearGaussian(*(jnp.array([v]) for v in (0.9, 1.0, 0.5, 0.5)))
        recursion = rmcvi.RMCVI(2, window=2, bptt=1, entropy="sampled")
        family, none = (
            families.LinearGaussianFamily(diagonal=True),
            rmcvi.Trainable(model=False, family=False),
        )

        def step(state, y):
            state, _, info = recursion.step(
                state, model, family, y, rmcvi.Inputs.of(), jax.random.key(0), none
            )
            return state, (info.elbo, info.increment)

        total, rows = jax.jit(
            lambda ys: jax.lax.scan(step, recursion.init(model, family, none), ys)[1]
        )(ys)
        assert total.dtype == rows.dtype == jnp.float32
    exact, mean, variance = [], float(model.initial_mean[0]), float(model.initial_scale()[0]) ** 2
    for y in map(float, ys[:, 0]):
        spread = variance + 0.25
        exact.append(-0.5 * (np.log(2 * np.pi * spread) + (y - mean) ** 2 / spread))
        mean, variance = mean + variance / spread * (y - mean), 0.25 * variance / spread
        mean, variance = 0.9 * mean, 0.81 * variance + 0.25
    np.testing.assert_allclose(total[-1], np.sum(exact), rtol=2e-6)
    np.testing.assert_allclose(rows[-100:], exact[-100:], atol=2e-4)


@pytest.mark.long
def test_masked_coordinate_equals_a_model_without_it() -> None:
    """A column that never appears changes nothing: value, gradient of what is left, all finite.

    Long, since test_calibrated.py compares rows with gaps to the Kalman filter's own score.
    """
    full = linear_model()
    cut = models.LinearGaussian(
        full.transition, full.emission[:2], jnp.array([0.5, 0.4]), jnp.array([0.3, 0.5])
    )
    ys = stream(full, 6)
    _, grads, infos = run(SMALL, full, TIED, ys.at[:, 2].set(jnp.nan))
    _, grads_cut, infos_cut = run(SMALL, cut, TIED, ys[:, :2])
    np.testing.assert_allclose(infos.elbo, infos_cut.elbo, rtol=1e-9)
    assert np.all(np.isfinite(grads))
    np.testing.assert_allclose(grads[:, :4], grads_cut[:, :4], rtol=1e-8, atol=1e-10)


def test_nothing_observed_is_sound() -> None:
    """All rows missing: finite everything, the ELBO of an exact family stays at zero."""
    model = linear_model()
    _, grads, infos = run(SMALL, model, TIED, jnp.asarray(np.full((6, 3), np.nan)))
    assert np.all(np.isfinite(grads))
    np.testing.assert_allclose(infos.elbo, 0.0, atol=1e-9)


def test_one_compilation_per_shape() -> None:
    """A step returns the type that it was given, weak types included: all share one trace."""
    model = linear_model()

    def step(state, y, key):
        return SMALL.step(state, model, TIED, y, rmcvi.Inputs.of(), key).state

    def types(state):
        return [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(state)]

    start = jax.eval_shape(lambda: SMALL.init(model, TIED))
    after = jax.eval_shape(step, start, jnp.zeros(3), jax.random.key(0))
    assert jax.tree.structure(start) == jax.tree.structure(after)
    assert types(start) == types(after)


def test_info_reports_bad_numbers() -> None:
    """An infinite observation is a result code, not an exception."""
    ys = stream(linear_model(), 6).at[0, 1].set(jnp.inf)
    _, _, infos = run(SMALL, linear_model(), TIED, ys)
    assert int(infos.result[1]) != rmcvi.Result.NON_FINITE
    assert int(infos.result[0]) == rmcvi.Result.NON_FINITE
    assert "finite" in rmcvi.Result(int(infos.result[0])).message


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (dict(num_particles=1), ["num_particles", "1", "at least 2"]),
        (dict(num_particles=-3), ["num_particles", "-3", "integer"]),
        (dict(window=1), ["window", "1", "at least 2"]),
        (dict(bptt=0), ["bptt", "0"]),
        (dict(gradient="forwards"), ["gradient", "'forwards'", "did you mean 'forward'"]),
        (dict(entropy="close"), ["entropy", "'close'", "'closed'"]),
        (dict(control="yes"), ["control", "'yes'", "'unbiased'"]),
        (dict(backward=rmcvi.SampledIndices(1)), ["backward", "one index", "at least 2"]),
        (
            dict(backward=rmcvi.SampledIndices(2), entropy="empirical"),
            ["entropy", "'empirical'", "FullWeights"],
        ),
    ],
)
def test_wrong_settings_are_named(settings: dict, words: list[str]) -> None:
    """The error names argument, got and expected."""
    with pytest.raises(ValueError) as caught:
        rmcvi.RMCVI(**settings)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_wrong_observations_are_named() -> None:
    """Shape and dtype of y."""
    model, family = linear_model(), families.LinearGaussianFamily()
    recursion = rmcvi.RMCVI(num_particles=3, window=2, bptt=1)
    state = jax.jit(lambda: recursion.init(model, family))()
    for y, word in ((jnp.zeros(2), "(2,)"), (jnp.zeros(3, int), "int")):
        with pytest.raises(ValueError, match="y: got") as caught:
            recursion.step(state, model, family, y, rmcvi.Inputs.of(), jax.random.key(0))
        assert word in str(caught.value)
