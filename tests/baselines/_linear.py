"""Linear-Gaussian streams and their textbook answers, shared by the tests of the rivals."""

from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from rmcvi import Inputs, Trainable, simulate
from rmcvi.models import LinearGaussian
from tests.reference.kalman import LinearSystem

F = np.array([[0.8, 0.2], [-0.1, 0.7]])
G = np.array([[1.0, 0.3], [0.0, 1.0], [0.5, -0.4]])
S = np.array([[0.5, 0.0], [0.2, 0.4]])
C = np.array([[0.4, 0.0, 0.0], [0.1, 0.5, 0.0], [-0.2, 0.1, 0.3]])
M0, S0 = np.array([0.5, -0.2]), np.array([0.9, 0.7])
B, D = np.array([[0.3], [-0.2]]), np.array([[0.1], [0.2], [-0.3]])


class Case(NamedTuple):
    """A model with its textbook matrices and a stream."""

    model: Any
    system: Any
    ys: np.ndarray
    inputs: Inputs


@cache
def full_case(length: int = 12) -> Case:
    """Two states, correlated noises, three coordinates with gaps, inputs and uneven steps."""
    rng = np.random.default_rng(3)
    u, dt = rng.normal(size=(length, 1)), rng.uniform(0.5, 1.5, length)
    system = LinearSystem.build(
        F, S @ S.T, G, C @ C.T, M0, np.diag(S0**2), length, B=B, D=D, u=u, dt=dt
    )
    ys = rng.normal(size=(length, 3))
    ys[0, 1], ys[3, :2], ys[5] = np.nan, np.nan, np.nan
    model = LinearGaussian(F, G, S, C, M0, S0, B, D)
    return Case(model, system, ys, Inputs(jnp.asarray(u), jnp.asarray(dt)))


@cache
def typical_case(length: int = 8) -> Case:
    """The same with a stream that the model itself has made, so that few particles do."""
    case = full_case(length)
    _, ys = simulate(case.model, jax.random.key(7), length, case.inputs.u, case.inputs.dt)
    return case._replace(ys=np.where(np.isnan(case.ys), np.nan, np.asarray(ys)))


@cache
def diagonal_case(length: int = 12) -> Case:
    """Independent coordinates, with gaps and uneven steps."""
    rng = np.random.default_rng(4)
    f, g, s, r = np.array([0.9, 0.5]), np.array([1.0, 0.7]), np.array([0.3, 0.6]), 0.4
    dt = rng.uniform(0.5, 1.5, length)
    system = LinearSystem.build(
        np.diag(f), np.diag(s**2), np.diag(g), r**2 * np.eye(2), M0, np.diag(S0**2), length, dt=dt
    )
    ys = rng.normal(size=(length, 2))
    ys[4, 1], ys[6] = np.nan, np.nan
    model = LinearGaussian(f, g, s, np.full(2, r), M0, S0)
    return Case(model, system, ys, Inputs(jnp.zeros((length, 0)), jnp.asarray(dt)))


@cache
def scalar_case(length: int = 8) -> Case:
    """One state seen with noise, one gap."""
    ys = np.random.default_rng(1).normal(size=(length, 1))
    ys[3] = np.nan
    one = np.eye(1)
    system = LinearSystem.build(
        0.8 * one, 0.25 * one, one, 0.25 * one, np.array([0.3]), 0.81 * one, length
    )
    model = LinearGaussian(np.array([0.8]), np.array([1.0]), 0.5, 0.5, 0.3, 0.9)
    return Case(model, system, ys, Inputs(jnp.zeros((length, 0)), jnp.ones(length)))


def follow(
    recursion: Any, case: Case, family: Any, keys: jax.Array, trainable: Trainable | None = None
) -> Any:
    """(infos, filtered laws, flat increments) with parameters held, one leading row per key."""
    steps = (jnp.arange(len(case.ys)), jnp.asarray(case.ys), case.inputs)

    def one(key):
        def step(state, now):
            t, y, inputs = now
            state, grads, info = recursion.step(
                state, case.model, family, y, inputs, jax.random.fold_in(key, t), trainable
            )
            law = recursion.filtered(state, case.model, family)
            return state, (info, law, ravel_pytree(eqx.filter(grads, eqx.is_array))[0])

        return jax.lax.scan(step, recursion.init(case.model, family, trainable), steps)[1]

    return jax.jit(jax.vmap(one))(keys)


def z_score(runs: Any, expected: Any) -> float:
    """Largest distance of the runs' mean from the truth, in standard errors."""
    runs = np.asarray(runs)
    gap, se = runs.mean(0) - expected, runs.std(0, ddof=1) / np.sqrt(len(runs))
    return float(np.max(np.abs(np.where(np.abs(gap) < 1e-12, 0.0, gap / np.maximum(se, 1e-300)))))
