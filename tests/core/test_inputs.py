"""Inputs of a step, and the split of an observation into values and mask."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi.core.inputs import Inputs, split_missing


def test_nothing_given_means_a_usual_step_without_inputs():
    inputs = Inputs.of()
    assert inputs.u.shape == (0,) and inputs.dt == 1.0
    np.testing.assert_array_equal(Inputs.of(dim=2).u, np.zeros(2))


def test_given_values_are_kept():
    inputs = Inputs.of(np.array([1, 2]), 0.5, dim=2)
    np.testing.assert_array_equal(inputs.u, [1.0, 2.0])
    assert inputs.u.dtype == inputs.dt.dtype == jnp.float64 and inputs.dt == 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"u": np.ones(1)}, ("u: got an array of shape (1,)", "expected (0)")),
        ({"u": np.ones((1, 1)), "dim": 1}, ("u: got an array of shape (1, 1)", "expected (1)")),
        ({"dt": np.ones(2)}, ("dt: got an array of shape (2,)", "expected ()")),
        ({"u": np.array([1j]), "dim": 1}, ("u: got dtype complex", "expected an array of real")),
        ({"dt": True}, ("dt: got dtype bool", "expected an array of real")),
    ],
)
def test_wrong_inputs(arguments, words):
    with pytest.raises(ValueError) as error:
        Inputs.of(**arguments)
    assert all(word in str(error.value) for word in words)


def test_split_missing():
    filled, seen = split_missing(jnp.array([[1.0, jnp.nan], [jnp.nan, -2.0]]))
    np.testing.assert_array_equal(filled, [[1.0, 0.0], [0.0, -2.0]])
    np.testing.assert_array_equal(seen, [[1.0, 0.0], [0.0, 1.0]])


def test_split_missing_keeps_dtype_and_infinities():
    filled, seen = split_missing(jnp.array([jnp.inf, jnp.nan], jnp.float32))
    assert filled.dtype == seen.dtype == jnp.float32
    np.testing.assert_array_equal(filled, [np.inf, 0.0])


def test_split_missing_has_finite_gradients():
    y = jnp.array([2.0, jnp.nan])
    grad = jax.grad(lambda v: jnp.sum(split_missing(v)[0] ** 2))(y)
    np.testing.assert_array_equal(grad, [4.0, 0.0])
