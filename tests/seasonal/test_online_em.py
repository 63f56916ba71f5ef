"""The learner's regressions are the M-step of online EM where the state is seen exactly.

`OnlineEM` of the library, given the same rows, finds the same coefficients (section 5 of
docs/theory/seasonal.md): once with the rows of the learner itself, once with expectations by
`NaturalRMCVI`.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rmcvi
from rmcvi import Inputs, Trainable
from rmcvi.families import LinearGaussianFamily
from rmcvi.learners.seasonal import SeasonalLearner
from rmcvi.learners.seasonal.predict import Row, predict, standardised
from rmcvi.models import LinearGaussian
from rmcvi.optim import OnlineEM

PLAIN = OnlineEM(power=1.0, prior=0.0, warm_up=1)
"""A mean over all rows, and nothing that the start is worth."""


def model(inputs: int, obs_noise: float = 0.1) -> LinearGaussian:
    """x_t = f x_{t-1} + b' u_t + noise: one column, its other inputs in u."""
    one = jnp.ones((1, 1))
    return LinearGaussian(
        0.5 * one,
        one,
        jnp.ones(1),
        jnp.full(1, obs_noise),
        state_input=jnp.zeros((1, inputs)),
        obs_input=jnp.zeros((1, inputs)),
    )


def transition(fitted: Any) -> np.ndarray:
    part = fitted.linear_transition()
    return np.asarray(part.coefficients.value).ravel()


@eqx.filter_jit
def take(em_state: Any, fitted: LinearGaussian, phi: Any, x: Any, variance: Any) -> Any:
    """One row of a known state, in units of its noise.

    Its statistic is the gradient of the tilted model there.
    """
    tilted, _ = PLAIN.tilted(fitted, Trainable())
    phi, x = phi / jnp.sqrt(variance), x / jnp.sqrt(variance)
    inputs = Inputs(phi[1:], jnp.ones(()))
    statistic = jax.grad(lambda m: m.transition_tilt(phi[:1], x, inputs))(tilted)
    share = jax.tree.map(lambda _: jnp.ones(()), fitted)
    return PLAIN.step(em_state, fitted, statistic, Trainable(), share)


def test_the_learners_regression_is_the_m_step() -> None:
    """Forty rows of a run, from the law of the coefficients that it had before them."""
    learner = SeasonalLearner(1, period=6, long_period=None, harmonics=1, plain=False, keep=1.0)
    rng, ys, level = np.random.default_rng(0), [], 0.0
    for t in range(120):
        level = 0.8 * level + 0.3 * rng.standard_normal()
        ys.append([5.0 + np.sin(2.0 * np.pi * t / 6.0) + level])

    @eqx.filter_jit
    def seen(state: Any, y: Any) -> Any:
        """What the first component's regression is given: inputs, value, variance."""
        first, mask = jax.tree.map(
            lambda v: v[0], (state.learned.components, learner.ensemble.kind.mask)
        )
        columns, design = state.learned.columns, learner.design
        row = Row(jnp.zeros(0), (state.clock + 1.0) % 6.0, jnp.ones(()))
        season = first.season(columns, row.phase, design)
        told, _ = predict(first, first.path, season, mask, row, design)
        z, _ = standardised(first, columns, jnp.zeros((), bool), y)
        past = first.path.state.past(1)
        waves, _ = design.season(row.phase)
        phi = mask[None] * design.inputs(past, first.path.older, season, waves, row.u)
        nu, ratio = learner.ensemble.settings.degrees, (z - told.mu) ** 2 / told.variance
        free = jnp.maximum(told.variance - told.leverage, told.noise)
        return phi[0], z, free[0] * (nu + ratio[0]) / (nu + 1.0)

    state = learner.init(jax.random.key(0))
    for y in ys[:80]:
        state, _ = learner.update(state, np.array(y))
    law = jax.tree.map(lambda v: v[0, 0], state.learned.components.rows)
    used = np.asarray(learner.ensemble.kind.mask[0]) > 0.0
    # The law before these rows, as rows of its own: phi' w = phi' m + noise of variance 1.
    roots = np.linalg.cholesky(np.linalg.inv(law.covariance)).T
    fitted: Any = model(len(used) - 1)
    em_state = PLAIN.init(fitted, Trainable())
    one = jnp.ones(())
    for phi in roots:
        em_state, fitted = take(em_state, fitted, phi, phi[None] @ law.weights, one)
    for y in ys[80:]:
        phi, z, variance = seen(state, jnp.asarray(y))
        state, _ = learner.update(state, np.array(y))
        em_state, fitted = take(em_state, fitted, phi, z, variance)
    after = state.learned.components.rows.weights[0, 0]
    assert used.all()
    assert np.abs(after - law.weights).max() > 1e-3  # the rows have taught something
    np.testing.assert_allclose(transition(fitted), after, rtol=1e-8, atol=1e-9)


@pytest.mark.long
def test_expectations_by_natural_rmcvi() -> None:
    """The recursion finds the statistics itself where y tells x, and EM the regression."""
    rng, rows = np.random.default_rng(1), 150
    u, x = rng.standard_normal((rows, 2)), np.zeros(rows)
    for t in range(1, rows):
        x[t] = 0.7 * x[t - 1] + u[t] @ [0.5, -0.2] + 0.3 * rng.standard_normal()
    start = model(2, obs_noise=1e-4)
    spec = Trainable(model=rmcvi.only(start, lambda m: (m.transition, m.state_input)))
    learner = rmcvi.OnlineEstimator(
        start,
        LinearGaussianFamily(),
        rmcvi.NaturalRMCVI(8),
        optax.sgd(0.0),
        optax.sgd(0.0),
        trainable=spec,
        em=PLAIN,
        draws=0,
        health=False,
        drift=False,
        sensors=False,
        trial=False,
    )
    state = learner.init(jax.random.key(0))
    state, _ = rmcvi.scan(learner, state, x[:, None], u, collect=lambda *_: None)
    phi = np.column_stack([x[:-1], u[1:]])
    wide = np.linalg.solve(phi.T @ phi + 1e-4 * np.eye(3), phi.T @ x[1:])
    # The noise of y leaves 1e-8 of the variance of x unknown.
    np.testing.assert_allclose(transition(learner.model_at(state)), wide, rtol=1e-5)
