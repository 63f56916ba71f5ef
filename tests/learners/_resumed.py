"""A small learner, and a process that learns, saves after every step and may be killed.

python -m tests.learners._resumed <checkpoint> <steps>
"""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import rmcvi
from rmcvi import families, models
from rmcvi.baselines import Persistence
from rmcvi.learners.checkpoint import load, save

QUIET: dict[str, Any] = {"guard": False, "health": False, "drift": False, "sensors": False}
"""Nothing watched: half the program."""
QUICK: dict[str, Any] = QUIET | {"draws": 0}
"""Nothing predicted either."""


def small_learner(
    particles: int = 4,
    window: int = 3,
    hidden: int = 4,
    transition: float = 0.8,
    optimiser: Callable[[float], optax.GradientTransformation] = optax.adam,
    **options: Any,
) -> rmcvi.OnlineEstimator:
    """One state, two observed coordinates."""
    model = models.LinearGaussian(
        jnp.array([transition]), jnp.array([[1.0], [0.5]]), jnp.array([0.5]), jnp.array([0.3, 0.4])
    )
    return rmcvi.OnlineEstimator(
        model,
        families.InnovationFamily(model, hidden=hidden, memory=2, key=jax.random.key(0)),
        rmcvi.RMCVI(particles, window=window, bptt=2),
        _made(optimiser, 1e-3),
        _made(optimiser, 1e-2),
        **options,
    )


@cache
def _made(
    optimiser: Callable[[float], optax.GradientTransformation], rate: float
) -> optax.GradientTransformation:
    """Once: learners with the same optimiser share their programs, equal ones would not."""
    return optimiser(rate)


def observation(t: int) -> np.ndarray:
    """y_t, from t alone; some coordinates are missing."""
    rng = np.random.default_rng(t)
    return np.where(rng.random(2) < 0.2, np.nan, rng.standard_normal(2))


def main(path: Path, steps: int) -> None:
    """Go on from `path`, or start there, with the learner that compiles quickest."""
    learner = Persistence(2)
    if path.exists():
        state, extra = load(path, learner)
    else:
        state, extra = learner.init(jax.random.key(1)), {"offset": 0}
    for t in range(extra["offset"], steps):
        state, _ = learner.update(state, observation(t))
        save(path, learner, state, {"offset": t + 1})


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
