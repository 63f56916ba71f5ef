"""What a stream costs besides time: one compilation per learner, and memory that stays."""

import resource
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import rmcvi
from rmcvi.baselines import Persistence
from tests.learners._resumed import QUICK

TRACED: list[int] = []


class Counting(rmcvi.AbstractLearner):
    """Persistence that tells how often it was traced."""

    inner: Persistence
    dim_obs: int
    dim_input: int
    level: float = 0.9

    def init(self, key: Any) -> Any:
        """As inside."""
        return self.inner.init(key)

    def step(self, state: Any, y: Any, inputs: Any) -> Any:
        """Runs in Python only while it is traced."""
        TRACED.append(1)
        return self.inner.step(state, y, inputs)


def test_one_compilation_whatever_the_lengths() -> None:
    """Streams of several lengths, cut into chunks with shorter last ones, by one program."""
    TRACED.clear()
    learner = Counting(inner=Persistence(2), dim_obs=2, dim_input=0)
    state = learner.init(jax.random.key(0))
    rmcvi.run(learner, np.zeros((5, 2)), state, chunk=4)
    first = len(TRACED)
    assert first > 0
    for length in (1, 4, 7, 12):
        state, _ = rmcvi.run(learner, np.ones((length, 2)), state, chunk=4)
    assert len(TRACED) == first
    learner.update(state, np.ones(2))
    second = len(TRACED)
    for _ in range(3):
        state, _ = learner.update(state, np.ones(2))
    assert len(TRACED) == second


def elbo(learner: Any, state: Any, info: Any) -> Any:
    """One function for all calls: another one would be compiled anew."""
    return info.step.elbo


def test_memory_stays_over_ten_thousand_steps() -> None:
    """Neither arrays alive nor the process grow once everything is compiled."""
    model = rmcvi.models.LinearGaussian(jnp.array([0.8]), jnp.ones(1), 0.5, 0.4)
    learner = rmcvi.OnlineEstimator(
        model,
        rmcvi.families.LinearGaussianFamily(model),
        rmcvi.RMCVI(3, window=2, bptt=1),
        optax.sgd(1e-3),
        optax.sgd(1e-3),
        **QUICK,
    )
    ys = rmcvi.simulate(model, jax.random.key(0), 500)[1]
    state, told = learner.init(jax.random.key(1)), None
    alive, peak = [], []
    for _ in range(20):
        state, told = rmcvi.scan(learner, state, ys, collect=elbo)
        alive.append(sum(v.nbytes for v in jax.live_arrays()))
        peak.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    assert int(state.t) == 10_000 and told is not None and bool(jnp.isfinite(told[-1]))
    assert alive[-1] <= alive[1]
    assert peak[-1] - peak[2] < 20.0
