"""What the seasonal learner keeps from one row to the next: arrays of constant size."""

import equinox as eqx
from jaxtyping import Array, Float, Int, Key

from rmcvi._contract import Prediction
from rmcvi.conjugate._columns import Columns
from rmcvi.conjugate._component import Component
from rmcvi.conjugate._experts import Skill
from rmcvi.conjugate._recent import Exogenous, Recent
from rmcvi.conjugate._trial import Trial
from rmcvi.conjugate._walk import Walk


class SeasonalInfo(eqx.Module):
    """What a step has to tell."""

    prediction: Prediction


class Learned(eqx.Module):
    """All that rows have taught."""

    components: Component
    """With a leading axis m."""
    columns: Columns
    walk: Walk
    skill: Skill
    trial: Trial


class SeasonalState(eqx.Module):
    """What was learned, and what the next rows need."""

    learned: Learned
    recent: Recent
    exogenous: Exogenous
    clock: Float[Array, ""]
    """Phase of the last row."""
    t: Int[Array, ""]
    key: Key[Array, ""]
    """As given to `init`; nothing is drawn."""
