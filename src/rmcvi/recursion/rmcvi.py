"""Recursive Monte Carlo variational inference: Algorithms 2 and 3 of the paper, corrected.

At each y_t: recompute the recent carries with the current phi, draw particles from q_t, weigh the
previous ones, move h and its score coefficients on, and turn them into the increment of the
gradient of the ELBO, forward (per particle) or windowed (adjoint).
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from rmcvi.contract import AbstractRecursion, Filtered, Info, Result, Step, Trainable
from rmcvi.core import tree
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_instance, check_int, check_option, check_real
from rmcvi.core.compensated import CompensatedSum
from rmcvi.core.observation import Observation
from rmcvi.families import AbstractFamily
from rmcvi.models import AbstractModel, check_densities
from rmcvi.recursion.adjoint import Window
from rmcvi.recursion.backward import AbstractBackward, FullWeights, check_block, check_control
from rmcvi.recursion.cloud import (
    Cloud,
    Slot,
    Value,
    empty_cloud,
    is_sound,
    stand_still,
    standing_slot,
)
from rmcvi.recursion.forward import Tangents, check_tangents, forward_gradients
from rmcvi.recursion.functional import AdditiveFunctional, FunctionalState
from rmcvi.recursion.history import History, replay
from rmcvi.recursion.value import Estimator, propagate
from rmcvi.recursion.windowed import Replayed, WindowSettings, windowed_gradients

ENTROPIES = ("closed", "empirical", "sampled")
"""Estimates of the kernels' entropy; docs/theory/recursion.md compares them."""


class RMCVIState(eqx.Module):
    """What the next step needs; its size does not depend on t."""

    t: Int[Array, ""]
    """Number of observations taken in."""
    carry: PyTree
    cloud: Cloud
    offset: CompensatedSum
    """Running mean of h: the ELBO without the entropy of q_t."""
    entropy: Float[Array, ""]
    history: History
    memory: Window | Tangents
    functional: FunctionalState | None


class RMCVI(AbstractRecursion):
    """The recursion, with its settings."""

    num_particles: int = eqx.field(static=True)
    window: int = eqx.field(static=True)
    bptt: int = eqx.field(static=True)
    gradient: str = eqx.field(static=True)
    entropy: str = eqx.field(static=True)
    control: str = eqx.field(static=True)
    reuse: bool = eqx.field(static=True)
    negligible: float = eqx.field(static=True)
    backward: AbstractBackward
    functional: AdditiveFunctional | None

    def __init__(
        self,
        num_particles: int = 100,
        *,
        window: int = 16,
        bptt: int = 8,
        gradient: str = "windowed",
        entropy: str = "closed",
        control: str = "unbiased",
        reuse: bool = False,
        negligible: float = 1e-3,
        backward: AbstractBackward | None = None,
        functional: AdditiveFunctional | None = None,
    ):
        """Choose the effort and the estimators.

        Args:
            num_particles: N.
            window: steps that the gradient looks back on.
            bptt: cell updates that are differentiated.
            gradient: "windowed", or "forward" (the paper's).
            entropy: "closed", "empirical", or "sampled" (as printed).
            control: "unbiased", "in-sample" (as printed), or "none".
            reuse: learn at each step from the whole window instead of its newest observation.
            negligible: share of the newest step's mass at which the window is cut short (0: never).
            backward: how backward expectations are taken (default: all weights).
            functional: whose smoothed sum is reported (default: none).
        """
        self.num_particles = check_int("num_particles", num_particles, 2)
        self.window = check_int("window", window, 2)
        self.bptt = check_int("bptt", bptt)
        self.gradient = check_option("gradient", gradient, ("windowed", "forward"))
        self.entropy = check_option("entropy", entropy, ENTROPIES)
        self.control = check_option("control", control, ("unbiased", "in-sample", "none"))
        self.reuse = bool(reuse)
        self.negligible = negligible and check_real("negligible", negligible, 0.0, 1.0)
        if self.reuse and self.gradient == "forward":
            raise ValueError("reuse: got True, expected False unless gradient is 'windowed'")
        self.backward = FullWeights() if backward is None else backward
        check_instance("backward", self.backward, AbstractBackward)
        check_control(self.backward, self.control)
        if self.entropy == "empirical" and not self.backward.every_weight:
            raise ValueError(
                f"entropy: got 'empirical' with {type(self.backward).__name__}, expected "
                "FullWeights (drawn indices do not tell their probabilities)"
            )
        if functional is not None:
            check_instance("functional", functional, AdditiveFunctional)
        self.functional = functional
        check_block(self.backward, self.num_particles, self.gradient, functional)

    def init(self, model, family, trainable=None):
        """The state before the first observation."""
        check_instance("model", model, AbstractModel)
        check_instance("family", family, AbstractFamily)
        carry = family.initial_carry(model)
        check_densities(model)
        cloud = empty_cloud(family, model, self.num_particles, jax.random.key(0))
        rows = self._chains + self.bptt - 1
        functional = None if self.functional is None else self.functional.init(cloud.x)
        return RMCVIState(
            t=jnp.zeros((), int),
            carry=carry,
            cloud=cloud,
            offset=CompensatedSum.zeros(),
            entropy=jnp.zeros(()),
            history=History.empty(rows, carry, model.dim_obs, model.dim_input),
            memory=self._empty_memory(model, family, cloud, trainable or Trainable()),
            functional=functional,
        )

    @property
    def _chains(self) -> int:
        return self.window if self.gradient == "windowed" else 2

    def _empty_memory(
        self, model: AbstractModel, family: AbstractFamily, cloud: Cloud, trainable: Trainable
    ) -> Window | Tangents:
        if self.gradient == "forward":
            theta = eqx.filter(model, trainable.model)
            return Tangents.empty(theta, eqx.filter(family, trainable.family), cloud.x.shape[0])
        return Window.empty(self.window, standing_slot(self.backward, cloud))

    def history(self, state: RMCVIState) -> History:
        """Carries, observations and inputs of the last rows."""
        return state.history

    @property
    def gradient_window(self) -> int:
        """Rows of the window, if gradients are windowed."""
        return self.window if self.gradient == "windowed" else 0

    def lengthen(self, state: RMCVIState, window: int | None = None) -> tuple["RMCVI", RMCVIState]:
        """The recursion and its state with a longer window (default: twice as long)."""
        window = check_int("window", 2 * self.window if window is None else window, self.window)
        if not isinstance(state.memory, Window):
            raise ValueError("lengthen: got gradient='forward', expected 'windowed'")
        longer = dataclasses.replace(self, window=window)
        filler = standing_slot(self.backward, state.cloud)
        return longer, eqx.tree_at(
            lambda s: (s.history, s.memory),
            state,
            (
                state.history.lengthened(window - self.window),
                state.memory.lengthened(state.t, window, filler),
            ),
        )

    def step(self, state, model, family, y, inputs, key, trainable=None):
        """One observation: value, gradients, info."""
        check_array("y", y, (model.dim_obs,))
        trainable = trainable or Trainable()
        theta = eqx.partition(model, trainable.model)
        phi = eqx.partition(family, trainable.family)
        t, plain = state.t, model.untilted
        if self.gradient == "forward":
            check_tangents(state.memory, theta[0], phi[0])
        history = state.history.push(state.carry, y, inputs)

        def chains(phi_trained):
            current = eqx.combine(phi_trained, phi[1])
            return replay(current, plain, history, t, self._chains, self.bptt)

        (before_carry, now_carry), pull = jax.vjp(chains, phi[0])
        carry_prev, carry = jax.tree.map(lambda v: v[-1], (before_carry, now_carry))
        est = Estimator(self.num_particles, self.backward, self.entropy, self.control)
        observed = Observation(y, inputs, t == 0)
        value = propagate(est, plain, family, state.cloud, (carry_prev, carry), observed, key)
        sound = is_sound(value)
        value = tree.where(sound, value, stand_still(self.backward, state.cloud, state.entropy))
        carry = tree.where(sound, carry, state.carry)
        history = history.forget_last(~sound)
        if self.gradient == "windowed":
            memory = state.memory.put(t, value.slot)
            replayed = Replayed((before_carry, now_carry), pull)
            settings = WindowSettings(self.entropy, self.reuse, self.negligible)
            grads, adjoint = windowed_gradients(
                (theta, phi), memory, history, value, replayed, t, settings
            )
            mass, beyond = adjoint.mass, adjoint.beyond
        else:
            memory, grads = forward_gradients(
                theta, phi, state.memory, value, chains, observed, self.entropy
            )
            memory = tree.where(sound & tree.all_finite(grads), memory, state.memory)
            mass, beyond = jnp.zeros(0), jnp.zeros(())
        sound = sound & tree.all_finite(grads)
        grads = tree.where(sound, grads, tree.zeros(grads))
        functional = state.functional
        if self.functional is not None:
            functional = self.functional.step(functional, value.slot, t > 0)
        offset = state.offset.add(value.mean)
        new = RMCVIState(
            t + 1, carry, value.cloud, offset, value.entropy, history, memory, functional
        )
        return Step(new, grads, self._info(state, new, value, sound, mass, beyond))

    def filtered(self, state, model, family):
        """Moments of q_t."""
        q, eta = family.distribution, state.cloud.proposal
        return Filtered(q.mean(eta), q.covariance(eta))

    def draw(self, state, model, family, key, num):
        """Draws from q_t."""
        return family.distribution.sample(key, state.cloud.proposal, num)

    def _info(
        self,
        old: RMCVIState,
        new: RMCVIState,
        value: Value,
        sound: Bool[Array, ""],
        mass: Float[Array, "lags"],
        beyond: Float[Array, ""],
    ) -> Info:
        increment = value.mean + value.entropy - old.entropy
        ess = jnp.where(old.t > 0, value.slot.weights.ess(), float(self.num_particles))
        result = jnp.where(beyond > 0.1, int(Result.WINDOW_SHORT), int(Result.SUCCESS))
        result = jnp.where(ess < 2.0, int(Result.WEIGHTS_COLLAPSED), result)
        return Info(
            elbo=new.offset.value + value.entropy,
            increment=increment,
            ess=ess,
            contraction=_contraction(value.slot, jnp.zeros(0) if self.reuse else mass),
            mass=mass,
            mass_beyond=beyond,
            functional=None if new.functional is None else new.functional.value,
            result=jnp.where(sound, result, int(Result.NON_FINITE)),
            calibrated=value.slot.weights.calibrated(),
            misfit=value.misfit,
        )


def _contraction(slot: Slot, mass: Float[Array, "lags"]) -> Float[Array, ""]:
    """Mean shrinkage per lag of the adjoint's mass; without one, of neighbouring weight rows."""
    if mass.size > 2:
        usable = mass > jnp.finfo(mass.dtype).eps * 100
        usable = usable & (jnp.arange(mass.size) >= 1)
        last = jnp.max(jnp.where(usable, jnp.arange(mass.size), 1))
        ratio = mass[last] / jnp.maximum(mass[1], jnp.finfo(mass.dtype).tiny)
        return jnp.where(last > 1, ratio ** (1.0 / jnp.maximum(last - 1, 1)), jnp.nan)
    return slot.weights.contraction()
