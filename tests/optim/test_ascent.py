"""Steps that are guarded, gated and averaged; schedules."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rmcvi.optim import Ascent, GradientGuard, robbins_monro, two_time_scales


def test_guard_cuts_an_outlying_gradient_only() -> None:
    """Ordinary gradients pass; a thousandfold one is cut to ten times the running length."""
    guard = GradientGuard()
    state = guard.init()
    for k in jax.random.split(jax.random.key(0), 60):
        gradient = {"a": jax.random.normal(k, (5,))}
        state, passed = guard.step(state, gradient)
        np.testing.assert_array_equal(passed["a"], gradient["a"])
    length = float(state.length)
    state, passed = guard.step(state, {"a": jnp.full(5, 1e3)})
    assert float(jnp.linalg.norm(passed["a"])) == pytest.approx(10 * length)
    assert int(state.cuts) == 1
    assert float(state.length) < 1.2 * length


def test_ascent_climbs_damps_freezes_and_refuses_what_is_not_finite() -> None:
    """Plain gradient ascent, where every step has a value by hand."""
    ascent = Ascent(optax.sgd(0.1))
    start = {"a": jnp.array([1.0, 2.0]), "b": jnp.array(3.0)}
    gradient = {"a": jnp.array([1.0, -1.0]), "b": jnp.array(2.0)}
    state, moved, sound = ascent.step(ascent.init(start), start, gradient, jnp.asarray(0.5))
    np.testing.assert_allclose(moved["a"], [1.05, 1.95])
    np.testing.assert_allclose(moved["b"], 3.1)
    assert bool(sound)
    held = ascent.freeze(state, lambda p: p["a"], True)
    _, moved, _ = ascent.step(held, start, gradient, jnp.asarray(1.0))
    np.testing.assert_array_equal(moved["a"], start["a"])
    np.testing.assert_allclose(moved["b"], 3.2)
    _, moved, sound = ascent.step(state, start, gradient | {"b": jnp.inf}, jnp.asarray(1.0))
    np.testing.assert_array_equal(moved["b"], start["b"])
    assert not bool(sound)


def test_schedule_is_robbins_monros_down_to_its_floor() -> None:
    """By hand at three times; the sum of squares converges only without a floor."""
    schedule = robbins_monro(0.1, power=0.6, delay=100.0, floor=0.01)
    np.testing.assert_allclose(schedule(0), 0.1)
    np.testing.assert_allclose(schedule(100), 0.1 * 2**-0.6)
    np.testing.assert_allclose(schedule(10**9), 0.01)
    slow, fast = two_time_scales(1e-3, 1e-2, power=0.8)
    parameters = jnp.zeros(3)
    steps = [o.update(jnp.ones(3), o.init(parameters), parameters)[0] for o in (slow, fast)]
    np.testing.assert_allclose(np.asarray(steps[1]), 10.0 * np.asarray(steps[0]), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power": 0.4}, "power: got 0.4"),
        ({"floor": 1.0}, "floor: got 1.0"),
        ({"delay": 0.0}, "delay: got 0.0"),
    ],
)
def test_schedules_that_cannot_converge_are_refused(options: dict, message: str) -> None:
    """Argument, got, expected."""
    with pytest.raises(ValueError, match=message):
        robbins_monro(0.1, **options)
