"""Models as they are built: presets, parameters, and errors that say what was expected."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi import Inputs
from rmcvi.models import ChaoticRNN, LinearGaussian, NeuralGaussian, StochasticVolatility
from tests.core.unhooked import unhooked, wrong
from tests.models.zoo import ZOO

KEY = jax.random.key(0)
PRESETS = {"campbell": (0.1, 0.25), "appendix": (0.1**0.5, 0.5), "text": (1.0, 1.0)}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_of_the_linear_model(name):
    """Errata B1: three readings of the same sentence."""
    model = LinearGaussian.preset(name, 50, KEY)
    inputs, zero = Inputs.of(), jnp.zeros(50)
    noise, obs_noise = PRESETS[name]
    np.testing.assert_allclose(model.transition_scale(inputs), np.full(50, noise), rtol=1e-10)
    np.testing.assert_allclose(model.emission_scale(zero, inputs), np.full(50, obs_noise))
    np.testing.assert_allclose(model.initial_scale(), np.full(50, noise), rtol=1e-10)
    for matrix in (model.transition, model.emission):
        assert matrix.shape == (50,)
        assert 0.5 <= float(jnp.min(matrix)) < 0.6 and 0.9 < float(jnp.max(matrix)) <= 1.0
    assert not np.allclose(model.transition, model.emission)


def test_settings_of_the_chaotic_network():
    """Errata B9."""
    model, inputs = ChaoticRNN(50), Inputs.of()
    np.testing.assert_allclose(model.transition_scale(inputs) ** 2, np.full(50, 0.01), rtol=1e-9)
    np.testing.assert_allclose(model.emission_scale(jnp.zeros(50), inputs), np.full(50, 0.1))
    assert abs(float(jnp.std(model.weights)) * 50**0.5 - 1.0) < 5 / (2 * 2500) ** 0.5
    assert model.dof == 2.0
    np.testing.assert_allclose(jnp.exp(model.log_rho), 0.025)
    np.testing.assert_allclose(jnp.exp(model.log_gamma), 2.5)
    assert not np.allclose(ChaoticRNN(50, key=jax.random.key(1)).weights, model.weights)


@pytest.mark.parametrize("name", ZOO)
def test_parameters_are_strongly_typed(name):
    """A weak type would change at the first optimiser step and compile everything again."""
    arrays = jax.tree.leaves(eqx.filter(ZOO[name]().model, eqx.is_array))
    assert arrays and all(a.dtype == jnp.float64 and not a.weak_type for a in arrays)


def test_models_can_be_built_inside_jit():
    build = eqx.filter_jit(lambda f, q: LinearGaussian(f, f, q, jnp.diag(q)).transition_scale)
    scale = build(jnp.array([0.5, 0.6]), jnp.array([0.3, 0.4]))(Inputs.of())
    np.testing.assert_allclose(scale, [0.3, 0.4], rtol=1e-12)


def test_noise_below_the_floor_is_raised_to_it():
    model = LinearGaussian(np.ones(1), np.ones(1), 1e-9, 0.1)
    assert 1e-4 < float(model.transition_scale(Inputs.of())[0]) < 1.001e-4


EYE, ONE = np.eye(2), np.ones(2)


def linear(**changes):
    """A two-dimensional linear model with some arguments replaced."""
    usual = {"transition": ONE, "emission": ONE, "transition_noise": 0.1, "emission_noise": 0.2}
    return LinearGaussian(**{**usual, **changes})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: linear(transition=np.ones((2, 3))), ("transition", "got", "(2, 3)", "(2, 2)")),
        (lambda: linear(transition=1.0), ("transition", "got 0 axes", "vector or a matrix")),
        (lambda: linear(transition="F"), ("transition", "got str", "real numbers")),
        (lambda: linear(transition=1j * ONE), ("transition", "got dtype complex128", "real")),
        (lambda: linear(emission=np.ones((3, 1))), ("emission", "got", "(3, 1)", "(3, 2)")),
        (lambda: linear(emission=np.ones(3)), ("emission", "got", "(3,)", "(2)")),
        (lambda: linear(transition_noise=-0.1), ("transition_noise", "got [-0.1", "positive")),
        (lambda: linear(transition_noise=np.nan), ("transition_noise", "got [nan", "positive")),
        (lambda: linear(transition_noise=np.ones(3)), ("transition_noise", "(3,)", "(2)")),
        (lambda: linear(emission_noise=np.ones((2, 2, 2))), ("emission_noise", "(2, 2, 2)")),
        (lambda: linear(emission_noise=-EYE), ("diagonal of emission_noise", "positive")),
        (lambda: linear(emission_noise=EYE + 0.1), ("emission_noise", "lower Cholesky factor")),
        (lambda: linear(initial_mean=np.ones(3)), ("initial_mean", "got", "(3,)", "(2)")),
        (lambda: linear(initial_noise=0.0), ("initial_noise", "got [0. 0.]", "positive")),
        (lambda: linear(state_input=np.ones(2)), ("state_input", "got", "(2,)", "(2, any)")),
        (lambda: linear(obs_input=2.0), ("obs_input", "got", "()", "(2, any)")),
        (
            lambda: linear(state_input=np.ones((2, 1)), obs_input=np.ones((2, 3))),
            ("obs_input", "got", "(2, 3)", "(2, 1)"),
        ),
        (lambda: LinearGaussian.preset("cambell", 2, KEY), ("name", "'cambell'", "'campbell'?")),
        (lambda: LinearGaussian.preset("text", 0, KEY), ("dim", "got 0", "at least 1")),
        (lambda: ChaoticRNN(0), ("dim", "got 0", "at least 1")),
        (lambda: ChaoticRNN(wrong(2.5)), ("dim", "got 2.5", "integer")),
        (lambda: ChaoticRNN(2, rho=-1.0), ("rho", "got -1.0", "between 0.0 and inf")),
        (lambda: ChaoticRNN(2, obs_scale=np.nan), ("obs_scale", "got nan", "between 0.0")),
        (lambda: ChaoticRNN(2, dof=0.0), ("dof", "got 0.0", "between 0.0")),
        (lambda: ChaoticRNN(2, euler_step=wrong("a")), ("euler_step", "got 'a'", "between 0.0")),
        (lambda: NeuralGaussian(0, 1, key=KEY), ("dim_state", "got 0", "at least 1")),
        (lambda: NeuralGaussian(1, -1, key=KEY), ("dim_obs", "got -1", "at least 1")),
        (lambda: NeuralGaussian(1, 1, key=KEY, dim_input=-1), ("dim_input", "got -1", "least 0")),
        (lambda: NeuralGaussian(1, 1, key=KEY, width=0), ("width", "got 0", "at least 1")),
        (lambda: NeuralGaussian(1, 1, key=KEY, depth=-1), ("depth", "got -1", "at least 0")),
        (lambda: NeuralGaussian(1, 1, key=KEY, noise=0.0), ("noise", "got 0.0", "between 0.0")),
        (lambda: NeuralGaussian(1, 1, key=KEY, obs_noise=-2.0), ("obs_noise", "got -2.0")),
        (lambda: StochasticVolatility(True), ("dim", "got True", "integer")),
        (lambda: StochasticVolatility(persistence=1.0), ("persistence", "got 1.0", "-1.0 and 1")),
        (lambda: StochasticVolatility(noise=0.0), ("noise", "got 0.0", "between 0.0")),
        (lambda: StochasticVolatility(level=np.inf), ("level", "got inf", "between -inf")),
    ],
)
def test_wrong_calls(call, words):
    with unhooked(), pytest.raises(ValueError) as error:
        call()
    assert all(word in str(error.value) for word in words), str(error.value)
