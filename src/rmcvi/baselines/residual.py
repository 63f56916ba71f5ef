"""What rivals without a latent state share: their report of a row, and a variance of residuals."""

import equinox as eqx

from rmcvi.core.moments import RunningVariance as RunningVariance
from rmcvi.core.prediction import Prediction


class RivalInfo(eqx.Module):
    """The prediction, and how it fared."""

    prediction: Prediction
