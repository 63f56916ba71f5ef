"""Every message names the argument, what it got and what it expected."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi.core import array_checks as arrays
from rmcvi.core import checks
from rmcvi.core.results import Result


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: checks.check_int("num", 0), "num: got 0, expected an integer of at least 1"),
        (lambda: checks.check_int("num", -2, 0), "num: got -2, expected an integer of at least 0"),
        (lambda: checks.check_int("num", 1.5), "num: got 1.5, expected an integer of at least 1"),
        (lambda: checks.check_int("num", True), "num: got True, expected an integer"),
        (lambda: checks.check_int("num", "3"), "num: got '3', expected an integer"),
        (lambda: checks.check_real("rho", 0.0, 0.0), "rho: got 0.0, expected a number between 0"),
        (lambda: checks.check_real("rho", np.nan), "rho: got nan, expected a number between -inf"),
        (lambda: checks.check_real("rho", np.inf), "rho: got inf, expected a number between -inf"),
        (lambda: checks.check_real("rho", "a"), "rho: got 'a', expected a number between"),
        (
            lambda: checks.check_option("mode", "forwards", ("forward", "windowed")),
            "mode: got 'forwards', expected one of 'forward', 'windowed' (did you mean 'forward'?)",
        ),
        (
            lambda: checks.check_option("mode", 3, ("forward", "windowed")),
            "mode: got 3, expected one of 'forward', 'windowed'",
        ),
        (lambda: checks.check_instance("model", 3, str), "model: got int, expected str"),
        (
            lambda: arrays.check_array("y", jnp.zeros(2), (3,)),
            "y: got an array of shape (2,), expected (3)",
        ),
        (
            lambda: arrays.check_array("y", jnp.zeros(2), (None, 2)),
            "y: got an array of shape (2,), expected (any, 2)",
        ),
        (
            lambda: arrays.check_array("y", [0.0], (1,)),
            "y: got list, expected an array of (1)",
        ),
        (
            lambda: arrays.check_array("y", jnp.zeros(3, int), (3,)),
            "y: got dtype int64, expected a floating dtype",
        ),
        (
            lambda: arrays.check_array("y", jax.random.key(0), ()),
            "y: got dtype key<fry>, expected a floating dtype",
        ),
        (
            lambda: arrays.check_positive("noise", jnp.array([1.0, -1.0])),
            "noise: got [ 1. -1.], expected positive numbers",
        ),
        (
            lambda: arrays.as_real("f", "text"),
            "f: got str, expected an array of real numbers",
        ),
        (
            lambda: arrays.as_real("f", [1j]),
            "f: got dtype complex128, expected an array of real",
        ),
        (lambda: arrays.as_real("f", [[1.0], [1.0, 2.0]]), "f: got list, expected an array"),
    ],
)
def test_message(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call()


def test_good_values_pass_and_are_converted():
    assert type(checks.check_int("num", np.int32(3))) is int
    assert type(checks.check_real("rho", np.float32(0.5), 0.0, 1.0)) is float
    assert checks.check_option("mode", "a", ("a", "b")) == "a"
    checks.check_instance("text", "a", str)
    arrays.check_array("y", np.zeros((2, 3), np.float32), (None, 3))
    arrays.check_array("y", jnp.zeros(2, jnp.bfloat16), (2,))
    arrays.check_positive("noise", jnp.ones(2))
    assert arrays.as_real("f", [1, 2]).dtype == jnp.float64


def test_traced_values_pass():
    def build(v):
        arrays.check_array("v", v, (2,))
        arrays.check_positive("v", v)
        return arrays.as_real("v", v)

    np.testing.assert_array_equal(jax.jit(build)(jnp.array([-1.0, 2.0])), [-1.0, 2.0])


def test_every_result_has_its_own_message():
    messages = {result.message for result in Result}
    assert len(messages) == len(Result) and all(text.endswith(".") for text in messages)
