"""Online EM for parameters that enter linearly (docs/theory/online-em.md).

S <- S + gamma (dS - S),    gamma = max(rows^-power, floor),    dS = increment of E[sum s | y],

and every few rows the parameters become those that S calls for: regressions of targets on features.
dS is the gradient of a tilted model (`models.Tilted`), so that any recursion provides it.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from rmcvi.contract import Trainable
from rmcvi.core import tree
from rmcvi.core.checks import check_instance, check_int, check_real
from rmcvi.models import AbstractGaussianModel, Held, LinearPart, Statistics, Tilted
from rmcvi.optim.maximise import best_coefficients, best_covariance


class PartState(eqx.Module):
    """What was seen of a regression, and what it started from."""

    statistics: Statistics
    """Averages over rows."""
    rows: Int[Array, "b"]
    """How often each block was seen."""
    start: tuple[Float[Array, "b k m"], Float[Array, "b m m"]]
    """Coefficients and covariance."""

    @classmethod
    def of(cls, part: LinearPart) -> "PartState":
        """Nothing seen."""
        zeros = Statistics.zeros(part)
        rows = jnp.zeros(zeros.count.shape, int)
        return cls(zeros, rows, (part.coefficients.value, part.covariance.value))


class EMState(eqx.Module):
    """Both regressions; None for one that is not learned."""

    t: Int[Array, ""]
    transition: PartState | None
    emission: PartState | None


class OnlineEM(eqx.Module):
    """Closed-form steps for the parameters that a model calls linear; gradients for the rest.

        model = rmcvi.models.LinearGaussian(np.array([0.5, 0.6]), np.ones(2), 0.3, 0.3)
        family, adam = rmcvi.families.LinearGaussianFamily(), optax.adam(1e-3)
        em = rmcvi.optim.OnlineEM()
        learner = rmcvi.OnlineEstimator(model, family, rmcvi.RMCVI(50), adam, adam, em=em)
        state, infos = rmcvi.scan(learner, learner.init(jax.random.key(0)), jnp.zeros((40, 2)))

    It owns what `linear_transition` and `linear_emission` of the model declare, coefficients and
    noise each as a whole, if they are trained.
    """

    power: float = eqx.field(static=True)
    floor: float = eqx.field(static=True)
    prior: float = eqx.field(static=True)
    every: int = eqx.field(static=True)
    warm_up: int = eqx.field(static=True)

    def __init__(
        self,
        *,
        power: float = 0.6,
        floor: float = 0.0,
        prior: float = 10.0,
        every: int = 1,
        warm_up: int = 30,
    ):
        """Choose how statistics are averaged and how often they are used.

        Args:
            power: decay of the step size; above 1/2 and at most 1 (a plain mean of all rows).
            floor: smallest step size; about 1 / floor rows are remembered (0: all).
            prior: rows of typical features that the starting parameters are worth.
            every: rows between two M-steps.
            warm_up: rows before the first.
        """
        if not 0.5 < power <= 1.0:
            raise ValueError(f"power: got {power}, expected a number above 0.5 and at most 1")
        self.power = float(power)
        self.floor = floor and check_real("floor", floor, 0.0, 1.0)
        self.prior = prior and check_real("prior", prior, 0.0)
        self.every = check_int("every", every)
        self.warm_up = check_int("warm_up", warm_up)

    def init(self, model: Any, trainable: Trainable) -> EMState:
        """Nothing seen; raises if there is nothing to learn."""
        check_instance("model", model, AbstractGaussianModel)
        states = [part and PartState.of(part.regression) for part in owned_parts(model, trainable)]
        if not any(states):
            raise ValueError(
                f"em: got a {type(model).__name__} of which no trained parameters enter linearly, "
                "expected some that do"
            )
        return EMState(jnp.zeros((), int), *states)

    def tilted(self, model: Any, trainable: Trainable) -> tuple[Tilted, Trainable]:
        """The model whose gradient holds the statistics, and what of it is differentiated."""
        parts, rest = owned_parts(model, trainable), _trained(model, trainable)
        for part in filter(None, parts):
            for held in filter(None, (part.coefficients, part.covariance)):
                rest = eqx.tree_at(held.where, rest, (False,) * len(held.where(rest)))
        tilted = Tilted(model, *(part and Statistics.zeros(part.regression) for part in parts))
        spec = eqx.tree_at(lambda v: v.base, jax.tree.map(lambda _: True, tilted), rest)
        return tilted, Trainable(spec, trainable.family)

    def step(
        self,
        state: EMState,
        model: AbstractGaussianModel,
        increment: Tilted,
        trainable: Trainable,
        share: PyTree,
    ) -> tuple[EMState, AbstractGaussianModel]:
        """Take in a row's statistics and, if it is time, the parameters that they call for.

        Args:
            state: what was seen.
            model: the current one.
            increment: gradient of the tilted model.
            trainable: as in `init`.
            share: how far each trained leaf goes, from 0 (frozen) to 1 (all the way).
        """
        seen = (
            self._averaged(state.transition, increment.transition),
            self._averaged(state.emission, increment.emission),
        )
        new = EMState(state.t + 1, *seen)
        for part, now in zip(owned_parts(model, trainable), seen, strict=True):
            if part is not None and now is not None:
                model = self._maximised(model, part, now, share, new.t % self.every == 0)
        return new, model

    def _averaged(self, state: PartState | None, fresh: Statistics | None) -> PartState | None:
        """S + gamma (dS - S); a block that was not seen forgets nothing."""
        if state is None or fresh is None:
            return state
        seen = fresh.count > 0.5
        rows = state.rows + seen
        gamma = jnp.maximum(jnp.maximum(rows, 1).astype(float) ** -self.power, self.floor)

        def average(old, new):
            step, fades = (v.reshape(-1, *(1,) * (old.ndim - 1)) for v in (gamma, gamma * seen))
            return (1.0 - fades) * old + step * new

        statistics = jax.tree.map(average, state.statistics, fresh)
        sound = tree.all_finite(statistics)
        return tree.where(sound, PartState(statistics, rows, state.start), state)

    def _maximised(
        self,
        model: AbstractGaussianModel,
        owned: "Owned",
        state: PartState,
        share: PyTree,
        due: Bool[Array, ""],
    ) -> AbstractGaussianModel:
        """The model after an M-step of one of its regressions."""
        part, seen = owned.regression, state.statistics
        weight = self.prior * jnp.maximum(1.0 / jnp.maximum(state.rows, 1), self.floor)
        ready = (state.rows >= self.warm_up)[:, None, None]

        def work():
            a, v = part.coefficients.value, part.covariance.value
            if owned.coefficients is not None:
                best = best_coefficients(part, state.start[0], seen, weight)
                a = _towards(a, best, ready, owned.coefficients.where(share))
            if owned.covariance is not None:
                best = best_covariance(part, state.start, seen, weight, a)
                v = _towards(v, best, ready, owned.covariance.where(share))
            return a, v

        old = part.coefficients.value, part.covariance.value
        values = work() if self.every == 1 else jax.lax.cond(due, work, lambda: old)
        for held, value in zip((owned.coefficients, owned.covariance), values, strict=True):
            if held is not None:
                # Numbers that stay need no way there and back through their leaves.
                stays = jnp.all(value == held.value)
                leaves = tree.where(stays, held.where(model), held.leaves(value))
                model = eqx.tree_at(held.where, model, leaves)
        return model


class Owned(NamedTuple):
    """A regression, and what of it is learned by EM; None for what is not."""

    regression: LinearPart
    coefficients: Held | None
    covariance: Held | None


def owned_parts(
    model: AbstractGaussianModel, trainable: Trainable
) -> tuple[Owned | None, Owned | None]:
    """What EM learns of the transition and of the emission, None for nothing."""
    mask = _trained(model, trainable)

    def whole(held: Held) -> Held | None:
        leaves = zip(held.where(model), held.where(mask), strict=True)
        return held if all(trained for leaf, trained in leaves if leaf.size) else None

    def owned(part: LinearPart | None) -> Owned | None:
        if part is None:
            return None
        a, v = whole(part.coefficients), whole(part.covariance)
        return None if a is None and v is None else Owned(part, a, v)

    return owned(model.linear_transition()), owned(model.linear_emission())


def _trained(model: AbstractGaussianModel, trainable: Trainable) -> PyTree:
    """True at the leaves that are trained, False at the others."""
    kept = eqx.filter(model, trainable.model)
    return jax.tree.map(lambda _, leaf: leaf is not None, model, kept)


def _towards(
    old: Float[Array, "b i j"],
    best: Float[Array, "b i j"],
    ready: Bool[Array, "b 1 1"],
    shares: tuple[Float[Array, ""] | None, ...],
) -> Float[Array, "b i j"]:
    """The way from `old` to `best` as far as all its leaves may go, if it is a number at all."""
    share = jnp.min(jnp.stack([v for v in shares if v is not None])).astype(old.dtype)
    return jnp.where(ready & jnp.all(jnp.isfinite(best)), old + share * (best - old), old)
