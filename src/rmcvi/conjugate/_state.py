"""What the seasonal learner keeps from one row to the next: arrays of constant size."""

import equinox as eqx
from jaxtyping import Array, Float, Int, Key

from rmcvi._contract import Prediction
from rmcvi.conjugate._columns import Columns, Waiting
from rmcvi.conjugate._component import Component
from rmcvi.conjugate._mixture import Mixture
from rmcvi.conjugate._recent import Exogenous, Recent


class SeasonalInfo(eqx.Module):
    """What a step has to tell."""

    prediction: Prediction


class SeasonalState(eqx.Module):
    """Components (leading axis m) and what they share."""

    components: Component
    columns: Columns
    waiting: Waiting
    mixture: Mixture
    recent: Recent
    exogenous: Exogenous
    clock: Float[Array, ""]
    """Phase of the last row."""
    t: Int[Array, ""]
    key: Key[Array, ""]
    """As given to `init`; nothing is drawn."""
