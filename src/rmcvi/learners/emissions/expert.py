"""The particle path of one column: `LatentRate` around what the closed form predicts.

NaturalRMCVI fits q_t = N(m, C) to x_t, Fisher steps learn the model. The transition is linear, so
that eta_t is Gaussian before y_t comes, and the law of y_t is a mixture over it: by quadrature
(docs/theory/emissions.md).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from rmcvi.core.inputs import Inputs
from rmcvi.families import LinearGaussianFamily
from rmcvi.learners.estimator import OnlineEstimator
from rmcvi.models import LatentRate
from rmcvi.recursion import NaturalRMCVI

PARTICLES, STEPS = 12, 2
"""Of NaturalRMCVI: twice what three states need; eta is nearly Gaussian, so that two steps do."""
NODES = 12
"""Of the quadrature over eta: exact for polynomials of degree 23 in it."""
USUAL = 500.0
"""Values that the usual predictor remembers."""


class Foreseen(eqx.Module):
    """What is said of a value before it comes, and how it fared; NaN if none came."""

    mean: Float[Array, "*c"]
    low: Float[Array, "*c"]
    high: Float[Array, "*c"]
    log_mass: Float[Array, "*c"]
    """Log-probability of the value's cell."""
    p_value: Float[Array, "*c"]


class ExpertState(eqx.Module):
    """What is learned of one column."""

    learner: Any
    usual: Float[Array, "*c"]
    """Mean of the predictor u."""
    count: Float[Array, "*c"]
    """Values behind it."""


class Expert(eqx.Module):
    """A column of counts, or of shares in [0, 1]."""

    estimator: OnlineEstimator

    def __init__(self, model: LatentRate):
        """Set it up with a model to start from."""
        self.estimator = OnlineEstimator(
            model,
            LinearGaussianFamily(),
            NaturalRMCVI(PARTICLES, num_steps=STEPS, lag=1),
            # Predictions are made here, by quadrature, and whoever holds the expert watches it.
            draws=0,
            health=False,
        )

    def init(self, key: Key[Array, ""]) -> ExpertState:
        """Before the first row."""
        return ExpertState(self.estimator.init(key), jnp.zeros(()), jnp.zeros(()))

    def step(
        self,
        state: ExpertState,
        y: Float[Array, ""],
        predicted: Float[Array, ""],
        half: Float[Array, ""],
        dt: Float[Array, ""],
        level: float,
    ) -> tuple[ExpertState, Foreseen]:
        """Predict the value, then learn from it.

        Args:
            state: after the row before.
            y: the value; NaN if there is none.
            predicted: its mean, as the closed form predicts it.
            half: of a cell.
            dt: length of the step.
            level: probability of the interval.
        """
        model: Any = self.estimator.model_at(state.learner)
        u = model.law.predictor(predicted, half)
        usual = jnp.where(state.count > 0.0, state.usual, u)
        inputs = Inputs(jnp.stack([u, u - usual, half]), dt)
        foreseen, top = self._foresee(state, model, y, inputs, level)
        pulled = jnp.minimum(y, top)
        learner, _ = self.estimator.step(state.learner, pulled[None], inputs)
        seen = ~jnp.isnan(y)
        moved = usual + (u - usual) / jnp.minimum(state.count + 1.0, USUAL)
        return ExpertState(learner, jnp.where(seen, moved, usual), state.count + seen), foreseen

    def parameters(self, state: ExpertState) -> dict[str, Array]:
        """What is learned of the rate and its law."""
        return dict(self.estimator.model_at(state.learner).parameters())

    def _foresee(
        self, state: ExpertState, model: Any, y: Float[Array, ""], inputs: Inputs, level: float
    ) -> tuple[Foreseen, Float[Array, ""]]:
        """The mixture over eta, and the end of its ladder: what lies beyond is pulled in."""
        before = self.estimator.filter(state.learner)
        slope = model.transition_jacobian(before.mean, inputs)
        noise = jnp.diag(model.transition_scale(inputs) ** 2)
        mean = model.transition_mean(before.mean, inputs)
        along = jax.grad(model.predictor)(mean, inputs)
        variance = along @ (slope @ before.covariance @ slope.T + noise) @ along
        points, weights = np.polynomial.hermite_e.hermegauss(NODES)
        weights = jnp.asarray(weights / weights.sum(), mean.dtype)
        eta = model.predictor(mean, inputs) + jnp.sqrt(variance) * jnp.asarray(points, mean.dtype)
        law, tail = model.law, 0.5 * (1.0 - level)
        ladder = law.ladder(eta, weights)
        filled, seen = jnp.where(jnp.isnan(y), ladder.values[0], y), ~jnp.isnan(y)
        log_mass = jax.nn.logsumexp(law.log_prob(filled, eta, inputs.u[2]), b=weights)
        p_value = jnp.minimum(1.0, 2.0 * jnp.minimum(*ladder.tails(filled)))
        foreseen = Foreseen(
            mean=weights @ law.mean(eta),
            low=law.quantile(ladder, tail),
            high=law.quantile(ladder, 1.0 - tail),
            log_mass=jnp.where(seen, log_mass, jnp.nan),
            p_value=jnp.where(seen, p_value, jnp.nan),
        )
        return foreseen, ladder.values[-1]
