"""What a learner keeps (state) and what it tells (info)."""

import equinox as eqx
from jaxtyping import Array, Float, Int, Key, PyTree

from rmcvi._contract import Info
from rmcvi.estimator._guard import GuardState
from rmcvi.estimator._predict import Prediction


class LearnerState(eqx.Module):
    """Arrays only: parameters, optimisers, the recursion's statistics, the key and the time."""

    key: Key[Array, ""]
    t: Int[Array, ""]
    theta: PyTree
    phi: PyTree
    theta_optimiser: PyTree
    phi_optimiser: PyTree
    theta_gate: PyTree
    phi_gate: PyTree
    theta_guard: GuardState
    phi_guard: GuardState
    average: PyTree
    recursion: PyTree
    skipped: Int[Array, ""]


class LearnerInfo(eqx.Module):
    """What one update has to tell: the prediction and its score, and the recursion's info."""

    prediction: Prediction | None
    step: Info
    pulled: Array
    """Whether each coordinate was pulled in by the screen."""
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


class Filtered(eqx.Module):
    """The law of x_t given y_{0:t}."""

    mean: Float[Array, "dx"]
    covariance: Float[Array, "dx dx"]
