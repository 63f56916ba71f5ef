"""What every family promises: shapes, admissible parameters, finite gradients, a learned start."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
from rmcvi.families import (
    AbstractFamily,
    ExtendedKalmanFamily,
    InnovationFamily,
    LinearGaussianFamily,
    PerStepFamily,
    RecurrentFamily,
)
from tests.families.blank import blank
from tests.models.zoo import ZOO, Case

KEY = jax.random.key(0)


def recurrent(model, **options) -> RecurrentFamily:
    """A small recurrent family for the model's dimensions."""
    sizes = {"dim_input": model.dim_input, "memory": 3, "width": 4}
    return RecurrentFamily(model.dim_state, model.dim_obs, key=KEY, **sizes, **options)


FAMILIES: dict[str, Callable[[Any], AbstractFamily]] = {
    "recurrent": recurrent,
    "recurrent-full": lambda m: recurrent(m, diagonal=False, bound=2.0, spectral_norm=0.9),
    "innovation": lambda m: InnovationFamily(m, key=KEY, hidden=4, memory=2),
    "extended": lambda m: ExtendedKalmanFamily(m, key=KEY, hidden=4, memory=2),
    "extended-full": lambda m: ExtendedKalmanFamily(m, key=KEY, hidden=4, diagonal=False),
    "linear": lambda m: LinearGaussianFamily(m),
    "linear-diagonal": lambda m: LinearGaussianFamily(m, diagonal=True),
    "linear-tied": lambda m: LinearGaussianFamily(),
    "per-step": lambda m: PerStepFamily(m, key=KEY, hidden=4),
}
# Where each of them keeps a_{-1} (the other options share their code paths).
STARTS: dict[str, Callable[[Any], Any]] = {
    "recurrent": lambda g: g.start,
    "recurrent-full": lambda g: g.start,
    "innovation": lambda g: (g.start_mean, g.start_log_precision, g.start_memory),
    "extended": lambda g: (g.start_shift, g.start_memory),
    "linear": lambda g: g.kalman.initial_mean,
    "per-step": lambda g: g,
}


def _avals(value) -> list[tuple]:
    return [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(value)]


@pytest.mark.parametrize("model", ["correlated", "neural"])
@pytest.mark.parametrize("name", FAMILIES)
def test_shapes(name, model):
    """Traced, not run: carries keep their type, potentials add to marginals."""
    case = ZOO[model]()

    def step(y, x):
        family = FAMILIES[name](case.model)
        before = family.initial_carry(case.model)
        after = family.advance(case.model, before, y, case.inputs)
        potential = family.potential(case.model, before, x, case.inputs)
        statistic = family.distribution.statistic(x)
        arrays = eqx.filter(family, eqx.is_array)
        return arrays, before, after, family.marginal(after), potential, statistic

    y = jnp.zeros(case.model.dim_obs)
    arrays, before, after, eta, potential, statistic = eqx.filter_eval_shape(step, y, case.x)
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(arrays))
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert _avals(before) == _avals(after)
    assert jax.tree.structure(eta) == jax.tree.structure(potential)
    assert jax.tree.structure(eta) == jax.tree.structure(statistic)
    assert _avals(eta) == _avals(potential) == _avals(statistic)


def _family(name: str, case: Case) -> AbstractFamily:
    """Random networks; a Kalman family has none."""
    build = FAMILIES[name]
    if name.startswith("linear"):
        return build(case.model)
    return blank(lambda: build(case.model), 0.4)


YS = np.array([[0.4, np.nan], [np.nan, np.nan], [0.1, -0.8], [np.nan, 1.2]])


@eqx.filter_jit
def _run(family: AbstractFamily, case: Case, ys):
    """Covariances of q_t and q_{t-1|t} along a stream, and a gradient through all of them."""
    trained, static = eqx.partition(family, eqx.is_inexact_array)

    def objective(trained):
        family = eqx.combine(trained, static)
        q = family.distribution

        def step(carry, y):
            new = family.advance(case.model, carry, y, case.inputs)
            eta = family.marginal(new)
            added = family.potential(case.model, carry, case.x, case.inputs)
            back = tree.add(family.marginal(carry), added)
            score = q.log_prob(eta, case.x) + q.log_prob(back, case.x_prev) + q.entropy(back)
            return new, (score, q.covariance(eta), q.covariance(back))

        _, (scores, *covariances) = jax.lax.scan(step, family.initial_carry(case.model), ys)
        return jnp.sum(scores), covariances

    return jax.value_and_grad(objective, has_aux=True)(trained)


@pytest.mark.parametrize("name", STARTS)
def test_missing_values_leave_everything_finite(name):
    """Whole rows and single coordinates are NaN; gradients reach every parameter and a_{-1}."""
    case = ZOO["diagonal"]()
    (value, covariances), grad = _run(_family(name, case), case, jnp.asarray(YS))
    assert np.isfinite(value)
    assert all(np.all(np.linalg.eigvalsh(c) > 0.0) for c in covariances)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(grad))
    for leaf in jax.tree.leaves(STARTS[name](grad)):
        assert float(jnp.max(jnp.abs(leaf))) > 1e-8


def test_a_tied_linear_family_has_nothing_to_learn():
    assert jax.tree.leaves(eqx.filter(LinearGaussianFamily(), eqx.is_array)) == []


@eqx.filter_jit
def _after(family: AbstractFamily, case: Case, y, u, dt):
    """q_1 after seeing y twice."""

    def step(carry, _):
        return family.advance(case.model, carry, y, Inputs(u, dt)), None

    carry, _ = jax.lax.scan(step, family.initial_carry(case.model), length=2)
    return jnp.concatenate(jax.tree.leaves(family.marginal(carry)))


@pytest.mark.parametrize("name", ["recurrent", "innovation", "extended"])
def test_mask_inputs_and_steps_reach_the_cell(name):
    """A missing value is no zero; another input or step length leads elsewhere."""
    case = ZOO["neural"]()
    family = _family(name, case)
    usual = {"y": jnp.zeros(3), "u": jnp.zeros(1), "dt": jnp.ones(())}
    found = _after(family, case, **usual)
    for change in ({"y": jnp.full(3, jnp.nan)}, {"u": jnp.ones(1)}, {"dt": 2.0 * usual["dt"]}):
        assert not np.allclose(found, _after(family, case, **{**usual, **change}), rtol=1e-6)


def test_the_default_projection_changes_nothing():
    family = LinearGaussianFamily()
    assert family.project() is family
