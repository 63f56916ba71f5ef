"""Families that imitate a Kalman step: nothing seen is prediction, zero networks are Kalman's."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi.families import (
    AbstractFamily,
    ExtendedKalmanFamily,
    InnovationFamily,
    LinearGaussianFamily,
    PerStepFamily,
)
from tests.core.unhooked import unhooked
from tests.families.blank import blank
from tests.models.zoo import ZOO, Case

KEY = jax.random.key(0)
MODELS = {"correlated": False, "chaotic": True, "volatility": False}  # independent coordinates?


@eqx.filter_jit
def _run(families: dict[str, AbstractFamily], case: Case, ys):
    """Carries, marginals, potentials and covariances along the stream."""

    def one(family: AbstractFamily):
        def step(carry, y):
            new = family.advance(case.model, carry, y, case.inputs)
            eta = family.marginal(new)
            added = family.potential(case.model, carry, case.x, case.inputs)
            return new, (carry, eta, added, family.distribution.covariance(eta))

        return jax.lax.scan(step, family.initial_carry(case.model), ys)[1]

    return {name: one(family) for name, family in families.items()}


def _stream(dim: int) -> np.ndarray:
    """Nothing seen, everything, something, nothing."""
    ys = np.random.default_rng(0).normal(size=(4, dim))
    ys[0], ys[2, 0], ys[3] = np.nan, np.nan, np.nan
    return ys


@pytest.fixture(scope="module", params=MODELS)
def tied(request) -> tuple[Case, dict]:
    """A case and what the families make of the stream."""
    case, diagonal = ZOO[request.param](), MODELS[request.param]
    model = case.model
    families = {
        "kalman": LinearGaussianFamily(diagonal=diagonal),
        "extended": blank(lambda: ExtendedKalmanFamily(model, key=KEY, diagonal=diagonal)),
        "innovation": blank(lambda: InnovationFamily(model, key=KEY)),
    }
    out = _run(families, case, jnp.asarray(_stream(model.dim_obs)))
    return case, jax.tree.map(np.asarray, out)


def test_nothing_seen_at_first_is_the_initial_law(tied):
    case, out = tied
    law = case.laws.initial
    for name in ("kalman", "extended"):
        _, eta, _, covariance = out[name]
        np.testing.assert_allclose(covariance[0], law.factor @ law.factor.T, atol=1e-12)
        precision = np.linalg.inv(covariance[0]) @ law.mean
        np.testing.assert_allclose(eta.linear[0], precision, rtol=1e-9, atol=1e-12)


def test_nothing_seen_later_is_the_prediction(tied):
    """m = f(m), P = F P F' + S S' from the moments before, with the Jacobian by differences."""
    case, out = tied
    carry, eta, _, covariance = out["kalman"]
    mean, before = carry.mean[3], carry.covariance[3]

    def move(m):
        return np.asarray(case.model.transition_mean(jnp.asarray(m), case.inputs))

    jacobian = np.stack(
        [(move(mean + e) - move(mean - e)) / 2e-6 for e in 1e-6 * np.eye(mean.size)], 1
    )
    factor = case.laws.transition.factor
    expected = jacobian @ before @ jacobian.T + factor @ factor.T
    if eta.precision.ndim == 2:
        expected = np.diag(1.0 / np.diag(np.linalg.inv(expected)))
    np.testing.assert_allclose(covariance[3], expected, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(covariance[3] @ eta.linear[3], move(mean), rtol=1e-9)


def test_silent_networks_are_the_kalman_family(tied):
    """Marginals and potentials, whatever is seen."""
    _, out = tied
    pairs = zip(*(jax.tree.leaves(out[name][1:]) for name in ("extended", "kalman")), strict=True)
    for ours, expected in pairs:
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)


def test_silent_innovations_are_predictions(tied):
    case, out = tied
    carry, eta, added, _ = out["innovation"]
    for t in range(4):
        moved = case.model.transition_mean(jnp.asarray(carry.mean[t]), case.inputs)
        np.testing.assert_allclose(eta.linear[t] / eta.precision[t], moved, rtol=1e-10, atol=1e-12)
    variance = np.sum(case.laws.transition.factor**2, 1)
    np.testing.assert_allclose(eta.precision, np.tile(1 / variance, (4, 1)), rtol=1e-10)
    np.testing.assert_allclose(added.linear / added.precision, np.tile(case.x, (4, 1)), rtol=1e-10)


def test_the_linearised_potential_is_the_transition_density():
    """In a linear model exp<potential(x), T(.)> is m(., x) up to a constant."""
    case = ZOO["correlated"]()
    family = LinearGaussianFamily()

    @eqx.filter_jit
    def both(case: Case, points):
        eta = family.potential(case.model, family.initial_carry(case.model), case.x, case.inputs)
        ours = jax.vmap(lambda v: eta.linear @ v - 0.5 * v @ eta.precision @ v)(points)
        exact = jax.vmap(lambda v: case.model.transition_log_prob(v, case.x, case.inputs))(points)
        return ours, exact

    points = jnp.asarray(np.random.default_rng(3).normal(size=(9, 2)))
    ours, exact = map(np.asarray, both(case, points))
    np.testing.assert_allclose(ours - ours[0], exact - exact[0], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_per_step_warm_start_is_the_linearised_prediction(name):
    case = ZOO[name]()
    model, inputs = case.model, case.inputs
    dim = model.dim_state

    @eqx.filter_jit
    def moments(case: Case):
        family = PerStepFamily(model, key=KEY, hidden=2)
        moved = eqx.tree_at(lambda f: f.mean, family, case.x_prev)
        ahead = moved.warm_start(model, case.inputs)
        q, before, after = family.distribution, moved.parameters(), ahead.parameters()
        laws = [(q.mean(e), q.covariance(e)) for e in map(family.marginal, (before, after))]
        return laws, model.transition_jacobian(case.x_prev, inputs), (moved.net, ahead.net)

    ((mean, cov), (ahead, ahead_cov)), jacobian, nets = moments(case)
    law = case.laws.transition
    np.testing.assert_allclose(mean, case.x_prev, rtol=1e-10)
    step = float(inputs.dt)
    np.testing.assert_allclose(jnp.diagonal(cov), np.sum(law.factor**2, 1) / step, rtol=1e-9)
    predicted = np.asarray(jacobian @ cov @ jacobian.T) + law.factor @ law.factor.T
    np.testing.assert_allclose(ahead, law.mean, rtol=1e-10)
    np.testing.assert_allclose(ahead_cov, np.diag(np.diag(predicted)), rtol=1e-9, atol=1e-14)
    assert ahead.shape == (dim,)
    for a, b in zip(*map(jax.tree.leaves, eqx.filter(nets, eqx.is_array)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_family_of_its_own_ignores_the_model():
    """Errata B3: with its own Kalman model, there need not even be another one."""
    case = ZOO["diagonal"]()

    def alone(family: LinearGaussianFamily):
        carry = family.initial_carry(None)
        new = family.advance(None, carry, case.x, case.inputs)
        return family.marginal(new), family.potential(None, carry, case.x, case.inputs)

    assert eqx.filter_eval_shape(alone, LinearGaussianFamily(case.model))
    with unhooked(), pytest.raises(AttributeError):
        eqx.filter_eval_shape(alone, LinearGaussianFamily())
