"""The windowed gradient is the forward gradient read backwards."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import rmcvi
from rmcvi import models
from tests.recursion._runs import FAMILIES, linear_family, linear_model, run, stream

T = 6
SETTINGS: dict[str, Any] = dict(num_particles=4, window=T, bptt=2, negligible=0.0)
"""The window covers the stream; what shares these settings shares its program."""


OPTIONS: dict[str, Any] = {
    "kalman": dict(backward=rmcvi.CalibratedWeights()),
    "tied": dict(entropy="empirical"),
    "recurrent-full": dict(control="none", backward=rmcvi.SampledIndices(3)),
    "innovation": {},
    "extended-full": dict(entropy="sampled", bptt=1, backward=rmcvi.AcceptReject(2, max_tries=3)),
}
"""Every family and every choice of weights, entropy and control variate, once."""


@pytest.mark.parametrize("name", FAMILIES)
def test_windowed_is_forward_when_the_window_covers_the_stream(name: str) -> None:
    """Increments for phi and theta agree to 1e-10, whatever the family and the options."""
    model = linear_model()
    family, ys = linear_family(name), stream(model, T)
    settings = SETTINGS | OPTIONS[name]
    _, windowed, infos = run(rmcvi.RMCVI(**settings), model, family, ys)
    _, forward, _ = run(rmcvi.RMCVI(**settings, gradient="forward"), model, family, ys)
    np.testing.assert_allclose(windowed, forward, rtol=1e-10, atol=1e-10)
    assert np.all(np.abs(np.asarray(forward)).max(1) > 0.0)
    np.testing.assert_array_equal(infos.mass_beyond, 0.0)


def test_reuse_sums_the_increments_of_the_window() -> None:
    """(W14): with a window that covers the stream, t + 1 times its gradient is grad L_t."""
    model = linear_model()
    family, ys = linear_family("innovation"), stream(model, T)
    _, increments, _ = run(rmcvi.RMCVI(**SETTINGS), model, family, ys)
    _, reused, _ = run(rmcvi.RMCVI(**SETTINGS, reuse=True), model, family, ys)
    total = np.cumsum(np.asarray(increments), 0) / np.arange(1, T + 1)[:, None]
    np.testing.assert_allclose(reused, total, rtol=1e-9, atol=1e-9)


@eqx.filter_jit
def one_step(recursion: Any, state: Any, model: Any, family: Any, y: Any, t: Any) -> Any:
    """State, flat gradient and info."""
    key = jax.random.fold_in(jax.random.key(0), t)
    state, grads, info = recursion.step(state, model, family, y, rmcvi.Inputs.of(), key)
    return state, ravel_pytree(eqx.filter(grads, eqx.is_array))[0], info


def test_a_window_lengthened_in_mid_stream_soon_is_the_longer_one() -> None:
    """Values agree at once; gradients once the new window is full."""
    model, short, long = linear_model(), 3, 5
    family, ys = linear_family("innovation"), stream(model, 10)

    def steps(recursion, state, times):
        """One program for each window, whatever the times."""
        grads, infos = [], []
        for t in times:
            state, gradient, info = one_step(recursion, state, model, family, ys[t], np.asarray(t))
            grads.append(gradient)
            infos.append(info)
        return state, grads, infos

    reference = rmcvi.RMCVI(4, window=long, bptt=2)
    _, exact, told = steps(reference, reference.init(model, family), range(10))
    recursion = rmcvi.RMCVI(4, window=short, bptt=2)
    first, before, _ = steps(recursion, recursion.init(model, family), range(4))
    recursion, state = recursion.lengthen(first, long)
    state, grads, infos = steps(recursion, state, range(4, 10))
    np.testing.assert_allclose([i.elbo for i in infos], [i.elbo for i in told[4:]], rtol=1e-12)
    np.testing.assert_allclose(grads[-1], exact[-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(infos[-1].mass_beyond, told[-1].mass_beyond, rtol=1e-9)
    np.testing.assert_allclose(before[:3], exact[:3], rtol=1e-9, atol=1e-12)
    assert all(np.all(np.isfinite(g)) for g in grads)
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
    """A short window misses little, and `mass_beyond` shrinks with the window's length."""
    model = linear_model()
    family, ys = linear_family("tied"), stream(model, 24)
    beyond, error = [], []
    _, exact, _ = run(rmcvi.RMCVI(30, window=24, bptt=2, negligible=0.0), model, family, ys)
    for window in (3, 12):
        _, grads, infos = run(
            rmcvi.RMCVI(30, window=window, bptt=2, negligible=0.0), model, family, ys
        )
        beyond.append(float(jnp.mean(infos.mass_beyond[12:])))
        error.append(float(jnp.linalg.norm((grads - exact)[12:]) / jnp.linalg.norm(exact[12:])))
    assert beyond[0] > 100 * beyond[1]
    assert error[0] > 9 * error[1]
    assert error[1] < 1e-3
    contraction = jax.tree.map(lambda v: float(jnp.mean(v[12:])), infos.contraction)
    assert 0.05 < contraction < 0.8
    # What is negligible is left out, and no more.
    cut = rmcvi.RMCVI(30, window=24, bptt=2, negligible=1e-3)
    _, grads, infos = run(cut, model, family, ys)
    assert float(jnp.max(infos.mass_beyond[12:])) <= 1e-3
    assert bool(jnp.all(infos.mass[12:, -1] == 0.0))
    missed = float(jnp.linalg.norm(grads - exact) / jnp.linalg.norm(exact))
    assert 0.0 < missed < 1e-3
