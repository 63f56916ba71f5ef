"""The problem behind the workloads: the paper's chaotic network, learned by a recursion."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from rmcvi.contract import AbstractRecursion, Trainable
from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
from rmcvi.families import InnovationFamily
from rmcvi.lab.bench.clock import HASTE, Program
from rmcvi.models import ChaoticRNN, simulate

HIDDEN = 178  # about 15 000 parameters at dimension 5


class Problem(eqx.Module):
    """A model, a family of a given size, and a simulated stream."""

    model: ChaoticRNN
    family: InnovationFamily
    ys: Float[Array, "T dy"]

    def __init__(self, length: int, dim: int = 5, hidden: int = HIDDEN):
        """Everything is drawn from fixed keys."""
        self.model = ChaoticRNN(dim=dim)
        self.family = InnovationFamily(self.model, hidden=hidden, key=jax.random.key(1))
        self.ys = simulate(self.model, jax.random.key(0), length)[1]

    @property
    def parameters(self) -> int:
        """Number of parameters of the family."""
        return sum(v.size for v in jax.tree.leaves(eqx.filter(self.family, eqx.is_inexact_array)))

    def learning(self, recursion: AbstractRecursion, steps: int, hasty: bool = False) -> Program:
        """`steps` learning steps per call: statistics, gradient, Adam for theta and phi."""
        optimiser, key = optax.adam(1e-4), jax.random.key(2)
        rest = eqx.filter((self.model, self.family), eqx.is_inexact_array, inverse=True)

        def one(loop, y):
            state, parts, memory = loop
            model, family = eqx.combine(parts, rest)
            k = jax.random.fold_in(key, state.t)
            step = recursion.step(state, model, family, y, Inputs.of(), k)
            descent = jax.tree.map(jnp.negative, (step.grads.model, step.grads.family))
            update, memory = optimiser.update(descent, memory, parts)
            return (step.state, eqx.apply_updates(parts, update), memory), None

        def many(loop, ys):
            return jax.lax.scan(one, loop, ys)[0]

        parts = eqx.filter((self.model, self.family), eqx.is_inexact_array)
        state = recursion.init(self.model, self.family)
        start = (state, parts, optimiser.init(parts))
        return Program(many, start, self.ys[:steps], units=steps, hasty=hasty)

    def increments(self, recursion: AbstractRecursion, keys: Any, hasty: bool = False) -> PyTree:
        """The family's gradient at each step with frozen parameters: leaves (keys, T, ...)."""
        trainable = Trainable(model=False)

        def run(key):
            def one(state, y):
                k = jax.random.fold_in(key, state.t)
                step = recursion.step(state, self.model, self.family, y, Inputs.of(), k, trainable)
                return step.state, step.grads.family

            start = recursion.init(self.model, self.family, trainable)
            return jax.lax.scan(one, start, self.ys)[1]

        options: Any = HASTE if hasty else None
        return jax.jit(lambda k: jax.lax.map(run, k), compiler_options=options)(keys)


def squared_norm(values: PyTree) -> float:
    """Sum of squares over all leaves."""
    return float(tree.vdot(values, values))
