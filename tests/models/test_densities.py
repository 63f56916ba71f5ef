"""Each log-density is SciPy's, integrates to one, and is what its sampler draws from."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from rmcvi.models import AbstractModel
from tests.models.zoo import LINE, ZOO, Case

NUM = 4000
TAIL = 2 * stats.norm.sf(5.0)


@eqx.filter_jit
def _log_probs(case: Case, x0, x, y):
    model, inputs = case.model, case.inputs
    return (
        jax.vmap(model.initial_log_prob)(x0),
        jax.vmap(lambda v: model.transition_log_prob(case.x_prev, v, inputs))(x),
        jax.vmap(lambda v: jnp.sum(model.emission_log_prob(case.x, v, inputs)))(y),
        jax.vmap(lambda v: model.observed_log_prob(case.x, v, inputs))(y),
    )


@eqx.filter_jit
def _samples(case: Case, key, num: int):
    model, inputs = case.model, case.inputs
    keys = jax.random.split(key, (3, num))
    drawn = (
        jax.vmap(model.initial_sample)(keys[0]),
        jax.vmap(lambda k: model.transition_sample(k, case.x_prev, inputs))(keys[1]),
        model.emission_draws(keys[2, 0], jnp.broadcast_to(case.x, (num, case.x.size)), inputs),
    )
    if type(model).emission_draws is AbstractModel.emission_draws:  # emission_sample, many times
        return drawn
    return *drawn, jax.vmap(lambda k: model.emission_sample(k, case.x, inputs))(keys[2])


@pytest.mark.parametrize("name", ZOO)
def test_log_densities_are_those_of_scipy(name):
    case = ZOO[name]()
    rng = np.random.default_rng(0)
    points = [law.points(rng, 8) for law in case.laws]
    initial, transition, emission, observed = _log_probs(case, *map(jnp.asarray, points))
    expected = [[law.log_prob(v) for v in vs] for law, vs in zip(case.laws, points, strict=True)]
    np.testing.assert_allclose(initial, expected[0], rtol=1e-10)
    np.testing.assert_allclose(transition, expected[1], rtol=1e-10)
    np.testing.assert_allclose(emission, expected[2], rtol=1e-10)
    np.testing.assert_allclose(observed, expected[2], rtol=1e-10)


def _assert_drawn_from(law: Any, draws: np.ndarray) -> None:
    uniforms = law.uniforms(draws)
    assert all(stats.kstest(column, "uniform").pvalue > TAIL for column in uniforms.T)
    scores = stats.norm.ppf(uniforms)
    cross = np.corrcoef(scores.T) * len(draws) ** 0.5 if draws.shape[1] > 1 else np.zeros((1, 1))
    assert np.all(np.abs(cross[~np.eye(len(cross), dtype=bool)]) < 5.0)


@pytest.mark.parametrize("name", [name for name in ZOO if name != "full"])
def test_samplers_draw_from_those_laws(name):
    case = ZOO[name]()
    drawn = _samples(case, jax.random.key(0), NUM)
    for law, draws in zip((*case.laws, case.laws[-1]), drawn, strict=False):
        _assert_drawn_from(law, np.asarray(draws))


@pytest.mark.parametrize("name", LINE)
def test_densities_on_the_line_integrate_to_one(name):
    case = LINE[name]()
    angle = np.pi * ((np.arange(20_000) + 0.5) / 20_000 - 0.5)
    grids = [law.mean[0] + law.factor[0, 0] * np.tan(angle) for law in case.laws]
    points = [jnp.asarray(grid)[:, None] for grid in grids]
    log_probs = _log_probs(case, *points)
    for law, log_prob in zip(case.laws, log_probs, strict=False):
        slope = law.factor[0, 0] / np.cos(angle) ** 2 * np.pi / angle.size
        np.testing.assert_allclose(np.sum(np.exp(log_prob) * slope), 1.0, rtol=1e-8)
