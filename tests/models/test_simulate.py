"""Streams drawn from a model: reproducible, prefix-stable, with the model's own laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from rmcvi import Inputs
from rmcvi.models import AbstractModel, LinearGaussian, StochasticVolatility, simulate
from tests.core.unhooked import unhooked, wrong
from tests.models.zoo import B, D, F, G

TAIL = 2 * stats.norm.sf(5.0)


def test_a_shorter_run_is_a_prefix_of_a_longer_one():
    model = StochasticVolatility(2)
    short, long = (simulate(model, jax.random.key(1), length) for length in (4, 9))
    assert long[0].shape == long[1].shape == (9, 2)
    for a, b in zip(short, long, strict=True):
        np.testing.assert_array_equal(a, b[:4])


def test_keys_decide_the_stream():
    model = StochasticVolatility(2)
    first, again, other = (simulate(model, jax.random.key(k), 9) for k in (0, 0, 1))
    for a, b, c in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.any(a == c)


def test_inputs_and_steps_are_honoured():
    """Whitened residuals of a long stream are independent standard normals."""
    q, r = np.array([0.3, 0.6]), np.array([0.2, 0.5, 0.9])
    model = LinearGaussian(F, G, q, r, 0.5, 0.8, state_input=B, obs_input=D)
    rng = np.random.default_rng(0)
    u, dt = 3.0 * rng.normal(size=(4000, 2)), rng.uniform(0.2, 1.8, 4000)
    streams = simulate(model, jax.random.key(5), 4000, jnp.asarray(u), jnp.asarray(dt))
    x, y = map(np.asarray, streams)
    drift = x[:-1] @ F.T + u[1:] @ B.T - x[:-1]
    state = (x[1:] - x[:-1] - dt[1:, None] * drift) / (q * dt[1:, None] ** 0.5)
    obs = (y - x @ G.T - u @ D.T) / r
    noise = np.concatenate([state, obs[1:]], 1)
    assert all(stats.kstest(column, "norm").pvalue > TAIL for column in noise.T)
    cross = np.corrcoef(noise.T) * len(noise) ** 0.5
    assert np.all(np.abs(cross[~np.eye(5, dtype=bool)]) < 5.0)
    assert np.all(np.abs(x[0] - 0.5) < 5 * 0.8)


def test_a_float32_model_gives_a_float32_stream():
    model = jax.tree.map(lambda v: v.astype(jnp.float32), StochasticVolatility(2))
    x, y = simulate(model, jax.random.key(0), 3)
    assert x.dtype == y.dtype == jnp.float32


class RandomWalk(AbstractModel):
    """A user's model: a Laplace walk seen through Gaussian noise."""

    dim_state: int = 1
    dim_obs: int = 1

    def initial_log_prob(self, x):
        return jax.scipy.stats.laplace.logpdf(x).sum()

    def initial_sample(self, key):
        return jax.random.laplace(key, (1,))

    def transition_log_prob(self, x_prev, x, inputs):
        return jax.scipy.stats.laplace.logpdf(x, x_prev).sum()

    def transition_sample(self, key, x_prev, inputs):
        return x_prev + jax.random.laplace(key, (1,))

    def emission_log_prob(self, x, y, inputs):
        return jax.scipy.stats.norm.logpdf(y, x)

    def emission_sample(self, key, x, inputs):
        return x + jax.random.normal(key, (1,))


def test_a_model_of_ten_lines():
    x, y = map(np.asarray, simulate(RandomWalk(), jax.random.key(2), 3000))
    steps = np.diff(x[:, 0], prepend=0.0)
    assert stats.kstest(steps, "laplace").pvalue > TAIL
    assert stats.kstest((y - x)[:, 0], "norm").pvalue > TAIL


def test_the_generic_pairwise_path_of_a_users_model():
    before, now = jnp.array([[0.0], [2.0], [-1.0]]), jnp.array([[0.5], [1.0]])
    table = RandomWalk().pairwise_log_prob(before, now, Inputs.of())
    expected = -np.abs(np.asarray(now) - np.asarray(before).T) - np.log(2.0)
    np.testing.assert_allclose(table, expected, rtol=1e-12)


MODEL = StochasticVolatility(2)
KEY = jax.random.key(0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: simulate(MODEL, KEY, 0), ("length", "got 0", "at least 1")),
        (lambda: simulate(MODEL, KEY, -3), ("length", "got -3", "at least 1")),
        (lambda: simulate(MODEL, KEY, wrong(2.5)), ("length", "got 2.5", "integer")),
        (lambda: simulate(wrong("model"), KEY, 3), ("model", "got str", "AbstractModel")),
        (lambda: simulate(MODEL, KEY, 3, u=jnp.zeros((3, 1))), ("u", "got", "(3, 1)", "(3, 0)")),
        (lambda: simulate(MODEL, KEY, 3, dt=jnp.ones(4)), ("dt", "got", "(4,)", "(3)")),
        (lambda: simulate(MODEL, KEY, 3, dt=jnp.ones(3, int)), ("dt", "got dtype int64", "float")),
        (lambda: simulate(MODEL, KEY, 3, dt=wrong([1.0] * 3)), ("dt", "got list", "(3)")),
        (
            lambda: simulate(MODEL, KEY, 2, dt=jnp.array([1.0, -1.0])),
            ("dt", "got [ 1. -1.]", "positive"),
        ),
    ],
)
def test_wrong_calls(call, words):
    with unhooked(), pytest.raises(ValueError) as error:
        call()
    assert all(word in str(error.value) for word in words)
