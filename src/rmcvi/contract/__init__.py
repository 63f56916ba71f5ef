"""The room to read first: what a recursion is, and what a learner is.

A recursion turns a stream into values and gradients. Model and family are arguments, never fields:

    state = recursion.init(model, family)
    state, grads, info = recursion.step(state, model, family, y, inputs, key)

`grads` is the *increment* of the gradient of the ELBO (or of the likelihood), an ascent direction
for (theta, phi). State is what the next step needs (its size does not grow with t), Info is what a
person wants. RMCVI is a recursion, and so is every rival that learns a state-space model.

A learner predicts y_t, scores the prediction, and only then learns from it:

    state = learner.init(key)
    state, info = learner.update(state, y)

Every learner answers the same questions, and nobody needs to know its class: `forecast` (the next
rows), `present` (this one), `recent` (the last ones, as far back as `reach`), `parameters`,
`units`; with a hidden state (`dim_state` > 0) also `filter` and `smooth`. `init` and `step` are
enough to write one, the rest has defaults. `OnlineEstimator` makes a learner of a recursion; rivals
without a state-space model are learners themselves, and so is a fleet of many streams.
"""

from rmcvi.contract.learner import AbstractLearner as AbstractLearner
from rmcvi.contract.learner import Band as Band
from rmcvi.contract.learner import ByHorizon as ByHorizon
from rmcvi.contract.learner import Diagnostics as Diagnostics
from rmcvi.contract.recursion import AbstractRecursion as AbstractRecursion
from rmcvi.contract.recursion import Filtered as Filtered
from rmcvi.contract.recursion import Gradients as Gradients
from rmcvi.contract.recursion import Info as Info
from rmcvi.contract.recursion import Misfit as Misfit
from rmcvi.contract.recursion import Smoothed as Smoothed
from rmcvi.contract.recursion import Step as Step
from rmcvi.contract.recursion import Trainable as Trainable
from rmcvi.core.prediction import Prediction as Prediction
from rmcvi.core.results import Result as Result
