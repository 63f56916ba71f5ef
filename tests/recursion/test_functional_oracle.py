"""Additive functionals under the exact posterior: the Kalman smoother, and `particles`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi import RMCVI, AdditiveFunctional, Inputs, Trainable
from rmcvi.families import LinearGaussianFamily
from rmcvi.models import LinearGaussian
from tests.reference.kalman import LinearSystem, kalman_filter, rts_smoother

LENGTH = 8
F, G = np.array([[0.8, 0.2], [-0.1, 0.7]]), np.array([[1.0, 0.4]])
S, R = np.array([0.5, 0.4]), np.array([0.5])
M0, S0 = np.array([0.3, -0.2]), np.array([0.9, 0.7])


def products(x_prev: Any, x: Any) -> dict[str, Any]:
    """Sufficient statistics of the transition."""
    return {"cross": jnp.outer(x_prev, x), "square": x**2}


def running_values(
    model: LinearGaussian, functional: AdditiveFunctional, ys: np.ndarray, num: int, runs: int
) -> Any:
    """The running smoothed expectation at every t, for independent runs of `num` particles."""
    family, nothing = LinearGaussianFamily(model), Trainable(model=False, family=False)
    recursion = RMCVI(num, window=2, bptt=1, functional=functional)
    steps = (
        jnp.arange(len(ys)),
        jnp.asarray(ys),
        Inputs(jnp.zeros((len(ys), 0)), jnp.ones(len(ys))),
    )

    def one(key):
        def step(state, now):
            t, y, inputs = now
            state, _, info = recursion.step(
                state, model, family, y, inputs, jax.random.fold_in(key, t), nothing
            )
            return state, info.functional

        return jax.lax.scan(step, recursion.init(model, family, nothing), steps)[1]

    keys = jax.random.split(jax.random.key(0), runs)
    return jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=8))(keys)


def smoothed_products(system: LinearSystem, ys: np.ndarray, forget: float) -> dict[str, Any]:
    """The same expectations from the Kalman smoother of every prefix, exactly."""
    cross, square = [], []
    for t in range(len(ys)):
        law = rts_smoother(system, kalman_filter(system, ys[: t + 1]))
        weight = forget ** np.arange(t - 1, -1, -1)
        means = np.einsum("ti,tj->tij", law.mean[:-1], law.mean[1:])
        variances = np.diagonal(law.cov, axis1=1, axis2=2)
        cross.append(np.tensordot(weight, law.lag_one[1:] + means, 1))
        square.append(np.tensordot(weight, (variances + law.mean**2)[1:], 1))
    return {"cross": np.array(cross), "square": np.array(square)}


def z_scores(runs: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Mean minus expectation in standard errors; 0 where both are constants and agree."""
    gap, se = runs.mean(0) - expected, runs.std(0, ddof=1) / np.sqrt(len(runs))
    return np.where(np.abs(gap) < 1e-12, 0.0, gap / np.maximum(se, 1e-300))


@pytest.mark.long
def test_functional_is_the_smoothed_expectation() -> None:
    """256 particles in 16 runs: the bias, 1/N, is below the standard error, (N runs)^-1/2.

    Calibrated weights are compared to 1e-6, in test_calibrated.py.
    """
    forget = 0.7
    ys = np.random.default_rng(0).normal(size=(LENGTH, 1))
    ys[3] = np.nan
    model = LinearGaussian(F, G, S, R, M0, S0)
    system = LinearSystem.build(F, np.diag(S**2), G, np.diag(R**2), M0, np.diag(S0**2), LENGTH)
    got = running_values(model, AdditiveFunctional(products, forget), ys, 256, 16)
    expected = smoothed_products(system, ys, forget)
    for name in ("cross", "square"):
        z = z_scores(np.asarray(got[name]), expected[name])
        assert np.max(np.abs(z)) <= 5.0, (name, z)
        assert np.all(got[name][:, 0] == 0.0)
        assert np.max(np.abs(expected[name])) > 0.5


def particle_values(ys: np.ndarray, num: int, runs: int) -> dict[str, np.ndarray]:
    """The last value of both online smoothers of `particles`, started at 0 as ours is."""
    import particles
    from particles import distributions, state_space_models
    from particles.collectors import Online_smooth_ON2, Paris

    class Line(state_space_models.StateSpaceModel):
        def PX0(self):
            return distributions.Normal(loc=0.3, scale=0.9)

        def PX(self, t, xp):
            return distributions.Normal(loc=0.8 * xp, scale=0.5)

        def PY(self, t, xp, x):
            return distributions.Normal(loc=x, scale=0.5)

        def upper_bound_log_pt(self, t):
            return -0.5 * np.log(2.0 * np.pi * 0.25)

        def add_func(self, t, xp, x):
            return np.zeros_like(x) if t == 0 else xp * x

    def one():
        fk = state_space_models.Bootstrap(ssm=Line(), data=list(ys[:, 0]))
        smc = particles.SMC(fk=fk, N=num, collect=[Online_smooth_ON2(), Paris()])
        smc.run()
        values = vars(smc.summaries)
        return values["online_smooth_ON2"][-1], values["paris"][-1]

    state = np.random.get_state()
    np.random.seed(0)
    values = np.array([one() for _ in range(runs)])
    np.random.set_state(state)
    return {"ON2": values[:, 0], "paris": values[:, 1]}


@pytest.mark.long
def test_functional_agrees_with_particles() -> None:
    ys = np.random.default_rng(1).normal(size=(LENGTH, 1))
    line = LinearGaussian(np.array([[0.8]]), np.array([[1.0]]), 0.5, 0.5, 0.3, 0.9)
    functional = AdditiveFunctional(lambda x_prev, x: x_prev[0] * x[0])
    ours = np.asarray(running_values(line, functional, ys, 256, 16))[:, -1]
    for name, theirs in particle_values(ys, 50, 16).items():
        gap = ours.mean() - theirs.mean()
        se = np.hypot(ours.std(ddof=1) / np.sqrt(16), theirs.std(ddof=1) / np.sqrt(16))
        assert abs(gap) <= 5.0 * se, (name, gap, se)
        assert se < 0.1
