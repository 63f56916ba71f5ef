"""The smallest model that the checks of recursions share."""

from functools import cache

from rmcvi import models
from tests.models.zoo import ZOO


@cache
def small_model() -> models.AbstractGaussianModel:
    """Two independent coordinates."""
    return ZOO["diagonal"]().model
