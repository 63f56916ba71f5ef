"""Learning never makes it worse: what was learned is on trial against what it was learned from.

Beside the learner two plain filters run, both with the family as it was before training (tied to
its model, if it is of that kind; by natural steps, if the learner takes such): one with the
learner's model, one with a model kept as reference.
From time to time all three predict the same observations, and paired log scores decide:

- the learner is worse than the untrained family with the same model: phi goes back to its start;
- with its model the untrained family is worse than the reference, and the learner is no better:
  theta goes back to the reference;
- with its model the untrained family beats the reference, and so does the learner: that is the new
  reference.

What goes back learns four times as slowly afterwards, until it proves better.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
from rmcvi.learners.best import back
from rmcvi.monitors.health import Alarm
from rmcvi.monitors.paired import PairedState

PERIOD, ACTIVE, BURN_IN = 1024, 128, 32
"""The filters run throughout the first period, in the first eighth of each later one, and as long
as steps are much shortened, for then something is wrong; they are compared when they know where
they are, so that one that still starts is never held to be better."""
DAMPED = 0.25
"""Steps shortened to less than this are: one halving comes and goes, under volatility often."""
LEAST = 0.01
"""Nats per row and coordinate that are worth acting upon."""
SLOWER = 0.25
"""What is left of the steps of what went back."""
SALT = 7
"""Folded into the row's key, so that the learner's own draws stay what they are."""


class TrialState(eqx.Module):
    """The reference, the filters, three comparisons, and what became of it."""

    theta: PyTree
    em: PyTree
    filters: PyTree
    """Carries of the untrained family under the present model, and under the reference."""
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
        filters = jax.tree.map(lambda v: jnp.stack([v, v]), carry)
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
    """The comparison."""

    def init(self, learner: Any, theta: PyTree, em: PyTree) -> TrialState:
        """At the start."""
        return TrialState.of(theta, em, learner.family.initial_carry(learner.model))

    def step(
        self,
        learner: Any,
        state: Any,
        rows: tuple[Float[Array, "dy"], Float[Array, "dy"]],
        inputs: Inputs,
        own: Float[Array, ""],
    ) -> tuple[TrialState, Verdict]:
        """Score one row three times, unless the filters still start, and judge.

        Args:
            learner: the estimator.
            state: before it learns from the row.
            rows: y as it is scored, and as it is learned from.
            inputs: of this row.
            own: the learner's log score of y.
        """
        no = jnp.zeros((), bool)
        asleep = Verdict(no, no, no, no)
        return jax.lax.cond(
            _regular(state) | _damped(state),
            lambda v: self._look(learner, state, v, rows, inputs, own),
            lambda v: (v, asleep),
            state.trial,
        )

    def _look(
        self,
        learner: Any,
        state: Any,
        trial: TrialState,
        rows: tuple[Float[Array, "dy"], Float[Array, "dy"]],
        inputs: Inputs,
        own: Float[Array, ""],
    ) -> tuple[TrialState, Verdict]:
        theta = eqx.filter(learner.model_at(state), learner.trainable.model)
        pair = jax.tree.map(lambda a, b: jnp.stack([a, b]), theta, trial.theta)
        phase, damped, rest = state.t % PERIOD, _damped(state), state.watch.health.rest
        # Begun once, at the halving that leads there: what goes wrong slowly shows in the long run.
        first = (rest == 0) & (state.watch.factor >= 0.5 * DAMPED)
        begin = jnp.where(damped, first, phase == 0)
        filters = jax.lax.cond(begin, lambda: _begin(learner, pair), lambda: trial.filters)
        key = jax.random.fold_in(jax.random.fold_in(state.key, state.t), SALT)
        due = (~_regular(state) | (phase >= BURN_IN)) & (~damped | (rest >= BURN_IN))
        scores, after = _filtered(learner, (pair, filters), rows, inputs, key)
        family = trial.family.add(own - scores[0], due)
        rival = trial.learner.add(own - scores[1], due)
        model = trial.model.add(scores[0] - scores[1], due)
        verdict = self._judge(learner, family, rival, model)
        anew, fresh = verdict.theta_back | verdict.adopt, PairedState.fresh()
        phi_anew = verdict.phi_back | verdict.better_family | anew
        return TrialState(
            theta=tree.where(verdict.adopt, theta, trial.theta),
            em=tree.where(verdict.adopt, state.em, trial.em),
            filters=tree.where(tree.all_finite(after), after, filters),
            family=tree.where(phi_anew, fresh, family),
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
        phi_worse, phi_better = family.beyond(least)
        theta_worse, theta_better = model.beyond(least)
        learned = tree.has_arrays(eqx.filter(learner.family, learner.trainable.family))
        return Verdict(
            theta_back=theta_worse & (rival.mean < 0.0),
            phi_back=phi_worse & learned,
            adopt=theta_better & (rival.mean > 0.0),
            better_family=phi_better,
        )


def obey(learner: Any, verdict: Verdict, trial: TrialState, state: Any) -> Any:
    """The learner's state with what has to go back gone back, its averages as well."""
    start = eqx.filter(learner.family, learner.trainable.family)
    gates = state.theta_ascent.gate, state.phi_ascent.gate
    kept = (
        (state.theta, state.theta_ascent.average, state.em),
        (state.phi, state.phi_ascent.average),
    )

    def gone(kept: Any) -> Any:
        (theta, theta_mean, em), (phi, phi_mean) = kept
        when = verdict.theta_back, verdict.phi_back
        return (
            back(when[0], trial.theta, theta, gates[0]),
            None if theta_mean is None else back(when[0], trial.theta, theta_mean, gates[0]),
            tree.where(when[0], trial.em, em),
        ), (
            back(when[1], start, phi, gates[1]),
            None if phi_mean is None else back(when[1], start, phi_mean, gates[1]),
        )

    changed = verdict.theta_back | verdict.phi_back
    model, family = jax.lax.cond(changed, gone, lambda v: v, kept)
    return eqx.tree_at(
        lambda s: (s.theta, s.theta_ascent.average, s.em, s.phi, s.phi_ascent.average, s.trial),
        state,
        (*model, *family, trial),
        is_leaf=lambda v: v is None,
    )


def _regular(state: Any) -> Bool[Array, ""]:
    """Whether the filters run at this row in any case."""
    return (state.t % PERIOD < ACTIVE) | (state.t < PERIOD)


def _damped(state: Any) -> Bool[Array, ""]:
    """Whether steps are much shortened."""
    return state.watch.factor < DAMPED


def _begin(learner: Any, pair: PyTree) -> PyTree:
    """Carries before the first row, under both models."""
    begin = learner.family.initial_carry
    return jax.vmap(lambda v: begin(eqx.combine(v, learner.model)), axis_size=2)(pair)


def _filtered(
    learner: Any,
    filters: tuple[PyTree, PyTree],
    rows: tuple[Float[Array, "dy"], Float[Array, "dy"]],
    inputs: Inputs,
    key: Key[Array, ""],
) -> tuple[Float[Array, "2"], PyTree]:
    """Log scores of y under both models, by as many draws as the learner's own; carries after it.

    Args:
        learner: the estimator.
        filters: parameters and carries, two of each, taken one after the other: branches stay
            branches, and the program has all of it once.
        rows: y as it is scored, and as it is learned from.
        inputs: of this row.
        key: the same for both.
    """
    k1, k2, k3 = jax.random.split(key, 3)
    family = learner.family

    def one(pair):
        theta, carry = pair
        model = eqx.combine(theta, learner.model)
        before = family.distribution.sample(k1, family.marginal(carry), learner.draws)
        x = model.transition_draws(k2, before, inputs)
        log_g = jax.vmap(lambda v: model.observed_log_prob(v, rows[0], inputs))(x)
        score = jax.nn.logsumexp(log_g) - jnp.log(learner.draws)
        return score, learner.recursion.advance(carry, model, family, rows[1], inputs, k3)

    return jax.lax.map(one, filters)


def _rate(rate: Float[Array, ""], worse: Bool[Array, ""], better: Bool[Array, ""]) -> Array:
    slower = jnp.where(worse, SLOWER * rate, rate)
    return jnp.where(better, jnp.minimum(1.0, 2.0 * slower), slower)
