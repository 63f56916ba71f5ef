"""What the seasonal learner keeps from one row to the next: arrays of constant size."""

import equinox as eqx
from jaxtyping import Array, Float, Int, Key

from rmcvi.contract import Prediction
from rmcvi.learners.seasonal.columns import Columns
from rmcvi.learners.seasonal.component import Component
from rmcvi.learners.seasonal.experts import Skill
from rmcvi.learners.seasonal.nonlinear import Nonlinear
from rmcvi.learners.seasonal.recent import Exogenous, Recent
from rmcvi.learners.seasonal.short_regression import ShortRegression
from rmcvi.learners.seasonal.smoothing import Smoothing
from rmcvi.learners.seasonal.trial import Trial
from rmcvi.learners.seasonal.walk import RandomWalk


class SeasonalInfo(eqx.Module):
    """What a step reports."""

    prediction: Prediction
    log_densities: Float[Array, "*batch dy"]
    """Of each value; 0 where there is none."""


class Learned(eqx.Module):
    """All that rows have taught."""

    components: Component
    """With a leading axis m."""
    columns: Columns
    smoothing: Smoothing
    walk: RandomWalk
    short: ShortRegression
    nonlinear: list[Nonlinear]
    """One path, or none."""
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
