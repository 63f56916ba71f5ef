"""What a rival without a latent state reports of a row."""

import equinox as eqx

from rmcvi.core.prediction import Prediction


class RivalInfo(eqx.Module):
    """The prediction, and how it fared."""

    prediction: Prediction
