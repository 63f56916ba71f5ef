"""Pytrees as vectors, and the filter that picks what is trained."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from rmcvi.core import tree
from rmcvi.models import ChaoticRNN, NeuralGaussian


def _pair(seed: int) -> dict:
    k1, k2 = jax.random.split(jax.random.key(seed))
    return {"a": jax.random.normal(k1, (3,)), "b": jax.random.normal(k2, (2, 2))}


def _flat(value) -> np.ndarray:
    return np.asarray(ravel_pytree(value)[0])


def test_vector_space():
    a, b = _pair(0), _pair(1)
    np.testing.assert_allclose(_flat(tree.add(a, b)), _flat(a) + _flat(b))
    np.testing.assert_allclose(_flat(tree.sub(a, b)), _flat(a) - _flat(b))
    np.testing.assert_allclose(tree.vdot(a, b), _flat(a) @ _flat(b))
    np.testing.assert_array_equal(_flat(tree.where(jnp.asarray(False), a, b)), _flat(b))


def test_zeros_with_leading_axes():
    zeros = tree.zeros({"a": jnp.ones(3, jnp.float32)}, 4, 2)
    assert zeros["a"].shape == (4, 2, 3) and zeros["a"].dtype == jnp.float32


def test_centre_splits_into_deviation_and_mean():
    values = jax.random.normal(jax.random.key(0), (7, 2, 3))
    deviation, mean = tree.centre(values)
    np.testing.assert_allclose(deviation + mean[None], values, rtol=1e-12)
    np.testing.assert_allclose(jnp.mean(deviation, 0), np.zeros((2, 3)), atol=1e-15)


def test_has_arrays():
    assert tree.has_arrays({"a": None, "b": jnp.zeros(1)})
    assert not tree.has_arrays({"a": None, "b": 1.0})


def test_only_picks_leaves():
    model = ChaoticRNN(3)
    trained, rest = eqx.partition(model, tree.only(model, lambda m: (m.log_rho, m.log_gamma)))
    assert len(jax.tree.leaves(trained)) == 2
    assert trained.log_rho is model.log_rho and rest.weights is model.weights


def test_only_picks_the_floating_leaves_of_a_subtree():
    model = NeuralGaussian(1, 1, width=2, key=jax.random.key(0))
    trained, rest = eqx.partition(model, tree.only(model, lambda m: m.drift))
    assert all(eqx.is_inexact_array(leaf) for leaf in jax.tree.leaves(trained))
    assert len(jax.tree.leaves(trained)) == 6
    grad = jax.grad(lambda p: eqx.combine(p, rest).drift(jnp.ones(1))[0])(trained)
    assert grad.readout.layers[0].weight is None
    assert float(jnp.sum(jnp.abs(grad.drift.layers[0].weight))) > 0.0


def test_only_refuses_what_is_not_in_the_tree():
    with pytest.raises(ValueError, match="where: got 2, expected leaves or subtrees of Chaotic"):
        tree.only(ChaoticRNN(2), lambda m: m.dim_state)
