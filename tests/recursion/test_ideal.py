"""The exact recursions against brute force: joint Gaussians, and sums over all paths."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi.families import LinearGaussianFamily, RecurrentFamily
from rmcvi.models import LinearGaussian
from rmcvi.recursion.ideal_linear import ideal_elbo
from tests.reference import gaussian_joint
from tests.reference.ideal_finite import (
    FiniteFamily,
    FiniteModel,
    batch_elbo,
    ideal_finite_elbo,
)
from tests.reference.kalman import LinearSystem, kalman_filter

LENGTH, STATES = 6, 3
U, DT = np.random.default_rng(1).normal(size=(LENGTH, 1)), np.linspace(0.6, 1.4, LENGTH)

# F, G, transition noise, emission noise, mean and spread of x_0, B, D
MATRICES = (
    np.array([[0.8, 0.2], [-0.1, 0.7]]),
    np.array([[1.0, 0.3], [0.0, 1.0], [0.5, -0.4]]),
    np.array([[0.5, 0.0], [0.2, 0.4]]),
    np.array([[0.4, 0.0, 0.0], [0.1, 0.5, 0.0], [-0.2, 0.1, 0.3]]),
    np.array([0.5, -0.2]),
    np.array([0.9, 0.7]),
    np.array([[0.3], [-0.2]]),
    np.array([[0.1], [0.2], [-0.3]]),
)


def make_model(change: float = 0.0) -> tuple[LinearGaussian, LinearSystem]:
    """A model and the same system in NumPy, every non-zero entry moved by up to `change`."""
    rng = np.random.default_rng(0)
    raw = [m + change * (m != 0.0) * rng.uniform(-1.0, 1.0, m.shape) for m in MATRICES]
    F, G, S, C, m0, s0, B, D = raw
    system = LinearSystem.build(
        F, S @ S.T, G, C @ C.T, m0, np.diag(s0**2), LENGTH, B=B, D=D, u=U, dt=DT
    )
    return LinearGaussian(*raw), system


def make_stream() -> np.ndarray:
    ys = np.random.default_rng(2).normal(size=(LENGTH, 3))
    ys[0, 0], ys[2, 1:], ys[4] = np.nan, np.nan, np.nan
    return ys


@jax.jit
def value_and_grads(model: Any, family: Any, ys: Any) -> Any:
    """L_t for all t, and the gradient of the last in both arguments."""

    def last(pair):
        elbos = ideal_elbo(pair[0], pair[1], ys, jnp.asarray(U), jnp.asarray(DT))
        return elbos[-1], elbos

    grads, elbos = jax.grad(last, has_aux=True)((model, family))
    return elbos, *grads


def test_exact_posterior_gives_the_log_evidence() -> None:
    (model, system), ys = make_model(), make_stream()
    elbos, _, grad_phi = value_and_grads(model, LinearGaussianFamily(model), jnp.asarray(ys))
    np.testing.assert_allclose(elbos, kalman_filter(system, ys).log_evidence, atol=1e-10)
    for leaf in jax.tree.leaves(grad_phi):
        np.testing.assert_allclose(leaf, 0.0, atol=1e-10)


def test_wrong_posterior_loses_its_divergence() -> None:
    (model, system), (other, variational) = make_model(), make_model(0.1)
    ys = make_stream()
    elbos, *_ = value_and_grads(model, LinearGaussianFamily(other), jnp.asarray(ys))
    brute = [gaussian_joint.elbo(system, variational, ys[: t + 1]) for t in range(LENGTH)]
    np.testing.assert_allclose(elbos, brute, atol=1e-10)
    assert np.all(elbos < kalman_filter(system, ys).log_evidence - 1e-3)


def test_gradients_equal_finite_differences() -> None:
    """Move each parameter along one random direction; the family stays where it is."""
    (model, _), (other, _), ys = make_model(), make_model(0.1), jnp.asarray(make_stream())
    point = (model, LinearGaussianFamily(other))
    _, *grads = value_and_grads(*point, ys)
    flat, treedef = jax.tree.flatten(point)
    rng = np.random.default_rng(3)
    for k, (leaf, slope) in enumerate(zip(flat, jax.tree.leaves(grads), strict=True)):
        direction = rng.normal(size=leaf.shape)
        ends = []
        for sign in (-1.0, 1.0):
            moved = [*flat[:k], leaf + sign * 1e-5 * direction, *flat[k + 1 :]]
            ends.append(value_and_grads(*jax.tree.unflatten(treedef, moved), ys)[0][-1])
        difference = (ends[1] - ends[0]) / 2e-5
        np.testing.assert_allclose(np.vdot(slope, direction), difference, atol=1e-7)


@pytest.mark.long
def test_tied_family_is_a_constant_in_the_gradient() -> None:
    (model, _), ys = make_model(), jnp.asarray(make_stream())
    tied = value_and_grads(model, LinearGaussianFamily(), ys)
    own = value_and_grads(model, LinearGaussianFamily(model), ys)
    np.testing.assert_allclose(tied[0], own[0], atol=1e-12)
    for a, b in zip(jax.tree.leaves(tied[1]), jax.tree.leaves(own[1]), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_wrong_calls_say_what_was_expected() -> None:
    model, _ = make_model()
    recurrent = eqx.filter_eval_shape(RecurrentFamily, 2, 3, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"family: got RecurrentFamily, expected LinearGaussian"):
        ideal_elbo(model, recurrent, jnp.zeros((LENGTH, 3)), jnp.zeros((LENGTH, 1)))
    with pytest.raises(ValueError, match=r"ys: got an array of shape \(6, 2\)"):
        ideal_elbo(model, LinearGaussianFamily(), jnp.zeros((LENGTH, 2)))
    finite, family = make_finite()
    with pytest.raises(ValueError, match=r"t: got 4, expected less than the 4 rows"):
        batch_elbo(finite, family, 4)


def make_finite() -> tuple[FiniteModel, FiniteFamily]:
    rng = np.random.default_rng(5)
    k, T = STATES, 4
    model = FiniteModel(*(jnp.asarray(rng.normal(size=s)) for s in ((k,), (k, k), (T, k))))
    return model, FiniteFamily(*(jnp.asarray(rng.normal(size=s)) for s in ((T, k), (T, k, k))))


def test_finite_recursion_equals_the_sum_over_paths() -> None:
    """Value and both gradients at every prefix (identity (ii) of the errata)."""
    model, family = make_finite()

    def prefixes(pair):
        return jnp.stack([batch_elbo(pair[0], pair[1], t) for t in range(4)])

    ideal = jax.jit(ideal_finite_elbo)(model, family)
    value, grads = jax.jit(lambda p: (prefixes(p), jax.jacrev(prefixes)(p)))((model, family))
    np.testing.assert_allclose(ideal.value, value, atol=1e-10)
    forward = jax.tree.leaves((ideal.grad_model, ideal.grad_family))
    for a, b in zip(forward, jax.tree.leaves(grads), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)
    assert jnp.max(jnp.abs(ideal.grad_family.potential[-1, 1:])) > 1e-3


def test_finite_exact_posterior_gives_the_log_evidence() -> None:
    """q_t by the forward algorithm and log m as the potential: no gap, no slope in phi."""
    model, family = make_finite()
    alpha = [model.log_chi + model.log_g[0]]
    for t in range(1, 4):
        alpha.append(jax.nn.logsumexp(alpha[-1][:, None] + model.log_m, 0) + model.log_g[t])
    exact = FiniteFamily(jnp.stack(alpha), jnp.broadcast_to(model.log_m.T, family.potential.shape))
    ideal = jax.jit(ideal_finite_elbo)(model, exact)
    np.testing.assert_allclose(ideal.value, jax.nn.logsumexp(jnp.stack(alpha), 1), atol=1e-10)
    for leaf in jax.tree.leaves(ideal.grad_family):
        np.testing.assert_allclose(leaf, 0.0, atol=1e-10)
