"""Which recursion, family and number of particles suit a model? A trial on data of its own.

A stream is simulated from the model, whose states are therefore known. Candidates filter it with
the true parameters; a particle filter with many particles, or the extended Kalman filter if that
is better, is the goal. The rule, also in docs/guides/choosing.md: the first candidate within 5 %
of the goal whose 90 % bands hold as much as the particle filter's is taken, in the order of
preference, and those after it need not be tried; if none is, the first within 5 % of the best.
"""

import time
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from rmcvi.baselines import AllPairs, ExtendedKalmanRecursion, ParticleRecursion, particle_filter
from rmcvi.contract import AbstractRecursion, Trainable
from rmcvi.core.checks import check_instance, check_int
from rmcvi.core.inputs import Inputs
from rmcvi.families import LinearGaussianFamily, RecurrentFamily
from rmcvi.learners.estimator import OnlineEstimator
from rmcvi.learners.loops import scan
from rmcvi.models import AbstractModel, simulate
from rmcvi.recursion import RMCVI, CalibratedWeights, NaturalRMCVI

FLOOR = 5000
"""Particles of the filter that the others are held against."""
NEAR = 1.05
"""An error this many times the goal is as good: a trial of 500 rows tells no less."""
LEVEL = 0.9
NARROW = 0.02
"""Bands that hold this much less than the particle filter's, on the same stream, are too narrow."""
MIXED = 500
"""Particles of a particle recursion that learns, whose work grows with their square."""
COMPONENTS, EACH = 4, 10
"""Of a mixture, and particles of each of its pieces."""


@dataclass(frozen=True)
class Candidate:
    """A recursion with its family."""

    name: str
    recursion: AbstractRecursion
    family: Any
    learns: bool = True
    """Whether it is offered, or only there to compare with."""
    gaussian: bool = True
    """Whether its posterior is one Gaussian."""


@dataclass(frozen=True)
class Outcome:
    """How a candidate did."""

    candidate: Candidate
    rmse: float
    """Of the filtered mean, in standard deviations of each state."""
    coverage: float
    """Share of the states within 90 % bands."""
    log_score: float
    """Of one row, predicted."""
    microseconds: float
    """Of one row, of processor time."""


@dataclass(frozen=True)
class Suggestion:
    """A choice and its reasons; `print` it, then take its `learner()`."""

    model: AbstractModel
    outcomes: tuple[Outcome, ...]
    floor: float
    """Error of the particle filter."""
    bands: float
    """Share of the states within its 90 % bands."""
    chosen: Candidate
    why: str

    def learner(self, **options: Any) -> OnlineEstimator:
        """The suggested learner; `options` are those of `OnlineEstimator`."""
        return OnlineEstimator(self.model, self.chosen.family, self.chosen.recursion, **options)

    def __str__(self) -> str:
        head = f"{'':<34}{'error':>8}{'/ floor':>9}{'90 % bands':>12}{'score':>9}{'us a row':>10}"
        share = f"{100 * self.bands:.0f} %"
        rows = [f"{f'particle filter, {FLOOR}':<34}{self.floor:>8.3f}{1.0:>9.2f}{share:>12}"]
        for v in self.outcomes:
            share = f"{100 * v.coverage:.0f} %"
            rows.append(
                f"{v.candidate.name:<34}{v.rmse:>8.3f}{v.rmse / self.floor:>9.2f}{share:>12}"
                f"{v.log_score:>9.3f}{v.microseconds:>10.0f}"
            )
        if len(self.outcomes) > 1 and self.chosen is self.outcomes[-1].candidate:
            rows.append("(Good enough, so that what comes after it was not tried: every=True.)")
        return "\n".join([head, *rows, f"Take {self.chosen.name}: {self.why}"])


def candidates(model: AbstractModel, particles: int) -> list[Candidate]:
    """Those that can run on a model, in the order of preference."""
    cloud = ParticleRecursion(MIXED, gradient=True, backward=AllPairs())
    last = Candidate(f"particle recursion, N = {MIXED}", cloud, None, gaussian=False)
    if model.gaussian is None:
        return [last]
    full, diagonal = LinearGaussianFamily(), LinearGaussianFamily(diagonal=True)
    tied = RMCVI(particles, window=8, bptt=2, backward=CalibratedWeights())
    mixture = NaturalRMCVI(EACH, components=COMPONENTS)
    several = f"NaturalRMCVI, {COMPONENTS} components, N = {EACH}"
    return [
        Candidate(f"NaturalRMCVI, full, N = {particles}", NaturalRMCVI(particles), full),
        Candidate(f"NaturalRMCVI, diagonal, N = {particles}", NaturalRMCVI(particles), diagonal),
        Candidate(f"RMCVI, tied, N = {particles}", tied, full),
        Candidate(several, mixture, full, gaussian=False),
        last,
        Candidate("extended Kalman filter", ExtendedKalmanRecursion(), full, learns=False),
    ]


def suggest(
    model: AbstractModel,
    *,
    rows: int = 500,
    particles: int = 50,
    u: ArrayLike | None = None,
    every: bool = False,
    seed: int = 0,
) -> Suggestion:
    """Try what could filter `model` on a stream of its own; most of the time is compilation.

    Args:
        model: with the parameters that you think likely.
        rows: length of the stream.
        particles: N of the candidates.
        u: exogenous inputs of the stream, one row each (default: zeros).
        every: try every candidate, also those after the first that is good enough.
        seed: of the stream and the draws.
    """
    check_instance("model", model, AbstractModel)
    check_int("rows", rows, 20)
    inputs = Inputs.sequence(rows, u, None, model.dim_input)
    k1, k2 = jax.random.split(jax.random.key(seed))
    states, ys = simulate(model, k1, rows, inputs.u)
    law = particle_filter(model, ys, inputs, key=k2, num_particles=FLOOR)
    floor, bands = error(law.mean, states), covered(law.mean, law.covariance, states)
    tried: list[Outcome] = []
    for candidate in sorted(candidates(model, particles), key=lambda c: c.learns):
        learner = plain(model, candidate)
        tried.append(attempt(candidate, learner, (states, ys, inputs), k2))
        enough = tried[-1].rmse <= NEAR * goal(tried, floor) and honest(tried[-1], bands)
        if candidate.learns and enough and not every:
            break
    chosen, why = choose(tried, floor, bands)
    if model.gaussian is None:
        key = jax.random.key(seed)
        family = RecurrentFamily(model.dim_state, model.dim_obs, key=key, dim_input=model.dim_input)
        chosen = Candidate(f"RMCVI, RecurrentFamily, N = {particles}", RMCVI(particles), family)
        why = (
            "the model offers densities only, and this family, untrained, cannot be tried; if the "
            "noise of the transition is Gaussian, write it as an AbstractGaussianModel."
        )
    return Suggestion(model, tuple(tried), floor, bands, chosen, why)


def plain(model: AbstractModel, candidate: Candidate) -> OnlineEstimator:
    """A learner that learns nothing and watches nothing: it filters with the parameters given."""
    return OnlineEstimator(
        model,
        candidate.family,
        candidate.recursion,
        optax.sgd(0.0),
        optax.sgd(0.0),
        trainable=Trainable(model=False, family=False),
        health=False,
        drift=False,
        sensors=False,
        screen_width=None,
    )


def attempt(
    candidate: Candidate,
    learner: OnlineEstimator,
    stream: tuple[Array, Array, Inputs],
    key: Array,
    *,
    timed: bool = True,
) -> Outcome:
    """Filter a stream of known states with the true parameters; the second half counts.

    Args:
        candidate: what filters.
        learner: its `plain` learner, made once for all streams (each is a compilation).
        stream: states, observations and inputs.
        key: of its draws.
        timed: filter it a second time, compiled, to see how long it takes.
    """
    states, ys, inputs = stream

    def run() -> Any:
        found = scan(learner, learner.init(key), ys, inputs.u, collect=_told)[1]
        return jax.block_until_ready(found)

    mean, covariance, score = run()
    took = float("nan")
    if timed:
        begin = time.process_time()
        run()
        took = time.process_time() - begin
    return Outcome(
        candidate,
        error(mean, states),
        covered(mean, covariance, states),
        float(jnp.nanmean(score[len(ys) // 2 :])),
        1e6 * took / len(ys),
    )


def goal(tried: list[Outcome], floor: float) -> float:
    """The least error of those that are there to compare with."""
    return min([floor, *(v.rmse for v in tried if not v.candidate.learns and np.isfinite(v.rmse))])


def honest(outcome: Outcome, bands: float) -> bool:
    """Whether its bands hold as much as the particle filter's."""
    return outcome.coverage >= bands - NARROW


def choose(tried: list[Outcome], floor: float, bands: float) -> tuple[Candidate, str]:
    """The rule: the first that is near the goal, or else near the best, and why.

    Args:
        tried: in the order of preference.
        floor: error of the particle filter.
        bands: share of the states within its bands.
    """
    offered = [v for v in tried if v.candidate.learns and np.isfinite(v.rmse)]
    if not offered:
        raise ValueError("model: got one on which everything diverges; see rmcvi.checks.model")
    best = min(v.rmse for v in offered)
    near = [v for v in offered if v.rmse <= NEAR * max(best, goal(tried, floor))]
    first = next((v for v in near if honest(v, bands)), near[0])
    why = f"its error is {first.rmse / floor:.2f} times the particle filter's"
    default = offered[0]
    if first is not default:
        why += f", that of {default.candidate.name} {default.rmse / floor:.2f} times"
    if first is not default and not honest(default, bands):
        why += f" with bands that hold {100 * default.coverage:.0f} %"
    if any(v.candidate.gaussian for v in offered) and not first.candidate.gaussian:
        why += "; the posterior is not Gaussian (several modes, a hard edge, or bent)"
    return first.candidate, why + "."


def _told(learner: Any, state: Any, info: Any) -> tuple[Array, Array, Array]:
    law = learner.filter(state)
    return law.mean, law.covariance, info.prediction.log_score


def error(mean: Float[Array, "T dx"], states: Float[Array, "T dx"]) -> float:
    """Root mean square over the second half, in standard deviations of each state."""
    late = len(states) // 2
    away = (mean - states)[late:] / jnp.std(states, 0)[None]
    return float(jnp.sqrt(jnp.mean(away**2)))


def covered(
    mean: Float[Array, "T dx"], covariance: Float[Array, "T dx dx"], states: Float[Array, "T dx"]
) -> float:
    """Share of the states of the second half within 90 % bands."""
    std = jnp.sqrt(jnp.diagonal(covariance, axis1=1, axis2=2))
    inside = jnp.abs(mean - states) <= NormalDist().inv_cdf(0.5 * (1.0 + LEVEL)) * std
    return float(jnp.mean(inside[len(states) // 2 :]))
