"""Compensated sums: float32 holds a million terms."""

import jax
import jax.numpy as jnp
import numpy as np

from rmcvi.core.compensated import CompensatedSum

TERMS = 1_000_000


def _run(terms: jax.Array, forget: float = 1.0) -> tuple[CompensatedSum, jax.Array]:
    """The compensated and the plain running sum."""
    zero = jnp.zeros((), terms.dtype)

    def step(state, term):
        total, plain = state
        return (total.add(term, forget), forget * plain + term), None

    return jax.jit(lambda v: jax.lax.scan(step, (CompensatedSum(zero, zero), zero), v)[0])(terms)


def test_a_million_terms_in_float32():
    terms = np.random.default_rng(0).normal(-1.3, 1.0, TERMS).astype(np.float32)
    exact = np.sum(terms.astype(np.float64))
    compensated, plain = _run(jnp.asarray(terms))
    assert compensated.value.dtype == jnp.float32
    assert abs(float(compensated.value) - exact) <= np.spacing(np.float32(abs(exact)))
    assert abs(float(plain) - exact) > 10 * np.spacing(np.float32(abs(exact)))


def test_terms_larger_than_the_sum():
    terms = jnp.asarray([1.0, 1e10, 1.0, -1e10] * 25, jnp.float32)
    compensated, plain = _run(terms)
    assert float(compensated.value) == 50.0
    assert float(plain) != 50.0


def test_forgetting_is_geometric():
    terms = np.random.default_rng(1).normal(1.0, 1.0, 500)
    compensated, _ = _run(jnp.asarray(terms), 0.98)
    expected = np.sum(terms * 0.98 ** np.arange(499, -1, -1))
    np.testing.assert_allclose(compensated.value, expected, rtol=1e-13)


def test_zeros_has_the_shape_asked_for():
    start = CompensatedSum.zeros(2, 3)
    assert start.value.shape == (2, 3)
    np.testing.assert_array_equal(start.add(jnp.ones((2, 3))).value, np.ones((2, 3)))
