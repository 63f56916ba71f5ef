"""RMCVI by natural-gradient steps: q_t is fitted to y_t, its kernel is tied to the model.

The family has no parameters, so nothing about q has to be learned: a few steps of the kind

    precision <- (1 - r) precision - r E_q[h''],    mean <- mean + r precision^-1 E_q[h']

at each observation find q_t (docs/theory/natural.md). With `LinearGaussianFamily()` q_t has a full
covariance and the prediction is moment-matched (`natural_full`), or is a mixture of such Gaussians
(`natural_mixture`); with `diagonal=True` coordinates are independent and h_t is carried from step
to step at the particles (`natural_diagonal`).
"""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key, PyTree

from rmcvi.contract import AbstractRecursion, Filtered, Trainable
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_instance, check_int, check_real
from rmcvi.core.inputs import Inputs
from rmcvi.core.observation import Observation
from rmcvi.families import LinearGaussianFamily
from rmcvi.families.kalman import check_kalman
from rmcvi.models import AbstractModel
from rmcvi.recursion import natural_diagonal, natural_full, natural_mixture
from rmcvi.recursion.history import History


class NaturalRMCVI(AbstractRecursion):
    """A few natural-gradient steps per observation, for models with a Gaussian transition.

    Goes with `LinearGaussianFamily()`, or with `LinearGaussianFamily(diagonal=True)` where
    coordinates are independent given the past; neither has parameters.
    """

    num_particles: int = eqx.field(static=True)
    num_steps: int = eqx.field(static=True)
    num_inner: int = eqx.field(static=True)
    rate: float | None = eqx.field(static=True)
    corrected: bool = eqx.field(static=True)
    lag: int = eqx.field(static=True)
    components: int = eqx.field(static=True)

    def __init__(
        self,
        num_particles: int = 50,
        *,
        num_steps: int = 4,
        num_inner: int = 4,
        rate: float | None = None,
        corrected: bool = True,
        lag: int = 16,
        components: int = 1,
    ):
        """Choose the effort.

        Args:
            num_particles: N. Full covariances take at least 2 for each state, and fewer are raised
                to that; diagonal ones 2.5 for each mean and product of the states (50 for five
                states), with which the gradient in theta has next to no bias.
            num_steps: natural-gradient steps per observation.
            num_inner: draws from each backward kernel.
            rate: length of a step; 1 goes all the way to the local optimum (default: 1, .7 if
                coordinates are independent).
            corrected: average the gradient in theta with importance weights, so that it climbs the
                likelihood; False climbs the ELBO.
            lag: how far back `smooth` and `recent` can look (8 with several components).
            components: Gaussians of which q_t is a mixture, each with `num_particles` for every
                piece that it is cut into; 1, or 4 to 16 for posteriors with several modes.
        """
        self.num_particles = check_int("num_particles", num_particles, 2)
        self.num_steps = check_int("num_steps", num_steps)
        self.num_inner = check_int("num_inner", num_inner, 2)
        self.rate = rate if rate is None or rate == 1.0 else check_real("rate", rate, 0.0, 1.0)
        self.corrected = bool(corrected)
        self.lag = check_int("lag", lag)
        self.components = check_int("components", components)

    def init(self, model, family, trainable=None):
        """The state before the first observation."""
        check_instance("model", model, AbstractModel)
        check_instance("family", family, LinearGaussianFamily)
        if family.kalman is not None:
            raise ValueError(
                "family: got one with a model of its own, expected LinearGaussianFamily() or "
                "LinearGaussianFamily(diagonal=True)"
            )
        check_kalman("model", model)
        trained = (trainable or Trainable()).model
        if family.diagonal and self.components > 1:
            raise ValueError(
                f"components: got {self.components} with diagonal=True, expected 1, or full "
                "covariances: LinearGaussianFamily()"
            )
        if family.diagonal:
            return natural_diagonal.init(self, model, family, eqx.filter(model, trained))
        return self._full.init(self, model, trained)

    @property
    def _full(self) -> Any:
        """Full covariances, of one Gaussian or of several."""
        return natural_full if self.components == 1 else natural_mixture

    def step(self, state: Any, model, family: Any, y, inputs, key, trainable=None):
        """Fit q_t to y_t, then move what theta's gradient needs."""
        check_array("y", y, (model.dim_obs,))
        form = natural_diagonal if family.diagonal else self._full
        observed = Observation(y, inputs, state.t == 0)
        return form.step(self, state, model, family, observed, key, trainable or Trainable())

    def filtered(self, state, model, family):
        """Moments of q_t."""
        return Filtered(state.carry.mean, state.carry.covariance)

    def draw(self, state, model, family, key, num):
        """Draws from q_t."""
        return state.draw(family, key, num)

    def history(self, state: Any) -> History | None:
        """Carries, observations and inputs of the last rows; a mixture keeps none."""
        return state.history if self.components == 1 else None

    def advance(self, carry, model, family, y, inputs, key):
        """By natural steps of one full Gaussian, whatever the form of q_t."""
        del family
        return natural_full.advance(
            self, carry, model.untilted, Observation(y, inputs, carry.fresh > 0.5), key
        )

    def carries(
        self,
        model: AbstractModel,
        family: LinearGaussianFamily,
        ys: Float[Array, "T dy"],
        inputs: Inputs,
        key: Key[Array, ""],
    ) -> tuple[PyTree, PyTree]:
        """(a_{t-1}, a_t) for every t of a whole sequence, with fixed parameters."""
        nothing = Trainable(model=False, family=False)

        def step(state, row):
            y, inputs, k = row
            new = self.step(state, model, family, y, inputs, k, nothing).state
            return new, (state.carry, new.carry)

        start = self.init(model, family, nothing)
        return jax.lax.scan(step, start, (ys, inputs, jax.random.split(key, len(ys))))[1]
