"""One guarded step up a gradient, for the parameters that are not frozen."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from rmcvi.core import tree
from rmcvi.core.checks import check_instance, check_int
from rmcvi.optim.guard import GradientGuard, GuardState


class AscentState(eqx.Module):
    """The optimiser's memory, a gate per parameter (0 = frozen), the guard and the average."""

    memory: PyTree
    gate: PyTree
    guard: GuardState | None
    average: PyTree


class Averaging(eqx.Module):
    """Weights of the iterates in their mean: proportional to k^power, k steps after the start."""

    start: int = eqx.field(static=True, default=0)
    power: float = eqx.field(static=True, default=1.0)
    answers: bool = eqx.field(static=True, default=False)
    """Whether questions are answered with the average rather than the last iterate."""

    def __check_init__(self):
        check_int("average_from", self.start, 0)
        if not 0.0 <= self.power < math.inf:
            raise ValueError(f"average: got {self.power}, expected a number of at least 0")

    @classmethod
    def asked_for(
        cls, by_default: bool, power: float | None, start: int | None, answers: bool | None
    ) -> "Averaging | None":
        """None unless something of it is set, or it is the default, with weights that grow."""
        if power is None and start is None and not by_default:
            if answers:
                raise ValueError("answer_averaged: got True, expected False without average")
            return None
        plain = 1.0 if start is None else 0.0
        return cls(
            0 if start is None else start,
            plain if power is None else float(power),
            by_default if answers is None else bool(answers),
        )


class Ascent(eqx.Module):
    """An optax optimiser turned uphill, with a guard and optional averaging of its iterates."""

    optimiser: optax.GradientTransformation = eqx.field(static=True)
    guard: GradientGuard | None
    averaging: Averaging | None

    def __init__(
        self,
        optimiser: optax.GradientTransformation,
        guard: GradientGuard | None = None,
        averaging: Averaging | None = None,
    ):
        """`optimiser` is meant for descent."""
        check_instance("optimiser", optimiser, optax.GradientTransformation)
        self.optimiser = optimiser
        self.guard = guard
        self.averaging = averaging

    def init(self, parameters: PyTree) -> AscentState:
        """Before the first step."""
        return AscentState(
            memory=self.optimiser.init(parameters),
            gate=jax.tree.map(lambda _: jnp.ones(()), parameters),
            guard=None if self.guard is None else self.guard.init(),
            average=None if self.averaging is None else parameters,
        )

    def step(
        self,
        state: AscentState,
        parameters: PyTree,
        gradient: PyTree,
        factor: Float[Array, ""],
        seen: Bool[Array, ""] | bool = True,
    ) -> tuple[AscentState, PyTree, Bool[Array, ""]]:
        """Parameters moved by `factor` times the optimiser's step, and whether all was finite.

        A step that is not finite is not taken, and leaves no trace in the optimiser's memory. An
        optimiser that cares is told which leaves are frozen, and whether anything was observed.
        """
        guard = state.guard
        if self.guard is not None and guard is not None:
            guard, gradient = self.guard.step(guard, gradient)
        descent = jax.tree.map(jnp.negative, gradient)
        optimiser = optax.with_extra_args_support(self.optimiser)
        update, memory = optimiser.update(
            descent, state.memory, parameters, gate=state.gate, seen=seen
        )
        gated = jax.tree.map(lambda d, g: d * (factor * g).astype(d.dtype), update, state.gate)
        moved = eqx.apply_updates(parameters, gated)
        sound = tree.all_finite((moved, memory))
        moved, memory = tree.where(sound, (moved, memory), (parameters, state.memory))
        return AscentState(memory, state.gate, guard, state.average), moved, sound

    def average_in(self, state: AscentState, parameters: PyTree, t: Int[Array, ""]) -> AscentState:
        """Take the iterate after observation `t` into the average; frozen ones are their own."""
        if self.averaging is None:
            return state
        power = self.averaging.power
        count = jnp.maximum(t + 1 - self.averaging.start, 1) + power

        def mean(average, value, gate):
            moved = average + (1.0 + power) * (value - average) / count
            return jnp.where(gate > 0.0, moved, value).astype(value.dtype)

        average = jax.tree.map(mean, state.average, parameters, state.gate)
        return AscentState(state.memory, state.gate, state.guard, average)

    def freeze(self, state: AscentState, where: Any, frozen: bool) -> AscentState:
        """Close (or open) the gates of the leaves that `where` picks."""
        value = jnp.zeros(()) if frozen else jnp.ones(())
        picked = jax.tree.map(lambda _: value, where(state.gate))
        gate = eqx.tree_at(where, state.gate, picked)
        return AscentState(state.memory, gate, state.guard, state.average)

    def cuts(self, state: AscentState) -> Int[Array, ""]:
        """Number of gradients cut so far."""
        return jnp.zeros((), int) if state.guard is None else state.guard.cuts
