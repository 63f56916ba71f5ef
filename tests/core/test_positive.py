"""Positive parameters: an exact round trip above the floor, safety at and below it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi.core.positive import FLOOR, positive, unconstrained


def test_round_trip_over_twelve_decades():
    values = jnp.logspace(-3, 9, 60)
    np.testing.assert_allclose(positive(unconstrained(values)), values, rtol=1e-12)


def test_round_trip_of_raw_values():
    raw = jnp.linspace(-12.0, 40.0, 60)
    np.testing.assert_allclose(unconstrained(positive(raw)), raw, rtol=1e-6, atol=1e-6)


def test_round_trip_with_another_floor():
    values = jnp.array([0.6, 1.0, 30.0])
    np.testing.assert_allclose(positive(unconstrained(values, 0.5), 0.5), values, rtol=1e-12)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("raw", [-1e30, -1e3, -50.0, 0.0, 50.0, 1e30])
def test_any_raw_value_is_safe(raw, dtype):
    value, slope = jax.value_and_grad(positive)(jnp.asarray(raw, dtype))
    assert value.dtype == dtype
    assert jnp.isfinite(value) and value >= jnp.asarray(FLOOR, dtype)
    assert 0.0 <= slope <= 1.0


@pytest.mark.parametrize("value", [FLOOR, FLOOR / 2, 0.0, -3.0])
def test_values_at_or_below_the_floor_land_just_above_it(value):
    raw, slope = jax.value_and_grad(unconstrained)(value)
    assert jnp.isfinite(raw) and jnp.isfinite(slope)
    assert FLOOR < positive(raw) < FLOOR * (1.0 + 1e-5)


def test_float32_round_trip():
    with jax.enable_x64(False):
        values = jnp.array([0.0, FLOOR, 1.1 * FLOOR, 1e-3, 0.1, 1.0, 1e3, 1e20])
        raw = unconstrained(values)
        assert raw.dtype == jnp.float32 and bool(jnp.all(jnp.isfinite(raw)))
        expected = np.maximum(np.asarray(values), np.float32(FLOOR))
        np.testing.assert_allclose(positive(raw), expected, rtol=3e-6)
