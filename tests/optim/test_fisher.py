"""Fisher steps: as good as maximum likelihood, in any units, whatever the stream does."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array, PyTree

from rmcvi.optim import Ascent, Averaging, FisherState, fisher

SEEDS, ROWS = 100, 3000
MIX = jnp.array([[1.0, 0.0], [0.9, 0.4]])
"""Root of the regressors' covariance: correlated .91."""
TRUTH: dict[str, Array] = {"slope": jnp.array([1.0, -2.0]), "log_noise": jnp.asarray(jnp.log(0.5))}
START = {"slope": jnp.zeros(2), "log_noise": jnp.zeros(())}


def increment(theta: PyTree, row: Array) -> Array:
    """Log-likelihood of (x, y), y = slope x + noise."""
    mean = jnp.dot(theta["slope"], row[:2])
    return jax.scipy.stats.norm.logpdf(row[2], mean, jnp.exp(theta["log_noise"]))


def regression(seed: int, rows: int = 4000) -> np.ndarray:
    """A stream under TRUTH."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)) @ np.asarray(MIX).T
    y = x @ np.asarray(TRUTH["slope"]) + 0.5 * rng.normal(size=rows)
    return np.concatenate([x, y[:, None]], 1)


@cache
def usual() -> tuple[np.ndarray, PyTree, Any]:
    """Rows, and what `fisher` as it is makes of them: one program for all that compare with it."""
    rows = regression(3)
    return rows, *jax.jit(lambda r: run(fisher(), START, r))(rows)


def run(
    optimiser: optax.GradientTransformation,
    start: PyTree,
    rows: Array,
    value: Callable[[PyTree, Array], Array] = increment,
    power: float = 0.0,
) -> tuple[PyTree, Any]:
    """All iterates, and the state of the ascent after the last row."""
    ascent = Ascent(optimiser, averaging=Averaging(len(rows) // 5, power))

    def step(carry, now):
        state, theta = carry
        t, row = now
        slope = jax.grad(value)(theta, row)
        state, theta, _ = ascent.step(state, theta, slope, jnp.ones(()))
        return (ascent.average_in(state, theta, t), theta), theta

    first = (ascent.init(start), start)
    (state, _), path = jax.lax.scan(step, first, (jnp.arange(len(rows)), rows))
    return path, state


@pytest.mark.parametrize(
    ("power", "factor"), [(0.0, 1.0), pytest.param(1.0, 4.0 / 3.0, marks=pytest.mark.long)]
)
def test_averages_have_the_variance_of_maximum_likelihood(power: float, factor: float) -> None:
    """Mean of t d' I d over 100 streams: 3, here 3 / .8, for the first fifth is not averaged.

    With weights that grow like t^p, (p + 1)^2 / (2 p + 1) times as much (0: 1, 1: 4 / 3).
    """
    streams = regression(0, SEEDS * ROWS).reshape(SEEDS, ROWS, 3)
    information = np.zeros((3, 3))
    information[:2, :2], information[2, 2] = np.asarray(MIX @ MIX.T) / 0.25, 2.0

    def excess(rows):
        average = run(fisher(), START, rows, power=power)[1].average
        d = jnp.concatenate([average["slope"] - TRUTH["slope"], jnp.ravel(average["log_noise"])])
        d = d.at[2].add(-TRUTH["log_noise"])
        return ROWS * jnp.dot(d, information @ d)

    got = np.asarray(jax.jit(jax.vmap(excess))(streams))
    bound = 3.0 * factor / 0.8
    assert got.mean() <= bound + 3.0 * got.std() / np.sqrt(SEEDS)
    assert got.mean() >= 0.5 * bound  # the comparison itself is sound
    best = np.array([maximum_likelihood(rows, information) for rows in streams])
    assert abs(best.mean() - 3.0) <= 3.0 * best.std() / np.sqrt(SEEDS)


def maximum_likelihood(rows: np.ndarray, information: np.ndarray) -> float:
    """t d' I d of the batch estimate."""
    x, y = rows[:, :2], rows[:, 2]
    slope = np.linalg.solve(x.T @ x, x.T @ y)
    log_noise = 0.5 * np.log(np.mean((y - x @ slope) ** 2))
    d = np.append(slope - np.array([1.0, -2.0]), log_noise - np.log(0.5))
    return float(len(rows) * d @ information @ d)


def test_a_start_far_off_in_noise_and_slope_is_left_behind() -> None:
    """Where squared means drown the information: noise a hundredth, slopes ten off."""
    start = {"slope": jnp.array([10.0, -10.0]), "log_noise": jnp.asarray(-5.0)}
    rows = regression(1, 6000)
    path, state = jax.jit(lambda r: run(fisher(), start, r, power=1.0))(rows)
    assert abs(float(path["log_noise"][0]) + 5.0) == 0.0
    for name, value in TRUTH.items():
        np.testing.assert_allclose(state.average[name], value, atol=0.1)


def test_units_of_the_parameters_do_not_matter() -> None:
    """Units alone do nothing without a prior; turned axes, less than a third of a standard error.

    What is left of the latter comes from the shrinkage to a diagonal in the first rows; from a
    start far off it would be more, since the way to the optimum then takes longer or shorter. Of
    forty streams one ran away when nothing but the prior limited the steps.
    """
    streams = regression(2, 40 * 4000).reshape(40, 4000, 3)

    def slope(turn: Array, rows: Array) -> Array:
        def turned(theta, row):
            return increment({**theta, "slope": turn @ theta["slope"]}, row)

        near = jnp.linalg.solve(turn, TRUTH["slope"] + 0.1)
        start = {"slope": near, "log_noise": TRUTH["log_noise"]}
        return turn @ run(fisher(scale=1e6), start, rows, turned)[1].average["slope"]

    turns = np.array([np.eye(2), np.diag([8.0, 0.1]), [[2.0, 1.0], [0.0, 0.5]]])
    all_slopes = jax.jit(jax.vmap(jax.vmap(slope, (None, 0)), (0, None)))
    plain, units, axes = np.asarray(all_slopes(turns, streams))
    np.testing.assert_allclose(units, plain, rtol=1e-6)
    information = 4000 * np.asarray(MIX @ MIX.T) / 0.25
    apart = np.einsum("ni,ij,nj->n", axes - plain, information, axes - plain)
    assert np.median(apart) < 2.0 / 9.0
    assert np.max(apart) < 9.0
    off = np.einsum("ni,ij,nj->n", plain - [1.0, -2.0], information, plain - [1.0, -2.0])
    assert np.max(off) < 25.0 / 0.8


def test_the_prior_holds_what_the_first_rows_do_not_tell() -> None:
    """The level of a slow AR(1): with it, the worst excursions of 40 streams are halved."""

    def value(theta, pair):
        mean = theta["level"] + jnp.tanh(theta["slope"]) * (pair[0] - theta["level"])
        return jax.scipy.stats.norm.logpdf(pair[1], mean, jnp.exp(theta["log_noise"]))

    rng, ys = np.random.default_rng(9), np.zeros((40, 601))
    ys[:, 0] = 0.5 + 0.75 * rng.normal(size=40)
    for t, noise in enumerate(rng.normal(size=(600, 40)), 1):
        ys[:, t] = 0.01 + 0.98 * ys[:, t - 1] + 0.15 * noise
    streams = np.stack([ys[:, :-1], ys[:, 1:]], 2)
    start = {"level": jnp.zeros(()), "slope": jnp.asarray(1.5), "log_noise": jnp.asarray(-1.0)}
    worst = [
        jax.jit(
            jax.vmap(lambda r, s=scale: jnp.abs(run(fisher(scale=s), start, r, value)[0]["level"]))
        )(streams)
        for scale in (1.0, 1e3)
    ]
    with_it, without = (np.asarray(v).max(1).mean() for v in worst)
    assert with_it < 0.5 * without


def test_blocks_agree_with_the_whole_where_the_information_has_blocks() -> None:
    """Slope and noise are orthogonal; so are leaves with their own J."""
    rows, whole, _ = usual()
    blocks, state = jax.jit(lambda r: run(fisher(largest=2), START, r))(rows)
    memory: FisherState = state.memory
    assert [b.information.shape for b in memory.blocks] == [(1, 1, 1), (1, 2, 2)]
    apart = (np.asarray(whole["slope"]) - np.asarray(blocks["slope"]))[-1000:]
    wander = np.asarray(whole["slope"])[-1000:] - np.asarray(TRUTH["slope"])
    assert np.abs(apart).max() < 0.2 * np.abs(wander).max()


def test_leaves_larger_than_a_block_are_split_along_leading_axes() -> None:
    """(3, 4, 5) with at most 20 is three groups of 20, a vector of 30 is thirty of one."""
    start = {"a": jnp.ones((3, 4, 5)), "b": jnp.ones(30), "c": jnp.zeros((0,))}
    optimiser = fisher(largest=20)
    state: Any = jax.eval_shape(optimiser.init, start)
    assert [b.rows.shape for b in state.blocks] == [(3, 20), (30, 1), (0, 1)]
    step, _ = jax.eval_shape(optimiser.update, start, state, start)
    assert jax.tree.map(jnp.shape, step) == jax.tree.map(jnp.shape, start)


def test_a_factor_from_earlier_rows_serves_as_well() -> None:
    """refresh = 1 and 25 end at the same place."""
    rows = regression(4)
    ends = [jax.jit(lambda r, k=k: run(fisher(refresh=k), START, r))(rows)[1] for k in (1, 25)]
    for name in TRUTH:
        np.testing.assert_allclose(ends[0].average[name], ends[1].average[name], atol=2e-3)


def test_outliers_and_rows_without_news_do_no_harm() -> None:
    """A gradient of 1e6 moves nothing much; zeros, NaN and unseen rows change no bit."""
    _, path, ascent = usual()
    theta, state = jax.tree.map(lambda v: np.asarray(v)[-1], path), ascent.memory
    update: Any = jax.jit(fisher().update)
    blow = jax.tree.map(lambda v: np.full_like(v, 1e6), theta)
    step, after = update(blow, state, theta, seen=jnp.asarray(True))
    assert max(np.abs(v).max() for v in jax.tree.leaves(step)) < 0.1
    before, now = (np.diagonal(s.blocks[0].information[0]) for s in (state, after))
    assert np.max(now / before) < 5.0
    for gradient, seen in ((0.0, True), (jnp.nan, True), (jnp.inf, True), (1.0, False)):
        same = jax.tree.map(lambda v, g=gradient: np.full_like(v, g), theta)
        step, kept = update(same, state, theta, seen=jnp.asarray(seen))
        assert all(np.abs(v).max() == 0.0 for v in jax.tree.leaves(step))
        for a, b in zip(jax.tree.leaves(kept), jax.tree.leaves(state), strict=True):
            np.testing.assert_array_equal(a, b)


def test_frozen_leaves_are_held_fixed_not_fitted() -> None:
    """With the first slope frozen at 0 the optimum of the second is that of the model without it.

    E[x1 x2] / E[x2^2] = .9 / .97, so -2 + .9 / .97.
    """
    start = {"a": jnp.zeros(()), "b": jnp.zeros(()), "log_noise": jnp.zeros(())}

    def value(theta, row):
        return increment({**theta, "slope": jnp.stack([theta["a"], theta["b"]])}, row)

    ascent = Ascent(fisher(), averaging=Averaging(500, 1.0))
    rows = regression(6)

    def step(carry, now):
        state, theta = carry
        state, theta, _ = ascent.step(state, theta, jax.grad(value)(theta, now[1]), jnp.ones(()))
        return (ascent.average_in(state, theta, now[0]), theta), None

    first = (ascent.freeze(ascent.init(start), lambda g: g["a"], True), start)
    (state, theta), _ = jax.jit(lambda c, r: jax.lax.scan(step, c, (jnp.arange(4000), r)))(
        first, rows
    )
    assert float(theta["a"]) == 0.0
    assert float(state.average["a"]) == 0.0
    np.testing.assert_allclose(state.average["b"], -2.0 + 0.9 / 0.97, atol=0.05)


def test_single_precision_serves() -> None:
    """float32 parameters keep their type and end where float64 does."""
    rows, long, _ = usual()
    single = jax.tree.map(lambda v: v.astype(jnp.float32), START)
    short, state = jax.jit(lambda r: run(fisher(), single, r))(rows.astype(np.float32))
    assert all(v.dtype == jnp.float32 for v in jax.tree.leaves(short))
    floats = [v for v in jax.tree.leaves(state.memory.blocks) if v.dtype != jnp.int_]
    assert all(v.dtype == jnp.float32 for v in floats)
    np.testing.assert_allclose(short["slope"][-1], long["slope"][-1], atol=0.01)


def test_a_floor_follows_what_moves() -> None:
    """After a slope has changed by one standard deviation of the noise: within 1000 rows."""
    rows = regression(8, 8000)
    rows[6000:, 2] += 0.5 * rows[6000:, 0]
    ends = [
        jax.jit(lambda r, f=floor: run(fisher(floor=f), START, r))(rows)[0]["slope"]
        for floor in (0.005, 0.0)
    ]
    off = [np.abs(np.asarray(v)[7000] - np.array([1.5, -2.0])).max() for v in ends]
    assert off[0] < 0.2
    assert off[0] < off[1]


def test_nothing_to_learn_is_fine() -> None:
    """A family without parameters."""
    optimiser = fisher()
    step, _ = optimiser.update({}, optimiser.init({}))
    assert step == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power": 0.4}, "power: got 0.4"),
        ({"floor": 1.0}, "floor: got 1.0"),
        ({"scale": 0.0}, "scale: got 0.0"),
        ({"refresh": 0}, "refresh: got 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict, message: str) -> None:
    """Argument, got, expected."""
    with pytest.raises(ValueError, match=message):
        fisher(**options)


def test_a_plateau_leads_back_to_the_start() -> None:
    """Gradients that say nothing: from three deviations of the prior off, to its bulk."""
    optimiser, start = fisher(), {"flat": jnp.zeros(1), "known": jnp.zeros(1)}
    noise = jax.random.normal(jax.random.key(3), (3000, 2))

    def step(carry, row):
        state, theta = carry
        # The second is measured with precision 1 in every row, and is 3.
        g = {"flat": 1e-3 * row[:1], "known": theta["known"] - 3.0 - row[1:]}
        move, state = optimiser.update(g, state, theta)
        theta = optax.apply_updates(theta, move)
        return (state, theta), theta

    first = optimiser.init(start), {"flat": jnp.full(1, 3.0), "known": jnp.zeros(1)}
    path = jax.jit(lambda rows: jax.lax.scan(step, first, rows)[1])(noise)
    assert float(jnp.max(jnp.abs(path["flat"][2000:]))) < 1.0
    late = path["known"][1000:]
    assert abs(float(jnp.mean(late)) - 3.0) < 5.0 / 2000**0.5
