"""What a learner keeps (state) and what it reports of a step (info)."""

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from rmcvi.contract import Info, Prediction
from rmcvi.learners.best import Best
from rmcvi.learners.trial import TrialState
from rmcvi.learners.watch import WatchState
from rmcvi.optim import AscentState, EMState
from rmcvi.recursion.history import History


class LearnerState(eqx.Module):
    """Arrays only: parameters, optimisers, the recursion's statistics, monitors, key and time."""

    key: Key[Array, ""]
    t: Int[Array, ""]
    theta: PyTree
    phi: PyTree
    theta_ascent: AscentState
    phi_ascent: AscentState
    recursion: PyTree
    watch: WatchState
    skipped: Int[Array, ""]
    best: Best | None
    """Parameters to go back to; None without damping."""
    past: History | None
    """The last rows with draws of the states before them; None if the recursion keeps its own."""
    em: EMState | None
    """Statistics of the parameters that enter linearly; None without EM."""
    trial: TrialState | None
    """What was learned against what it was learned from; None if nothing goes back."""


class LearnerInfo(eqx.Module):
    """What one update has to tell: the prediction and its score, and the recursion's info."""

    prediction: Prediction | None
    step: Info
    pulled: Bool[Array, "*batch dy"]
    """Whether each coordinate was pulled in by the screen."""
    masked: Bool[Array, "*batch dy"]
    """Whether each coordinate was ignored because its sensor has failed."""
    sensor_score: Float[Array, "*batch dy"] | None
    """Evidence in [0, 1] that each coordinate's sensor has failed (above 1/2: it has)."""
    drift: Float[Array, "*batch"] | None
    """Change of the predictive score as a share of the threshold; outside [-1, 1]: alarm."""
    alarms: Int[Array, "*batch"]
    """A set of `Alarm` flags."""
    factor: Float[Array, "*batch"]
    """Length of the steps as a share of what the optimisers say."""
    cuts: Int[Array, "*batch"]
    """Number of gradients cut so far."""
    skipped: Int[Array, "*batch"]
    """Number of updates skipped so far because a number was not finite."""

    @property
    def elbo(self) -> Array:
        """Estimate of the evidence lower bound up to now."""
        return self.step.elbo

    @property
    def increment(self) -> Array:
        """What this observation added to it."""
        return self.step.increment

    @property
    def ess(self) -> Array:
        """Effective sample size of the backward weights."""
        return self.step.ess

    @property
    def result(self) -> Array:
        """Result code of the step."""
        return self.step.result
