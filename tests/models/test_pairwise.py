"""The pairwise fast path and its moments are sums over pairs, in float32 too."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi import Inputs
from rmcvi.core.gaussian import LOG_2PI
from rmcvi.models import AbstractGaussianModel, AbstractModel, LinearGaussian
from tests.models.zoo import ZOO, Case

N, M = 6, 4


def _clouds(case: Case) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Particles before and now, and signed weights for the pairs."""
    rng, dim = np.random.default_rng(1), case.model.dim_state
    before, now = rng.normal(size=(M, dim)), 3.0 + rng.normal(size=(N, dim))
    return jnp.asarray(before), jnp.asarray(now), jnp.asarray(rng.normal(size=(N, M)))


def _by_moments(model: AbstractGaussianModel, before, now, weights, inputs: Inputs):
    cross = weights.T @ (now - jnp.mean(now, 0, keepdims=True))
    row, column = jnp.sum(weights, 1), jnp.sum(weights, 0)
    return model.moment_log_prob(before, now, row, column, cross, inputs)


def _by_pairs(model: AbstractGaussianModel, before, now, weights, inputs: Inputs):
    return jnp.sum(weights * AbstractModel.pairwise_log_prob(model, before, now, inputs))


@eqx.filter_jit
def _both_ways(case: Case, before, now, weights):
    theta, static = eqx.partition(case.model, eqx.is_inexact_array)

    def value(function, theta):
        return function(eqx.combine(theta, static), before, now, weights, case.inputs)

    return (
        case.model.pairwise_log_prob(before, now, case.inputs),
        AbstractModel.pairwise_log_prob(case.model, before, now, case.inputs),
        jax.value_and_grad(lambda v: value(_by_moments, v))(theta),
        jax.value_and_grad(lambda v: value(_by_pairs, v))(theta),
    )


@pytest.mark.parametrize("name", ZOO)
def test_fast_path_moments_and_their_gradient(name):
    case = ZOO[name]()
    fast, slow, moments, brute = _both_ways(case, *_clouds(case))
    assert fast.shape == (N, M)
    np.testing.assert_allclose(fast, slow, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(moments[0], brute[0], rtol=1e-10)
    leaves = zip(jax.tree.leaves(moments[1]), jax.tree.leaves(brute[1]), strict=True)
    for ours, expected in leaves:
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)
    assert any(float(jnp.max(jnp.abs(leaf))) > 1.0 for leaf in jax.tree.leaves(brute[1]))


def _uncentred(model: AbstractGaussianModel, before, now, inputs: Inputs):
    """What the fast path would be without its centre (noise scales as a vector)."""
    mu = jax.vmap(model.transition_mean, (0, None))(before, inputs)
    scale = model.transition_scale(inputs)[None]
    z, mu = now / scale, mu / scale
    half = 0.5 * jnp.sum(z**2, 1)[:, None] + 0.5 * jnp.sum(mu**2, 1)[None]
    return z @ mu.T - half - jnp.sum(jnp.log(scale)) - 0.5 * scale.size * LOG_2PI


@eqx.filter_jit
def _far_out(model: LinearGaussian, inputs: Inputs, before, now, weights):
    def cast(dtype):
        arguments = (model, before, now, weights, inputs)
        return jax.tree.map(lambda v: v.astype(jnp.float32).astype(dtype), arguments)

    small, x_prev, x, w, step = cast(jnp.float32)
    return (
        AbstractModel.pairwise_log_prob(*(cast(jnp.float64)[i] for i in (0, 1, 2, 4))),
        small.pairwise_log_prob(x_prev, x, step),
        _uncentred(small, x_prev, x, step),
        _by_moments(small, x_prev, x, w, step),
    )


def test_centring_keeps_float32_exact_far_from_the_origin():
    """States of size 1e3, noise 1e-2: squares of 1e10 next to differences of order one."""
    rng = np.random.default_rng(2)
    model = LinearGaussian(np.eye(2), np.eye(2), 0.01, 0.1)
    before, now = (jnp.asarray(1e3 + 0.01 * rng.normal(size=(n, 2))) for n in (20, 30))
    weights = jnp.asarray(rng.normal(size=(30, 20)))
    exact, centred, plain, moments = _far_out(model, Inputs.of(), before, now, weights)
    assert exact.dtype == jnp.float64
    assert centred.dtype == plain.dtype == moments.dtype == jnp.float32
    np.testing.assert_allclose(centred, exact, atol=1e-4)
    assert float(jnp.max(jnp.abs(plain - exact))) > 100.0
    scale = float(jnp.sum(jnp.abs(weights * exact)))
    np.testing.assert_allclose(moments, jnp.sum(weights * exact), atol=1e-6 * scale)
