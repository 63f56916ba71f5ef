"""The golden gradient of a two-step model, known by quadrature, and both forms of the terminal."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rmcvi
from rmcvi.families import AbstractFamily, DiagonalGaussian, Natural
from rmcvi.models import LinearGaussian

EXACT_0 = np.array([0.8, -0.64643, 0.0, 0.0, 0.0, 0.0, 0.0])
EXACT_1 = np.array([0.27014, -0.30366, 0.17663, -0.64862, 0.18518, 0.14825, 0.06556])
YS = jnp.array([[0.7], [-0.4]])


class TwoSteps(AbstractFamily):
    """q_0, q_1 and one affine potential, all free: phi = (m0, l0, m1, l1, a, b, lc)."""

    phi: jax.Array
    distribution: DiagonalGaussian

    def initial_carry(self, model: Any) -> jax.Array:
        """The number of observations seen."""
        return jnp.zeros(1)

    def advance(self, model, carry, y, inputs):
        """Count."""
        return carry + 1.0

    def marginal(self, carry):
        """N(m_t, exp(2 l_t)) for the step that the count names."""
        mean = jnp.where(carry < 1.5, self.phi[0], self.phi[2])
        precision = jnp.exp(-2.0 * jnp.where(carry < 1.5, self.phi[1], self.phi[3]))
        return Natural(precision * mean, precision)

    def potential(self, model, carry, x, inputs):
        """(a x + b, exp(lc)): the statistic's second part is -x^2 / 2."""
        a, b, lc = self.phi[4], self.phi[5], self.phi[6]
        return Natural(a * x + b, jnp.exp(lc)[None])


def golden_parts() -> tuple[LinearGaussian, TwoSteps]:
    """The model and family of the errata note."""
    model = LinearGaussian(*(jnp.array([v]) for v in (0.8, 1.0, 0.3**0.5, 0.5**0.5)))
    phi = jnp.array([0.2, -0.3, -0.1, -0.5, 0.6, 0.1, 0.2])
    return model, TwoSteps(phi=phi, distribution=DiagonalGaussian())


def gradients(keys: jax.Array, **settings: Any) -> np.ndarray:
    """Estimates of (grad L_0, grad L_1), one pair per key."""
    model, family = golden_parts()
    recursion = rmcvi.RMCVI(window=2, bptt=2, **settings)

    def run(key):
        def step(state, pair):
            t, y = pair
            k = jax.random.fold_in(key, t)
            state, grads, _ = recursion.step(state, model, family, y, rmcvi.Inputs.of(), k)
            return state, grads.family.phi

        start = recursion.init(model, family)
        increments = jax.lax.scan(step, start, (jnp.arange(2), YS))[1]
        return jnp.cumsum(increments, 0)

    return np.asarray(eqx.filter_jit(jax.vmap(run))(keys))


@pytest.mark.parametrize(
    ("gradient", "entropy"),
    [("windowed", "closed"), pytest.param("forward", "sampled", marks=pytest.mark.long)],
)
def test_golden_gradient(gradient: str, entropy: str) -> None:
    """Every component within five standard errors of the quadrature (bias is below 1 / N).

    That both forms are equal for every entropy is said in test_windowed.py.
    """
    keys = jax.random.split(jax.random.key(0), 100)
    estimates = gradients(keys, num_particles=200, gradient=gradient, entropy=entropy)
    for step, exact in enumerate((EXACT_0, EXACT_1)):
        mean = estimates[:, step].mean(0)
        error = estimates[:, step].std(0) / np.sqrt(len(keys))
        np.testing.assert_array_less(np.abs(mean - exact), 5.0 * error + 4e-3)


def test_empirical_entropy_has_the_same_limit() -> None:
    """Its bias is of order 1 / N and vanishes: at N = 200 it is within a fiftieth."""
    keys = jax.random.split(jax.random.key(1), 100)
    estimates = gradients(keys, num_particles=200, entropy="empirical")
    error = estimates.std(0) / np.sqrt(len(keys))
    exact = np.stack([EXACT_0, EXACT_1])
    np.testing.assert_array_less(np.abs(estimates.mean(0) - exact), 5.0 * error + 2e-2)


@pytest.mark.parametrize(
    "backward",
    [rmcvi.SampledIndices(2), pytest.param(rmcvi.AcceptReject(2), marks=pytest.mark.long)],
)
def test_golden_gradient_with_drawn_indices(backward: Any) -> None:
    """Drawing indices is unbiased given the particles; test_recursion.py has both of their laws.

    With the entropy as printed, which the other golden gradients do not have.
    """
    keys = jax.random.split(jax.random.key(2), 200)
    estimates = gradients(keys, num_particles=100, backward=backward, entropy="sampled")
    error = estimates.std(0) / np.sqrt(len(keys))
    exact = np.stack([EXACT_0, EXACT_1])
    np.testing.assert_array_less(np.abs(estimates.mean(0) - exact), 5.0 * error + 8e-3)


@pytest.mark.long
def test_in_sample_control_variate_halves_the_score() -> None:
    """Errata A3: with M = 2 the printed control variate loses half of the potential's gradient."""
    keys = jax.random.split(jax.random.key(3), 200)
    estimates = gradients(
        keys,
        num_particles=100,
        backward=rmcvi.SampledIndices(2),
        control="in-sample",
        entropy="sampled",
    )
    mean = estimates[:, 1].mean(0)
    error = estimates[:, 1].std(0) / np.sqrt(len(keys))
    np.testing.assert_array_less(np.abs(mean[4:] - 0.5 * EXACT_1[4:]), 5.0 * error[4:] + 8e-3)
