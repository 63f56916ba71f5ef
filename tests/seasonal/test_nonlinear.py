"""The nonlinear path: its gradient, and what it is for."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import rmcvi
from rmcvi.core.student import log_density
from rmcvi.learners.seasonal import SeasonalLearner
from rmcvi.learners.seasonal.nonlinear import FIRST, Base, Nonlinear
from rmcvi.learners.seasonal.predict import Row, predict


@jax.jit
def _gradients(z: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Of the log score of a row in the units: what is learned by, and that of `jax.grad`."""
    ensemble = SeasonalLearner(2, period=4, long_period=None, harmonics=1).ensemble
    design, learned = ensemble.design, ensemble.nothing()
    row = Row(jnp.zeros(0), jnp.ones(()), jnp.ones(()))
    columns, gap, paths = learned.columns, jnp.ones(2), learned.components
    start = jnp.linspace(-1.0, 1.0, paths.path.state.mean.shape[-1])
    paths = eqx.tree_at(lambda c: c.path.state.mean, paths, jnp.tile(start, (3, 1)))
    told = jax.vmap(
        lambda c, mask: predict(c, c.path, c.season(columns, row.phase, design), mask, row, design)
    )(paths, ensemble.kind.mask)
    base = Base.of(paths, *told)
    weights = 0.02 * jax.random.normal(jax.random.key(0), (2, 5))
    path = eqx.tree_at(lambda n: n.weights, Nonlinear.unknown(5, design), weights)

    def log_score(inner: jax.Array) -> jax.Array:
        said = eqx.tree_at(lambda n: n.inner, path, inner).predict(base, columns, row, gap, design)
        root = jnp.sqrt(base.predicted.variance)
        error = (z - base.predicted.mu - said.offset) / root
        return jnp.sum(log_density(error, ensemble.settings.degrees)[:1])

    said = path.predict(base, columns, row, gap, design)
    new = path.learn(said, base, z, jnp.array([True, False]), ensemble.settings)
    return new.first / (1.0 - FIRST), jax.grad(log_score)(path.inner)


def test_units_follow_the_gradient_of_the_log_score() -> None:
    """Of the columns that teach: the second is missing."""
    by_hand, automatic = _gradients(jnp.array([0.7, -2.0]))
    assert np.abs(automatic).max() > 1e-3
    np.testing.assert_allclose(by_hand, automatic, rtol=1e-8, atol=1e-12)


def _prediction(_: Any, __: Any, info: Any) -> Any:
    return info.prediction.mean


def test_it_finds_what_is_curved_and_costs_nothing_elsewhere() -> None:
    """A column that hangs on the product of two others, and one that hangs on their sum."""
    y = np.random.default_rng(3).standard_normal((3000, 4))
    y[1:, 2] = 0.3 * y[1:, 2] + y[:-1, 0] * y[:-1, 1]
    y[1:, 3] = 0.3 * y[1:, 3] + y[:-1, 0] + y[:-1, 1]
    error = []
    for hidden in (0, 32):
        model = SeasonalLearner(
            4, period=None, hidden=hidden, cross=1, own=1, plain=False, window=8
        )
        _, mean = rmcvi.scan(model, model.init(jax.random.key(0)), y, collect=_prediction)
        error.append(np.sqrt(np.mean((mean - y)[1500:] ** 2, 0)))
    ratio = error[1] / error[0]
    assert np.all(ratio[[0, 1, 3]] < 1.01)
    assert ratio[2] < 0.7
