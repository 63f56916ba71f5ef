"""Non-amortised RMCVI: the parameters of step t are fitted to y_t alone by K gradient steps.

phi^t = (q_t, potential of t) maximises mean_i H_i + Entropy(q_t) with the particles of t - 1 fixed.
Two gradients (errata A2): the corrected score form, and the semi-reparametrised one, pathwise in
x_t and by the score in x_{t-1} (which is what differentiating self-normalised weights gives).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from rmcvi.contract import AbstractRecursion, Filtered, Info, Step, Trainable
from rmcvi.core import tree
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_instance, check_int, check_option
from rmcvi.core.compensated import CompensatedSum
from rmcvi.core.inputs import Inputs
from rmcvi.core.observation import Observation
from rmcvi.families import PerStepFamily
from rmcvi.models import AbstractModel
from rmcvi.recursion.backward import AbstractBackward, FullWeights, check_control
from rmcvi.recursion.cloud import Cloud, Value, empty_cloud
from rmcvi.recursion.forward import Tangents, forward_gradients
from rmcvi.recursion.value import Estimator, propagate
from rmcvi.recursion.windowed import backward_score


class PerStepState(eqx.Module):
    """What the next step needs, and the one-step smoothing mean E[x_{t-1} | y_{0:t}]."""

    t: Int[Array, ""]
    phi: PyTree
    """Parameters of the last step's family; `PerStepRMCVI.current` puts them into it."""
    cloud: Cloud
    offset: CompensatedSum
    entropy: Float[Array, ""]
    tangents: Tangents
    smoothed: Float[Array, "dx"]


class PerStepRMCVI(AbstractRecursion):
    """K steps of `optimiser` per observation, restarted at each t from the linearised prediction.

    The family that `step` is given is a template for the first observation; afterwards phi^t lives
    in the state. Gradients are returned for theta only.
    """

    num_particles: int = eqx.field(static=True)
    num_steps: int = eqx.field(static=True)
    estimator: str = eqx.field(static=True)
    entropy: str = eqx.field(static=True)
    optimiser: optax.GradientTransformation = eqx.field(static=True)
    backward: AbstractBackward

    def __init__(
        self,
        num_particles: int = 100,
        *,
        num_steps: int = 500,
        optimiser: optax.GradientTransformation | None = None,
        estimator: str = "reparametrised",
        entropy: str = "empirical",
        backward: AbstractBackward | None = None,
    ):
        """Choose the effort and the estimators.

        Args:
            num_particles: N.
            num_steps: gradient steps per observation.
            optimiser: optax transformation (default: Adam of rate 1e-2).
            estimator: "reparametrised" (full weights only), or "score".
            entropy: "empirical" (full weights only), "closed" or "sampled".
            backward: how backward expectations are taken (default: all weights).
        """
        self.num_particles = check_int("num_particles", num_particles, 2)
        self.num_steps = check_int("num_steps", num_steps)
        self.estimator = check_option("estimator", estimator, ("reparametrised", "score"))
        self.entropy = check_option("entropy", entropy, ("empirical", "closed", "sampled"))
        self.optimiser = optax.adam(1e-2) if optimiser is None else optimiser
        self.backward = FullWeights() if backward is None else backward
        check_instance("backward", self.backward, AbstractBackward)
        full = estimator == "reparametrised" or entropy == "empirical"
        if full and not self.backward.every_weight:
            raise ValueError(
                f"backward: got {type(self.backward).__name__}, expected FullWeights when "
                "estimator is 'reparametrised' or entropy is 'empirical' (drawn indices have no "
                "derivative and do not tell their probabilities)"
            )
        check_control(self.backward, "unbiased")

    def init(self, model, family, trainable=None):
        """The state before the first observation."""
        check_instance("model", model, AbstractModel)
        check_instance("family", family, PerStepFamily)
        cloud = empty_cloud(family, model, self.num_particles, jax.random.key(0))
        theta = eqx.filter(model, (trainable or Trainable()).model)
        return PerStepState(
            t=jnp.zeros((), int),
            phi=eqx.filter(family, eqx.is_inexact_array),
            cloud=cloud,
            offset=CompensatedSum.zeros(),
            entropy=jnp.zeros(()),
            tangents=Tangents.empty(theta, None, self.num_particles),
            smoothed=cloud.origin,
        )

    def current(self, state: PerStepState, family: PerStepFamily) -> PerStepFamily:
        """The family as fitted to the last observation."""
        return eqx.combine(state.phi, family)

    def step(self, state, model: Any, family: Any, y, inputs, key, trainable=None):
        """Fit phi^t to y_t, then move the statistics on."""
        check_array("y", y, (model.dim_obs,))
        first, last = state.t == 0, self.current(state, family)
        carry_prev = last.parameters()
        predicted = eqx.filter(last.warm_start(model, inputs), eqx.is_inexact_array)
        start = eqx.combine(tree.where(first, state.phi, predicted), family)
        observed = Observation(y, inputs, first)
        est = Estimator(self.num_particles, self.backward, self.entropy, "unbiased")

        def estimate(current, k):
            carries = (carry_prev, current.parameters())
            return propagate(est, model, current, state.cloud, carries, observed, k)

        k_fit, k_end = jax.random.split(key)
        fitted = self._fit(start, estimate, model, carry_prev, inputs, first, k_fit)
        value = estimate(fitted, k_end)
        theta = eqx.partition(model, (trainable or Trainable()).model)
        nothing = eqx.partition(fitted, False)
        tangents, grads = forward_gradients(
            theta, nothing, state.tangents, value, None, observed, self.entropy
        )
        offset = state.offset.add(value.mean)
        smoothed = _one_step_mean(model, fitted, carry_prev, value, inputs)
        phi = eqx.filter(fitted, eqx.is_inexact_array)
        new = PerStepState(state.t + 1, phi, value.cloud, offset, value.entropy, tangents, smoothed)
        increment = value.mean + value.entropy - state.entropy
        ess = jnp.where(first, float(self.num_particles), value.slot.weights.ess())
        info = Info.plain(
            offset.value + value.entropy,
            increment,
            jnp.isfinite(increment),
            ess,
            misfit=value.misfit,
        )
        return Step(new, grads, info)

    def filtered(self, state, model, family):
        """Moments of q_t."""
        q, eta = family.distribution, state.cloud.proposal
        return Filtered(q.mean(eta), q.covariance(eta))

    def draw(self, state, model, family, key, num):
        """Draws from q_t."""
        return family.distribution.sample(key, state.cloud.proposal, num)

    def _fit(
        self,
        start: PerStepFamily,
        estimate: Callable[[PerStepFamily, Key[Array, ""]], Value],
        model: AbstractModel,
        carry_prev: PyTree,
        inputs: Inputs,
        first: Bool[Array, ""],
        key: Key[Array, ""],
    ) -> PerStepFamily:
        """K ascent steps on the ELBO in phi^t."""
        phi, rest = eqx.partition(start, eqx.is_inexact_array)

        def ascend(loop, k):
            phi, memory = loop
            if self.estimator == "reparametrised":
                gradient = jax.grad(
                    lambda v: (lambda e: -e.mean - e.entropy)(estimate(eqx.combine(v, rest), k))
                )(phi)
            else:
                value = estimate(eqx.combine(phi, rest), k)
                gradient = jax.grad(
                    lambda v: (
                        -_score_objective(
                            eqx.combine(v, rest),
                            model,
                            carry_prev,
                            value,
                            inputs,
                            first,
                            self.entropy,
                        )
                    )
                )(phi)
            update, memory = self.optimiser.update(gradient, memory, phi)
            return (eqx.apply_updates(phi, update), memory), None

        keys = jax.random.split(key, self.num_steps)
        (phi, _), _ = jax.lax.scan(ascend, (phi, self.optimiser.init(phi)), keys)
        return eqx.combine(phi, rest)


def _score_objective(
    family: PerStepFamily,
    model: AbstractModel,
    carry_prev: PyTree,
    value: Value,
    inputs: Inputs,
    first: Array,
    entropy: str,
) -> Float[Array, ""]:
    """A function of phi^t whose gradient is the score estimate, particles held constant."""
    q, num = family.distribution, value.cloud.x.shape[0]
    slot, weight = value.slot, jnp.where(first, jnp.zeros(num), jnp.full(num, 1.0 / num))
    particles = (slot.x, slot.coefficient, weight)
    back = backward_score(family, model, carry_prev, inputs, slot.origin, particles, entropy)
    eta = family.marginal(family.parameters())
    linear = tree.vdot(q.relative(eta, value.cloud.origin), value.cloud.terminal)
    return back + linear + (0.0 if entropy == "sampled" else q.entropy(eta))


def _one_step_mean(
    model: AbstractModel,
    family: PerStepFamily,
    carry_prev: PyTree,
    value: Value,
    inputs: Inputs,
) -> Float[Array, "dx"]:
    """E[x_{t-1}] under q_{t-1:t}: conditional means averaged over the particles of t."""
    eta_prev = family.marginal(carry_prev)

    def mean(x):
        eta = tree.add(eta_prev, family.potential(model, carry_prev, x, inputs))
        return family.distribution.mean(eta)

    return jnp.mean(jax.vmap(mean)(value.slot.x), 0)
