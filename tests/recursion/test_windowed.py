"""The windowed gradient is the forward gradient read backwards, whatever is held in blocks."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import rmcvi
from rmcvi import models
from rmcvi.recursion import blocks
from tests.recursion._runs import FAMILIES, follow, linear_family, linear_model, run, stream

T = 6
SETTINGS: dict[str, Any] = dict(num_particles=4, window=T, bptt=2, negligible=0.0)
"""The window covers the stream; what shares these settings shares its program."""


OPTIONS: dict[str, Any] = {
    "kalman": dict(backward=rmcvi.CalibratedWeights()),
    "tied": dict(entropy="empirical"),
    "recurrent-full": dict(
        control="none", entropy="sampled", bptt=1, backward=rmcvi.SampledIndices(3)
    ),
    "innovation": {},
    "extended-full": dict(backward=rmcvi.AcceptReject(2, max_tries=3)),
}
"""Every family and every choice of weights, entropy and control variate, once."""
QUICK = ("tied", "innovation")
"""Full and diagonal laws; drawn indices and calibrated weights have golden and exact gradients."""


@eqx.filter_jit
def start(recursion: Any, model: Any, family: Any) -> Any:
    """The first state."""
    return recursion.init(model, family)


@eqx.filter_jit
def one_step(recursion: Any, state: Any, model: Any, family: Any, y: Any, t: Any) -> Any:
    """State, flat gradient and info."""
    key = jax.random.fold_in(jax.random.key(0), t)
    state, grads, info = recursion.step(state, model, family, y, rmcvi.Inputs.of(), key)
    return state, ravel_pytree(eqx.filter(grads, eqx.is_array))[0], info


def steps(recursion: Any, ys: Any, times: Any = range(T), state: Any = None) -> Any:
    """As `run` of the innovation family, row by row: one program, whatever the times."""
    model, family = linear_model(), linear_family("innovation")
    state = start(recursion, model, family) if state is None else state
    grads, infos, rows = [], [], np.asarray(ys)
    for t in times:
        state, gradient, info = one_step(recursion, state, model, family, rows[t], np.asarray(t))
        grads.append(gradient)
        infos.append(info)
    return state, np.stack(grads), jax.tree.map(lambda *v: np.stack(v), *infos)


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.long) for n in FAMILIES]
)
def test_windowed_is_forward_when_the_window_covers_the_stream(name: str) -> None:
    """Increments for phi and theta agree to 1e-10, whatever the family and the options."""
    model = linear_model()
    family, ys = linear_family(name), stream(model, T)
    settings = SETTINGS | OPTIONS[name]
    if name == "innovation":
        _, windowed, infos = steps(rmcvi.RMCVI(**settings), ys)
    else:
        _, windowed, infos = run(rmcvi.RMCVI(**settings), model, family, ys)
    _, forward, _ = run(rmcvi.RMCVI(**settings, gradient="forward"), model, family, ys)
    np.testing.assert_allclose(windowed, forward, rtol=1e-10, atol=1e-10)
    assert np.all(np.abs(np.asarray(forward)).max(1) > 0.0)
    np.testing.assert_array_equal(infos.mass_beyond, 0.0)


def test_reuse_sums_the_increments_of_the_window() -> None:
    """(W14): with a window that covers the stream, t + 1 times its gradient is grad L_t."""
    model = linear_model()
    family, ys = linear_family("innovation"), stream(model, T)
    _, increments, _ = steps(rmcvi.RMCVI(**SETTINGS), ys)
    _, reused, _ = run(rmcvi.RMCVI(**SETTINGS, reuse=True), model, family, ys)
    total = np.cumsum(np.asarray(increments), 0) / np.arange(1, T + 1)[:, None]
    np.testing.assert_allclose(reused, total, rtol=1e-9, atol=1e-9)


def test_a_window_lengthened_in_mid_stream_soon_is_the_longer_one() -> None:
    """Values agree at once; gradients once the new window is full."""
    ys = stream(linear_model(), 10)
    _, exact, told = steps(rmcvi.RMCVI(**SETTINGS), ys, range(10))
    settings: dict[str, Any] = SETTINGS | dict(window=3)
    recursion = rmcvi.RMCVI(**settings)
    first, before, _ = steps(recursion, ys, range(4))
    recursion, state = eqx.filter_jit(recursion.lengthen)(first, T)
    state, grads, infos = steps(recursion, ys, range(4, 10), state)
    np.testing.assert_allclose(infos.elbo, told.elbo[4:], rtol=1e-12)
    np.testing.assert_allclose(grads[-1], exact[-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(infos.mass_beyond[-1], told.mass_beyond[-1], rtol=1e-9)
    np.testing.assert_allclose(before[:3], exact[:3], rtol=1e-9, atol=1e-12)
    assert np.all(np.isfinite(grads)) and np.abs(grads[0] - exact[4]).max() > 0.0
    with pytest.raises(ValueError, match="window: got 2"):
        recursion.lengthen(state, 2)


def test_pairs_and_moments_give_the_same_model_gradient() -> None:
    """The moment form of the transition's gradient is the sum over all pairs."""
    model = linear_model()
    family, ys = linear_family("tied"), stream(model, T)
    recursion = rmcvi.RMCVI(**SETTINGS, **OPTIONS["tied"])  # whose program is there already
    _, moments, _ = run(recursion, model, family, ys)
    _, pairs, _ = run(recursion, Plain(model), family, ys)
    np.testing.assert_allclose(moments, pairs, rtol=1e-9, atol=1e-9)


class Plain(models.AbstractModel):
    """A model that forwards everything but is not known to be Gaussian."""

    inner: models.LinearGaussian
    dim_state: int = eqx.field(static=True)
    dim_obs: int = eqx.field(static=True)

    def __init__(self, inner: models.LinearGaussian):
        self.inner = inner
        self.dim_state, self.dim_obs = inner.dim_state, inner.dim_obs

    def initial_log_prob(self, x):
        """As inside."""
        return self.inner.initial_log_prob(x)

    def initial_sample(self, key):
        """As inside."""
        return self.inner.initial_sample(key)

    def transition_log_prob(self, x_prev, x, inputs):
        """As inside."""
        return self.inner.transition_log_prob(x_prev, x, inputs)

    def transition_sample(self, key, x_prev, inputs):
        """As inside."""
        return self.inner.transition_sample(key, x_prev, inputs)

    def emission_log_prob(self, x, y, inputs):
        """As inside."""
        return self.inner.emission_log_prob(x, y, inputs)

    def emission_sample(self, key, x, inputs):
        """As inside."""
        return self.inner.emission_sample(key, x, inputs)

    def __getattr__(self, name):
        """The Kalman family asks for more."""
        return getattr(self.inner, name)


def test_truncation_error_is_what_the_mass_says() -> None:
    """A short window misses much, what is negligible is little, and the mass tells both."""
    model = linear_model()
    family, ys = linear_family("tied"), stream(model, 24)

    def late(window: int, negligible: float) -> tuple[np.ndarray, Any]:
        recursion = rmcvi.RMCVI(30, window=window, bptt=2, negligible=negligible)
        _, grads, infos = run(recursion, model, family, ys)
        return np.asarray(grads)[12:], jax.tree.map(lambda v: np.asarray(v)[12:], infos)

    exact, whole = late(24, 0.0)
    mass = whole.mass.mean(0)
    assert mass[3] > 100 * mass[12] > 0.0
    assert 0.05 < whole.contraction.mean() < 0.8
    short, few = late(3, 0.0)
    cut, some = late(24, 1e-3)
    error = [np.linalg.norm(v - exact) / np.linalg.norm(exact) for v in (short, cut)]
    assert few.mass_beyond.mean() > 10 * some.mass_beyond.max() and some.mass_beyond.max() <= 1e-3
    assert error[0] > 9 * error[1] and 0.0 < error[1] < 1e-3
    assert np.all(some.mass[:, -1] == 0.0)


def test_blocks_of_rows_change_nothing() -> None:
    """Values, gradients and masses agree, with a missing row; entropy's other form is long."""
    rows_in_blocks(linear_model(), "closed")


@pytest.mark.long
def test_blocks_of_rows_change_nothing_without_moments() -> None:
    """Pairs that are not known to be Gaussian, and the empirical entropy."""
    rows_in_blocks(Plain(linear_model()), "empirical")


def rows_in_blocks(model: Any, entropy: str) -> None:
    """Weights two rows at a time, against all of them."""
    family, ys = linear_family("innovation"), stream(linear_model(), T)
    settings: dict[str, Any] = SETTINGS | dict(entropy=entropy)
    whole = rmcvi.RMCVI(**settings)
    known = whole == rmcvi.RMCVI(**SETTINGS)  # a program that is there already
    _, dense, told = steps(whole, ys) if known else run(whole, model, family, ys)
    blocked = rmcvi.RMCVI(**settings, backward=rmcvi.FullWeights(block=2))
    state, grads, infos = run(blocked, model, family, ys)
    np.testing.assert_allclose(grads, dense, rtol=1e-9, atol=1e-10)
    for name in ("elbo", "ess", "mass", "mass_beyond"):
        np.testing.assert_allclose(getattr(infos, name), getattr(told, name), rtol=1e-9, atol=1e-12)
    shapes = [leaf.shape for leaf in jax.tree.leaves(state.memory)]
    assert not any(shape[-2:] == (4, 4) for shape in shapes)


@pytest.mark.parametrize("points", [2, pytest.param(8, marks=pytest.mark.long)])
def test_blocks_of_particles_change_nothing(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a slot (2 of 4 particles) and several slots per block give the one gradient."""
    model = linear_model()
    family, ys = linear_family("innovation"), stream(model, T)
    recursion = rmcvi.RMCVI(**SETTINGS)
    _, whole, _ = steps(recursion, ys)
    monkeypatch.setattr(blocks, "POINTS", points)
    assert blocks.block_shape(T, 4) == ((1, 2) if points == 2 else (2, 1))
    # another function, so that it is traced again, with the new number
    _, cut, _ = eqx.filter_jit(lambda ys: follow(recursion, model, family, ys))(ys)
    np.testing.assert_allclose(cut, whole, rtol=1e-10, atol=1e-10)


def test_blocks_of_particles_are_about_equal() -> None:
    """Never more than asked for, unless a number of particles has no divisor of that size."""
    assert blocks.block_shape(16, 20) == (16, 1)
    assert blocks.block_shape(16, 100) == (4, 1)
    assert blocks.block_shape(16, 500) == (1, 1)
    assert blocks.block_shape(16, 2000) == (1, 4)
    assert blocks.block_shape(16, 2003) == (1, 1)


def test_blocks_that_do_not_fit_are_refused() -> None:
    """At construction, in words."""
    with pytest.raises(ValueError, match="expected a divisor of num_particles = 10"):
        rmcvi.RMCVI(10, backward=rmcvi.FullWeights(block=3))
    with pytest.raises(ValueError, match="gradient='forward'"):
        rmcvi.RMCVI(10, gradient="forward", backward=rmcvi.FullWeights(block=5))
