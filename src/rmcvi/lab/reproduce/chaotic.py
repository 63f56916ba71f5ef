"""What the chaotic experiments share: the network, its sequences, and how errors are counted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

import rmcvi
from rmcvi.baselines import fixed_lag_smoother, particle_filter
from rmcvi.monitors import stepwise_rmse


def network(weights: int, **start: float) -> rmcvi.models.ChaoticRNN:
    """The paper's network of dimension 5 with W drawn from key(weights)."""
    return rmcvi.models.ChaoticRNN(dim=5, key=jax.random.key(weights), **start)


def sequence(model: rmcvi.models.ChaoticRNN, seed: int, length: int) -> tuple[Array, Array]:
    """States and observations."""
    return rmcvi.simulate(model, jax.random.key(1000 + seed), length)


def error(estimate: Any, truth: Any) -> float:
    """Mean over time of the root mean square over coordinates."""
    return float(stepwise_rmse(jnp.asarray(estimate) - jnp.asarray(truth)))


def floors(
    model: rmcvi.models.ChaoticRNN, xs: Array, ys: Array, particles: int, lag: int = 1
) -> tuple[float, float]:
    """Errors of a particle filter and of its fixed-lag smoother that know the parameters."""
    key = jax.random.key(7)
    now = particle_filter(model, ys, key=key, num_particles=particles).mean
    back = fixed_lag_smoother(model, ys, key=key, lag=lag, num_particles=particles).mean
    cut = -lag if lag == 1 else None
    return error(now, xs), error(back[:cut], xs[:cut])


def filter_and_smooth(model: Any, family: Any, recursion: Any, ys: Any) -> tuple[Any, Any]:
    """Means of a whole sequence, nothing learned."""
    frozen = rmcvi.OnlineEstimator(
        model,
        family,
        recursion,
        optax.sgd(0.0),
        optax.sgd(0.0),
        trainable=rmcvi.Trainable(model=False, family=False),
        draws=0,
    )
    begin = frozen.init(jax.random.key(0))
    _, means = rmcvi.scan(frozen, begin, ys, collect=_means)
    return means, frozen.smooth_sequence(begin, ys, num=500).mean


def _means(learner: Any, state: Any, info: Any) -> Any:
    return learner.filter(state).mean


def mean_and_error(values: Any) -> tuple[float, float]:
    """Mean and its standard error (NaN for a single value)."""
    array = np.asarray(values, float)
    spread = array.std(ddof=1) / array.size**0.5 if array.size > 1 else np.nan
    return float(array.mean()), float(spread)


def learn_in_blocks(
    learner: rmcvi.OnlineEstimator,
    rows: Callable[[int], Any],
    blocks: int,
    observe: Callable[[Any, Any, int], dict[str, float]],
    collect: Callable[[Any, Any, Any], Any],
    scratch: Path,
    say: Callable[[str], None],
) -> tuple[Any, dict[str, np.ndarray]]:
    """The final state and what `observe(state, collected, block)` found after every block.

    `rows(block)` gives the observations. A run that was cut off goes on after its last full block.
    """
    kept, state = scratch / "learner.rmcvi", learner.init(jax.random.key(2))
    records: list[dict[str, float]] = []
    if kept.exists():
        state, extra = rmcvi.load(kept, learner)
        records = extra["records"]
    for block in range(len(records), blocks):
        state, collected = rmcvi.scan(learner, state, rows(block), collect=collect)
        records.append({k: float(v) for k, v in observe(state, collected, block).items()})
        rmcvi.save(kept, learner, state, {"records": records})
        text = ", ".join(f"{name} {value:.4g}" for name, value in records[-1].items())
        say(f"block {block + 1} of {blocks}: {text}")
    return state, {name: np.array([r[name] for r in records]) for name in records[0]}
