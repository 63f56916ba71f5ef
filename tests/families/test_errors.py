"""A wrong call names the argument, what it got and what it expected."""

import jax
import pytest

from rmcvi.families import (
    ExtendedKalmanFamily,
    InnovationFamily,
    LinearGaussianFamily,
    PerStepFamily,
    RecurrentFamily,
)
from rmcvi.models import StochasticVolatility
from tests.core.unhooked import unhooked, wrong

KEY = jax.random.key(0)
MODEL = StochasticVolatility()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: RecurrentFamily(0, 1, key=KEY), ("dim_state", "got 0", "at least 1")),
        (lambda: RecurrentFamily(1, -1, key=KEY), ("dim_obs", "got -1", "at least 1")),
        (lambda: RecurrentFamily(wrong(1.5), 1, key=KEY), ("dim_state", "got 1.5", "integer")),
        (lambda: RecurrentFamily(1, 1, key=KEY, dim_input=-1), ("dim_input", "got -1", "least 0")),
        (lambda: RecurrentFamily(1, 1, key=KEY, memory=0), ("memory", "got 0", "at least 1")),
        (lambda: RecurrentFamily(1, 1, key=KEY, width=0), ("width", "got 0", "at least 1")),
        (lambda: RecurrentFamily(1, 1, key=KEY, depth=-1), ("depth", "got -1", "at least 0")),
        (
            lambda: RecurrentFamily(1, 1, key=KEY, spectral_norm=0.0),
            ("spectral_norm", "got 0.0", "between 0.0 and inf"),
        ),
        (
            lambda: RecurrentFamily(1, 1, key=KEY, spectral_norm=-0.5),
            ("spectral_norm", "got -0.5", "between 0.0 and inf"),
        ),
        (lambda: RecurrentFamily(1, 1, key=KEY, bound=0.0), ("bound", "got 0.0", "between 0.0")),
        (lambda: InnovationFamily(wrong("m"), key=KEY), ("model", "got str", "KalmanModel")),
        (lambda: InnovationFamily(MODEL, key=KEY, hidden=0), ("hidden", "got 0", "at least 1")),
        (lambda: InnovationFamily(MODEL, key=KEY, memory=-1), ("memory", "got -1", "at least 0")),
        (lambda: ExtendedKalmanFamily(wrong(3), key=KEY), ("model", "got int", "KalmanModel")),
        (lambda: ExtendedKalmanFamily(MODEL, key=KEY, hidden=-4), ("hidden", "got -4")),
        (lambda: ExtendedKalmanFamily(MODEL, key=KEY, memory=-1), ("memory", "got -1")),
        (lambda: LinearGaussianFamily(wrong("kalman")), ("kalman", "got str", "KalmanModel")),
        (lambda: PerStepFamily(wrong(None), key=KEY), ("model", "got NoneType", "KalmanModel")),
        (lambda: PerStepFamily(MODEL, key=KEY, hidden=0), ("hidden", "got 0", "at least 1")),
    ],
)
def test_wrong_calls(call, words):
    with unhooked(), pytest.raises(ValueError) as error:
        call()
    assert all(word in str(error.value) for word in words), str(error.value)
