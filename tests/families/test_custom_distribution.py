"""Another exponential family needs T, A, entropy and a sampler, and nothing else."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from rmcvi import RMCVI, Inputs, Result
from rmcvi.families import AbstractExponentialFamily, AbstractFamily
from rmcvi.models import AbstractModel


class Exponentials(AbstractExponentialFamily[jax.Array]):
    """Independent exponential laws: T(x) = x, eta = -rate."""

    def statistic(self, x):
        return x

    def log_normaliser(self, eta):
        return -jnp.sum(jnp.log(-eta))

    def entropy(self, eta):
        return jnp.sum(1.0 - jnp.log(-eta))

    def sample(self, key, eta, num):
        return jax.random.exponential(key, (num, eta.size), eta.dtype) / -eta[None]


class Queue(AbstractModel):
    """Positive states: x_0 ~ Exp(1), x_t ~ Exp(1 + x_{t-1}), y_t ~ Exp(1 + x_t)."""

    dim_state: int = 1
    dim_obs: int = 1

    def initial_log_prob(self, x):
        return -jnp.sum(x)

    def initial_sample(self, key):
        return jax.random.exponential(key, (1,))

    def transition_log_prob(self, x_prev, x, inputs):
        return jnp.sum(jnp.log1p(x_prev) - (1.0 + x_prev) * x)

    def transition_sample(self, key, x_prev, inputs):
        return jax.random.exponential(key, (1,)) / (1.0 + x_prev)

    def emission_log_prob(self, x, y, inputs):
        return jnp.log1p(x) - (1.0 + x) * y

    def emission_sample(self, key, x, inputs):
        return jax.random.exponential(key, (1,)) / (1.0 + x)


class Rates(AbstractFamily[Exponentials]):
    """log rate_t = start + gain y_t; x_t adds slope * x_t to the rate before."""

    start: jax.Array
    gain: jax.Array
    slope: jax.Array
    distribution: Exponentials = Exponentials()

    def initial_carry(self, model):
        return self.start

    def advance(self, model, carry, y, inputs):
        return self.start + self.gain * jnp.where(jnp.isnan(y), 0.0, y)

    def marginal(self, carry):
        return -jnp.exp(carry)

    def potential(self, model, carry, x, inputs):
        return -self.slope * x


Y = np.array([0.4, 0.7])


def test_the_algebra_that_comes_for_free():
    q, eta, x = Exponentials(), jnp.array([-2.0, -0.5]), jnp.array([0.3, 1.1])
    scale = np.array([0.5, 2.0])
    expected = np.sum(stats.expon.logpdf(np.asarray(x), scale=scale))
    np.testing.assert_allclose(q.log_prob(eta, x), expected, rtol=1e-12)
    np.testing.assert_allclose(q.entropy(eta), np.sum(stats.expon.entropy(scale=scale)), rtol=1e-12)
    np.testing.assert_allclose(jax.grad(q.log_normaliser)(eta), scale, rtol=1e-12)
    np.testing.assert_array_equal(q.relative(eta, x), eta)
    np.testing.assert_array_equal(q.shift(x, eta), x)
    assert np.isposinf(q.log_supremum(eta))


def test_moments_come_from_a_sample():
    """A thousand draws: five standard errors of a mean, and of a variance (kurtosis 9)."""
    q, scale = Exponentials(), np.array([0.5, 2.0])
    mean, covariance = q.mean(jnp.asarray(-1 / scale)), q.covariance(jnp.asarray(-1 / scale))
    assert np.all(np.abs(mean - scale) < 5 * scale / 1000**0.5)
    outer = np.outer(scale, scale)
    tolerance = 5 * outer * np.sqrt(np.where(np.eye(2), 8.0, 1.0) / 1000)
    assert np.all(np.abs(covariance - np.diag(scale**2)) < tolerance)
    assert q.covariance(jnp.array([-1.0])).shape == (1, 1)


PHI = np.array([0.2, 0.3, 0.8])


def _exact_elbos(phi: np.ndarray = PHI) -> np.ndarray:
    """L_0 and L_1 by quadrature over (x_0, x_1)."""
    rate = np.exp(phi[0] + phi[1] * Y)
    nodes, weights = np.polynomial.legendre.leggauss(150)
    x, weights = 15.0 * (nodes + 1.0), 15.0 * weights
    first = np.log1p(x) - (1.0 + x) * Y[0] - x
    log_q0 = np.log(rate[0]) - rate[0] * x
    at_zero = weights @ (np.exp(log_q0) * (first - log_q0))
    x0, x1 = x[:, None], x[None]
    back = rate[0] + phi[2] * x1
    log_back, log_q1 = np.log(back) - back * x0, np.log(rate[1]) - rate[1] * x1
    second = np.log1p(x0) - (1.0 + x0) * x1 + np.log1p(x1) - (1.0 + x1) * Y[1]
    total = first[:, None] + second - log_back - log_q1
    at_one = weights @ (np.exp(log_back + log_q1) * total) @ weights
    return np.array([at_zero, at_one])


def _exact_gradients() -> np.ndarray:
    """Rows grad L_0 and grad L_1 in (start, gain, slope), by central differences."""
    step = 1e-5 * np.eye(3)
    columns = [(_exact_elbos(PHI + e) - _exact_elbos(PHI - e)) / 2e-5 for e in step]
    return np.stack(columns, 1)


def _assert_mean(draws, exact) -> None:
    """Within five standard errors, coordinate by coordinate."""
    draws = np.asarray(draws)
    error = draws.std(0) / len(draws) ** 0.5
    assert np.all(np.abs(draws.mean(0) - exact) <= 5.0 * error + 1e-12)


def test_two_steps_of_the_recursion_against_quadrature():
    recursion = RMCVI(200, window=2, bptt=2)
    family = Rates(**dict(zip(("start", "gain", "slope"), jnp.asarray(PHI)[:, None], strict=True)))

    @eqx.filter_jit
    @eqx.filter_vmap(in_axes=(None, None, 0))
    def run(model, family, key):
        def step(state, row):
            t, y = row
            now = jax.random.fold_in(key, t)
            out = recursion.step(state, model, family, y[None], Inputs.of(), now)
            phi = out.grads.family
            grads = jnp.concatenate([phi.start, phi.gain, phi.slope])
            return out.state, (out.info.elbo, grads, out.info.result)

        rows = (jnp.arange(2), jnp.asarray(Y))
        elbos, grads, codes = jax.lax.scan(step, recursion.init(model, family), rows)[1]
        return elbos, jnp.cumsum(grads, 0), codes

    elbos, grads, codes = run(Queue(), family, jax.random.split(jax.random.key(0), 40))
    _assert_mean(elbos, _exact_elbos())
    _assert_mean(grads, _exact_gradients())
    assert np.all(codes == Result.SUCCESS)
