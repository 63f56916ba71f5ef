"""The smallest learner that has everything a learner needs."""

from functools import cache

import optax

import rmcvi
from rmcvi import families, models
from tests.models.zoo import ZOO


@cache
def small_model() -> models.AbstractGaussianModel:
    """Two independent coordinates."""
    return ZOO["diagonal"]().model


def small_learner() -> rmcvi.OnlineEstimator:
    """Four particles, one parameter, no monitors: quick to compile."""
    model = small_model()
    return rmcvi.OnlineEstimator(
        model,
        families.LinearGaussianFamily(diagonal=True),
        rmcvi.RMCVI(4, window=3, bptt=2),
        optax.sgd(1e-3),
        optax.sgd(1e-3),
        trainable=rmcvi.Trainable(model=rmcvi.only(model, lambda m: m.initial_mean)),
        draws=10,
        guard=False,
        health=False,
        drift=False,
        sensors=False,
    )
