"""Learning never makes it worse: what was learned is on trial against what it was learned from.

Beside the learner two plain filters run, both with the family as it was before training (tied to
its model, if it is of that kind): one with the learner's model, one with a model kept as reference.
Every few rows all three predict the same observation, and paired log scores decide:

- the learner is worse than the untrained family with the same model: phi goes back to its start;
- it is worse than the reference, and the untrained family with its model is so too: theta goes back
  to the reference;
- with the present model the untrained family beats the reference: that is the new reference.

What goes back learns four times as slowly afterwards, until it proves better.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
from rmcvi.families import AbstractFamily
from rmcvi.learners.best import back
from rmcvi.learners.predict import next_states
from rmcvi.monitors.health import Alarm
from rmcvi.monitors.paired import PairedState

EVERY = 4
"""Rows from one comparison to the next: filters have to see every row, predictions need not."""
LEAST = 0.01
"""Nats per row and coordinate that are worth acting upon."""
SLOWER = 0.25
"""What is left of the steps of what went back."""
SALT = 7
"""Folded into the row's key, so that the learner's own draws stay what they are."""


class Filters(eqx.Module):
    """Carries of the untrained family under the present and under the reference model."""

    present: PyTree
    reference: PyTree


class TrialState(eqx.Module):
    """The reference, both filters, three comparisons, and what became of it."""

    theta: PyTree
    em: PyTree
    filters: Filters
    family: PairedState
    """Learner against the untrained family with the same model."""
    learner: PairedState
    """Learner against the reference."""
    model: PairedState
    """Untrained family with the present model against the reference."""
    theta_rate: Float[Array, ""]
    phi_rate: Float[Array, ""]
    returns: Int[Array, ""]
    """Number of times that something went back."""

    @classmethod
    def of(cls, theta: PyTree, em: PyTree, carry: PyTree) -> "TrialState":
        """At the start everything is the same."""
        fresh, one = PairedState.fresh(), jnp.ones(())
        filters = Filters(carry, carry)
        return cls(theta, em, filters, fresh, fresh, fresh, one, one, jnp.zeros((), int))


class Verdict(eqx.Module):
    """What follows from the comparisons."""

    theta_back: Bool[Array, ""]
    phi_back: Bool[Array, ""]
    adopt: Bool[Array, ""]
    """Whether the present model is the new reference."""
    better_family: Bool[Array, ""]
    """Whether the learner is surely better than the untrained family."""

    @property
    def alarms(self) -> Int[Array, ""]:
        """As flags."""
        family = jnp.where(self.phi_back, int(Alarm.FAMILY_WORSE), 0)
        return family + jnp.where(self.theta_back, int(Alarm.MODEL_WORSE), 0)


class Trial(eqx.Module):
    """The comparison; a learner without a family has none."""

    def init(self, learner: Any, theta: PyTree, em: PyTree) -> TrialState | None:
        """At the start."""
        if not isinstance(learner.family, AbstractFamily):
            return None
        return TrialState.of(theta, em, learner.family.initial_carry(learner.model))

    def step(
        self,
        learner: Any,
        state: Any,
        rows: tuple[Float[Array, "dy"], Float[Array, "dy"]],
        inputs: Inputs,
        own: Float[Array, ""],
    ) -> tuple[TrialState, Verdict]:
        """Score one row three times, and judge.

        Args:
            learner: the estimator.
            state: before it learns from the row.
            rows: y as it is scored, and as it is learned from.
            inputs: of this row.
            own: the learner's log score of y.
        """
        trial: TrialState = state.trial
        models = learner.model_at(state), eqx.combine(trial.theta, learner.model)
        key = jax.random.fold_in(jax.random.fold_in(state.key, state.t), SALT)
        due = (state.t % EVERY == 0) & jnp.isfinite(own)

        def scores(filters: Filters) -> Float[Array, "2"]:
            carries = filters.present, filters.reference
            pairs = zip(models, carries, strict=True)
            return jnp.stack(
                [_score(learner, m, c, (state.t, rows[0]), inputs, key) for m, c in pairs]
            )

        unknown = jnp.full(2, jnp.nan)
        plain, kept = jax.lax.cond(due, scores, lambda _: unknown, trial.filters)
        family = trial.family.add(own - plain, due)
        rival = trial.learner.add(own - kept, due)
        model = trial.model.add(plain - kept, due)
        verdict = self._judge(learner, family, rival, model)
        advance = learner.family.advance
        filters = Filters(
            advance(models[0], trial.filters.present, rows[1], inputs),
            advance(models[1], trial.filters.reference, rows[1], inputs),
        )
        anew, fresh = verdict.theta_back | verdict.adopt, PairedState.fresh()
        theta = eqx.filter(models[0], learner.trainable.model)
        return TrialState(
            theta=tree.where(verdict.adopt, theta, trial.theta),
            em=tree.where(verdict.adopt, state.em, trial.em),
            filters=tree.where(tree.all_finite(filters), filters, trial.filters),
            family=tree.where(verdict.phi_back | verdict.better_family | anew, fresh, family),
            learner=tree.where(verdict.phi_back | anew, fresh, rival),
            model=tree.where(anew, fresh, model),
            theta_rate=_rate(trial.theta_rate, verdict.theta_back, verdict.adopt),
            phi_rate=_rate(trial.phi_rate, verdict.phi_back, verdict.better_family),
            returns=trial.returns + verdict.theta_back + verdict.phi_back,
        ), verdict

    def _judge(
        self, learner: Any, family: PairedState, rival: PairedState, model: PairedState
    ) -> Verdict:
        least = LEAST * learner.dim_obs
        (phi_worse, phi_better), (worse, _) = family.beyond(least), rival.beyond(least)
        theta_worse, theta_better = model.beyond(least)
        learned = tree.has_arrays(eqx.filter(learner.family, learner.trainable.family))
        return Verdict(
            theta_back=worse & theta_worse,
            phi_back=phi_worse & learned,
            adopt=theta_better & (rival.mean > 0.0),
            better_family=phi_better,
        )


def obey(learner: Any, verdict: Verdict, trial: TrialState, state: Any) -> Any:
    """The learner's state with what has to go back gone back, its averages as well."""
    start = eqx.filter(learner.family, learner.trainable.family)
    theta = back(verdict.theta_back, trial.theta, state.theta, state.theta_ascent.gate)
    phi = back(verdict.phi_back, start, state.phi, state.phi_ascent.gate)
    means = [
        None if ascent.average is None else back(when, kept, ascent.average, ascent.gate)
        for ascent, when, kept in (
            (state.theta_ascent, verdict.theta_back, trial.theta),
            (state.phi_ascent, verdict.phi_back, start),
        )
    ]
    em = tree.where(verdict.theta_back, trial.em, state.em)
    return eqx.tree_at(
        lambda s: (s.theta, s.phi, s.trial, s.theta_ascent.average, s.phi_ascent.average, s.em),
        state,
        (theta, phi, trial, *means, em),
        is_leaf=lambda v: v is None,
    )


def _score(
    learner: Any,
    model: Any,
    carry: PyTree,
    row: tuple[Int[Array, ""], Float[Array, "dy"]],
    inputs: Inputs,
    key: Key[Array, ""],
) -> Float[Array, ""]:
    """Log score of a row (t, y) by as many draws of the filter as the learner's own predictions."""
    k1, k2 = jax.random.split(key)
    family, (t, y) = learner.family, row
    before = family.distribution.sample(k1, family.marginal(carry), learner.draws)
    x = next_states(model, before, t, inputs, k2)
    log_g = jax.vmap(lambda v: model.observed_log_prob(v, y, inputs))(x)
    return jax.nn.logsumexp(log_g) - jnp.log(learner.draws)


def _rate(rate: Float[Array, ""], worse: Bool[Array, ""], better: Bool[Array, ""]) -> Array:
    slower = jnp.where(worse, SLOWER * rate, rate)
    return jnp.where(better, jnp.minimum(1.0, 2.0 * slower), slower)
