"""Parameters are told in the units in which they were given."""

import jax
import jax.numpy as jnp
import numpy as np

from rmcvi import models


def test_constructor_and_parameters_agree() -> None:
    """What went in comes out under the same name."""
    rnn = models.ChaoticRNN(dim=3, rho=0.05, gamma=1.5, noise=0.2, obs_scale=0.3).parameters()
    for name, value in dict(rho=0.05, gamma=1.5, noise=0.2, obs_scale=0.3).items():
        np.testing.assert_allclose(rnn[name], value, rtol=1e-12)
    volatility = models.StochasticVolatility(level=-1.0, persistence=0.8, noise=0.4).parameters()
    for name, value in dict(level=-1.0, persistence=0.8, noise=0.4).items():
        np.testing.assert_allclose(volatility[name], value, rtol=1e-12)
    factor = jnp.array([[0.5, 0.0], [0.2, 0.4]])
    linear = models.LinearGaussian(jnp.eye(2), jnp.ones((1, 2)), factor, 0.3).parameters()
    np.testing.assert_allclose(linear["transition_noise"], factor, rtol=1e-12)
    np.testing.assert_allclose(linear["emission_noise"], [0.3], rtol=1e-12)
    neural = models.NeuralGaussian(2, 3, key=jax.random.key(0), noise=0.2, obs_noise=0.7)
    told = neural.parameters()
    np.testing.assert_allclose(told["noise"], 0.2, rtol=1e-12)
    np.testing.assert_allclose(told["obs_noise"], 0.7, rtol=1e-12)
    assert not any(name.startswith("raw_") for name in told)
    count = sum(v.size for v in jax.tree.leaves(neural) if hasattr(v, "size"))
    assert sum(v.size for v in told.values()) == count
