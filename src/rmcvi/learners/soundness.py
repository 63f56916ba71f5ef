"""Is what a row left behind still sound? If not, the state before the row stays.

A state is sound if it holds no number that is infinite, absurd or NaN, but where NaN belongs: in
the parts that hold one before the first row, or after a row of nothing. A prediction is sound if it
is finite, as it was before, and no further from the last value than a thousand times what the
column has moved at once of late. In place of one that is not, the last value is given, with
the usual change as its deviation. A learner whose predictions stay unsound starts afresh.
"""

import functools
import operator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from rmcvi.contract import Prediction
from rmcvi.learners.monitors import Values
from rmcvi.learners.predict import deviation

LARGEST = 1e30
"""Numbers of a state beyond this are absurd: their squares are not finite in single precision."""
FAR = 1e3
"""Recent reaches of a column beyond which a prediction is absurd."""
FADE = 0.9999
"""What is left of a reach after a change: it halves in 7 000 changes."""
STRIKES = 5.0
"""Unsound predictions, one soon after the other, after which the learner starts afresh."""
REFUSED = 0.05
"""Strikes of a row that is not learned although its prediction was sound: the row may be absurd."""
RELIEF = 0.02
"""Strikes that a sound row takes back."""
LONG, PIECES = 64, 32
"""Numbers of an array that is looked at alone, and pieces that it is cut into at most."""
USUAL = 1.4826
"""Standard deviations of a normal change in its median size."""


class Soundness(eqx.Module):
    """What is known of predictions and values, and how often they were unsound."""

    reach: Float[Array, "dy"]
    """Largest change of each column of late, in the units of the data."""
    known: Bool[Array, "dy"]
    """Columns that have had a prediction."""
    strikes: Float[Array, ""]
    recoveries: Int[Array, ""]
    """Rows whose prediction was replaced or whose state was put back."""

    @classmethod
    def fresh(cls, dim: int) -> "Soundness":
        """Nothing seen of `dim` columns."""
        zero = jnp.zeros(())
        return cls(jnp.zeros(dim), jnp.zeros(dim, bool), zero, jnp.zeros((), int))

    @property
    def lost(self) -> Bool[Array, ""]:
        """Whether the learner has to start afresh."""
        return self.strikes >= STRIKES

    def judge(
        self, prediction: Prediction, row: Values, change: Float[Array, "dy"], level: float
    ) -> tuple[Prediction, Bool[Array, ""]]:
        """The prediction, its unsound columns replaced, and whether none was.

        Args:
            prediction: of the row, with intervals of probability `level`.
            row: what came.
            change: what each column usually changes by, in the units of the data.
            level: as said.
        """
        finite = jnp.isfinite(prediction.mean) & jnp.isfinite(prediction.high - prediction.low)
        far = jnp.abs(prediction.mean - row.last) * row.scale > FAR * self.reach
        unsound = self.known & jnp.where(finite, far & (self.reach > 0.0), True)
        unsound = unsound & jnp.isfinite(row.last)
        usual = jnp.where(change > 0.0, USUAL * change, self.reach) / row.scale
        scale = jnp.maximum(usual, 1e-6 * (1.0 + jnp.abs(row.last)))
        spread = jnp.where(unsound, scale, deviation(prediction, level))
        mean = jnp.where(unsound, row.last, prediction.mean)
        simple = Prediction.gaussian(mean, spread, row.y, level)
        replaced = Prediction(
            mean=mean,
            low=jnp.where(unsound, simple.low, prediction.low),
            high=jnp.where(unsound, simple.high, prediction.high),
            log_score=jnp.where(jnp.any(unsound), simple.log_score, prediction.log_score),
            p_value=jnp.where(unsound, simple.p_value, prediction.p_value),
        )
        return replaced, ~jnp.any(unsound)

    def conclude(
        self,
        prediction: Prediction,
        row: Values,
        predicted: Bool[Array, ""],
        state: Bool[Array, ""],
    ) -> "Soundness":
        """After a row whose prediction (`predicted`) and state were sound, or were not."""
        move = jnp.where(jnp.isnan(row.move), 0.0, jnp.minimum(jnp.abs(row.move), LARGEST))
        finite = jnp.isfinite(prediction.mean) & jnp.isfinite(row.scale)
        sound = predicted & state
        more = jnp.where(predicted, jnp.where(state, -RELIEF, REFUSED), 1.0)
        return Soundness(
            # A column that is stuck or dead keeps its reach: it may come back.
            reach=jnp.where(move > 0.0, jnp.maximum(FADE * self.reach, move), self.reach),
            known=self.known | finite,
            strikes=jnp.maximum(self.strikes + more, 0.0),
            recoveries=self.recoveries + ~sound,
        )


def strict_leaves(leaves: Any) -> list[bool]:
    """Which arrays hold numbers that are all finite, given those after a row of nothing."""
    return [bool(np.isfinite(v).all()) for v in jax.device_get(list(leaves))]


def is_sound(tree: PyTree, strict: Bool[Array, "n"]) -> Bool[Array, ""]:
    """Whether every strict array holds numbers that are finite and not absurd."""
    pairs = zip(jax.tree.leaves(tree), strict, strict=True)
    leaves = [(v, must) for v, must in pairs if v.size and jnp.issubdtype(v.dtype, jnp.inexact)]
    good = [_is_small(v) | ~must for v, must in leaves if v.size > LONG]
    # Short arrays one after the other: to begin with one takes longer than to look at its numbers.
    short = [(v.ravel(), must) for v, must in leaves if v.size <= LONG]
    if short:
        sizes = np.array([v.size for v, _ in short])
        numbers = jnp.concatenate([*(v for v, _ in short), jnp.zeros(-sum(sizes) % PIECES)])
        must = jnp.repeat(jnp.stack([m for _, m in short]), sizes, total_repeat_length=len(numbers))
        good.append(_is_small(jnp.where(must, numbers, 0.0)))
    return functools.reduce(operator.and_, good, jnp.array(True))


def _is_small(values: Float[Array, "..."]) -> Bool[Array, ""]:
    """Whether no number is absurd, by pieces of the array laid upon one another.

    The compiler goes through a reduction number by number, and through what is done to arrays of
    one shape by vectors. Cut along other axes than its own, every number's place is divided for.
    """
    pieces = [values]
    while pieces[0].ndim and 2 * len(pieces) <= PIECES:
        most = PIECES // len(pieces)
        count = next(n for n in range(most, 0, -1) if pieces[0].shape[0] % n == 0)
        pieces = [part for piece in pieces for part in jnp.split(piece, count)]
        if len(pieces[0]) > 1:
            break
        pieces = [piece[0] for piece in pieces]
    return jnp.all(functools.reduce(operator.and_, [jnp.abs(v) < LARGEST for v in pieces]))
