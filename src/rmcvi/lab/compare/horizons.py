"""Forecasts of several lengths, made along the way and judged by what came.

At every `every`-th row a method that has learned from all rows so far, and from none later, is
asked for the rows ahead. Rivals without a program of their own: the last value, and the value one
season (or the least number of whole seasons) before.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from rmcvi.contract import AbstractLearner, Band
from rmcvi.core.checks import check_int
from rmcvi.core.inputs import Inputs
from rmcvi.core.past import last_value

HORIZONS = (1, 6, 24, 48, 168)
"""Rows ahead: of hours, the next one, a shift, a day, two days and a week."""


class Ahead(NamedTuple):
    """Forecasts (origins, horizons, columns), NaN for those that nobody made."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def forecasts(
    learner: AbstractLearner,
    ys: ArrayLike,
    u: ArrayLike | None = None,
    dt: ArrayLike | None = None,
    *,
    every: int,
    horizons: Sequence[int] = HORIZONS,
) -> Ahead:
    """What a learner says of the rows ahead of every `every`-th one, learning in between.

    Args:
        learner: one that has seen nothing.
        ys: rows, NaN = not observed.
        u: inputs of each row; those of the rows ahead are known.
        dt: length of each step.
        every: rows between two forecasts.
        horizons: how many rows ahead.
    """
    ys = jnp.asarray(ys, float)
    count = len(ys) // check_int("every", every)
    inputs = Inputs.sequence(len(ys), u, dt, learner.dim_input)
    # Behind the last row there is nothing to judge, but shapes are constant.
    longer = jax.tree.map(lambda v: jnp.concatenate([v, v[-1:].repeat(max(horizons), 0)]), inputs)
    band = _forecasts(learner, ys, longer, count, every, tuple(horizons))
    return Ahead(*(np.asarray(v) for v in (band.mean, band.low, band.high)))


@eqx.filter_jit
def _forecasts(
    learner: AbstractLearner,
    ys: Array,
    inputs: Inputs,
    count: int,
    every: int,
    horizons: tuple[int, ...],
) -> Band:
    unseen = jnp.full(learner.dim_obs, jnp.nan)
    places = np.array(horizons) - 1

    def learn(state: PyTree, row: Any) -> tuple[PyTree, None]:
        return learner.step(state, *row)[0], None

    def ahead(state: PyTree, inputs: Inputs) -> tuple[PyTree, Band]:
        state, info = learner.step(state, unseen, inputs)
        said = info.prediction
        return state, Band(said.mean, said.low, said.high)

    def block(state: PyTree, k: Array) -> tuple[PyTree, Band]:
        def rows(values: PyTree, first: Array, size: int) -> PyTree:
            return jax.tree.map(lambda v: jax.lax.dynamic_slice_in_dim(v, first, size), values)

        state, _ = jax.lax.scan(learn, state, rows((ys, inputs), k * every, every))
        later = rows(inputs, (k + 1) * every, max(horizons))
        band = jax.lax.scan(ahead, state, later)[1]
        return state, jax.tree.map(lambda v: v[places], band)

    return jax.lax.scan(block, learner.init(jax.random.key(0)), jnp.arange(count))[1]


def targets(ys: np.ndarray, every: int, horizons: Sequence[int] = HORIZONS) -> np.ndarray:
    """What came, (origins, horizons, columns); NaN beyond the last row."""
    place = _origins(ys, every)[:, None] + np.array(horizons)[None] - 1
    return _at(ys, place)


def last_values(ys: np.ndarray, every: int, horizons: Sequence[int] = HORIZONS) -> np.ndarray:
    """The last value of each column, whatever the horizon."""
    filled = last_value(np.concatenate([ys, ys[-1:]]), np.full(ys.shape[1], np.nan))
    return np.repeat(filled[_origins(ys, every)][:, None], len(horizons), 1)


def seasons_before(
    ys: np.ndarray, period: int, every: int, horizons: Sequence[int] = HORIZONS
) -> np.ndarray:
    """The value at the same phase of the last season that was seen at the origin."""
    ahead = np.array(horizons)
    back = ahead - period * -(-ahead // period)
    return _at(ys, _origins(ys, every)[:, None] + back[None] - 1)


def _origins(ys: np.ndarray, every: int) -> np.ndarray:
    """Numbers of rows that were seen before each forecast."""
    return every * np.arange(1, len(ys) // every + 1)


def _at(ys: np.ndarray, place: np.ndarray) -> np.ndarray:
    inside = (place >= 0) & (place < len(ys))
    return np.where(inside[..., None], ys[np.where(inside, place, 0)], np.nan)


class Fared(NamedTuple):
    """Of each horizon: root mean square error, its standard error, share inside, values."""

    rmse: np.ndarray
    error: np.ndarray
    coverage: np.ndarray
    values: np.ndarray


def alone(mean: np.ndarray) -> Ahead:
    """A forecast without an interval."""
    return Ahead(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))


def fared(ahead: Ahead, target: np.ndarray, counted: np.ndarray) -> Fared:
    """How forecasts fared, over what is `counted`.

    Standard errors are by tenths of the stream, which are long beside the horizons.
    """
    squares = np.where(counted, (ahead.mean - target) ** 2, 0.0)
    inside = counted & (target >= ahead.low) & (target <= ahead.high)
    count = counted.sum((0, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        rmse = np.sqrt(squares.sum((0, 2)) / count)
        tenths = [
            s.sum((0, 2)) / c.sum((0, 2))
            for s, c in zip(np.array_split(squares, 10), np.array_split(counted, 10), strict=True)
        ]
        error = np.nanstd(tenths, 0, ddof=1) / np.sqrt(10) / (2.0 * rmse)
        return Fared(rmse, error, inside.sum((0, 2)) / count, count)
