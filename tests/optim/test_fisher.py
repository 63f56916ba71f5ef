"""Fisher steps: as good as maximum likelihood, in any units, whatever the stream does."""

from collections.abc import Callable
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


def regression(key: Array, rows: int) -> Array:
    """A stream under TRUTH."""
    k1, k2 = jax.random.split(key)
    x = jax.random.normal(k1, (rows, 2)) @ MIX.T
    y = x @ TRUTH["slope"] + jnp.exp(TRUTH["log_noise"]) * jax.random.normal(k2, (rows,))
    return jnp.concatenate([x, y[:, None]], 1)


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


def test_averages_have_the_variance_of_maximum_likelihood() -> None:
    """Mean of t d' I d over 100 streams: 3, here 3 / .8, for the first fifth is not averaged.

    With weights that grow like t^p, (p + 1)^2 / (2 p + 1) times as much (0: 1, 1: 4 / 3).
    """
    streams = jax.vmap(lambda k: regression(k, ROWS))(jax.random.split(jax.random.key(0), SEEDS))
    noise = jnp.exp(TRUTH["log_noise"])
    information = jnp.zeros((3, 3)).at[:2, :2].set(MIX @ MIX.T / noise**2).at[2, 2].set(2.0)

    def excess(rows, power):
        average = run(fisher(), START, rows, power=power)[1].average
        d = jnp.concatenate([average["slope"] - TRUTH["slope"], jnp.ravel(average["log_noise"])])
        d = d.at[2].add(-TRUTH["log_noise"])
        return ROWS * jnp.dot(d, information @ d)

    for power, factor in ((0.0, 1.0), (1.0, 4.0 / 3.0)):
        got = np.asarray(jax.jit(jax.vmap(lambda r, p=power: excess(r, p)))(streams))
        bound = 3.0 * factor / 0.8
        assert got.mean() <= bound + 3.0 * got.std() / np.sqrt(SEEDS)
        assert got.mean() >= 0.5 * bound  # the comparison itself is sound
    best = np.asarray(jax.vmap(lambda r: maximum_likelihood(r, information))(streams))
    assert abs(best.mean() - 3.0) <= 3.0 * best.std() / np.sqrt(SEEDS)


def maximum_likelihood(rows: Array, information: Array) -> Array:
    """t d' I d of the batch estimate."""
    x, y = rows[:, :2], rows[:, 2]
    slope = jnp.linalg.solve(x.T @ x, x.T @ y)
    log_noise = 0.5 * jnp.log(jnp.mean((y - x @ slope) ** 2))
    d = jnp.append(slope - TRUTH["slope"], log_noise - TRUTH["log_noise"])
    return len(rows) * jnp.dot(d, information @ d)


def test_a_start_far_off_in_noise_and_slope_is_left_behind() -> None:
    """Where squared means drown the information: noise a hundredth, slopes ten off."""
    start = {"slope": jnp.array([10.0, -10.0]), "log_noise": jnp.asarray(-5.0)}
    rows = regression(jax.random.key(1), 6000)
    path, state = jax.jit(lambda r: run(fisher(), start, r, power=1.0))(rows)
    assert abs(float(path["log_noise"][0]) + 5.0) == 0.0
    for name, value in TRUTH.items():
        np.testing.assert_allclose(state.average[name], value, atol=0.1)


def test_units_of_the_parameters_do_not_matter() -> None:
    """Units alone do nothing without a prior; turned axes, less than a third of a standard error.

    What is left of the latter comes from the shrinkage to a diagonal in the first rows; from a
    start far off it would be more, since the way to the optimum then takes longer or shorter.
    """
    rows = regression(jax.random.key(2), 4000)

    def slope(turn: Array) -> Array:
        def turned(theta, row):
            return increment({**theta, "slope": turn @ theta["slope"]}, row)

        near = jnp.linalg.solve(turn, TRUTH["slope"] + 0.1)
        start = {"slope": near, "log_noise": TRUTH["log_noise"]}
        end = jax.jit(lambda r: run(fisher(scale=1e6), start, r, turned)[1].average)(rows)
        return turn @ end["slope"]

    plain = slope(jnp.eye(2))
    np.testing.assert_allclose(slope(jnp.diag(jnp.array([8.0, 0.1]))), plain, rtol=1e-6)
    apart = slope(jnp.array([[2.0, 1.0], [0.0, 0.5]])) - plain
    information = len(rows) * MIX @ MIX.T / jnp.exp(2.0 * TRUTH["log_noise"])
    assert float(jnp.dot(apart, information @ apart)) < 2.0 / 9.0


def test_the_prior_holds_what_the_first_rows_do_not_tell() -> None:
    """The level of a slow AR(1): with it, the worst excursions of 40 streams are halved."""

    def value(theta, pair):
        mean = theta["level"] + jnp.tanh(theta["slope"]) * (pair[0] - theta["level"])
        return jax.scipy.stats.norm.logpdf(pair[1], mean, jnp.exp(theta["log_noise"]))

    def stream(key):
        k1, k2 = jax.random.split(key)
        first = 0.5 + 0.75 * jax.random.normal(k1)
        noise = 0.15 * jax.random.normal(k2, (600,))
        ys = jax.lax.scan(lambda y, e: ((v := 0.01 + 0.98 * y + e), v), first, noise)[1]
        return jnp.stack([ys[:-1], ys[1:]], 1)

    start = {"level": jnp.zeros(()), "slope": jnp.asarray(1.5), "log_noise": jnp.asarray(-1.0)}
    streams = jax.vmap(stream)(jax.random.split(jax.random.key(9), 40))
    worst = [
        jax.jit(
            jax.vmap(lambda r, s=scale: jnp.abs(run(fisher(scale=s), start, r, value)[0]["level"]))
        )(streams).max(1)
        for scale in (1.0, 1e3)
    ]
    assert float(jnp.mean(worst[0])) < 0.5 * float(jnp.mean(worst[1]))


def test_blocks_agree_with_the_whole_where_the_information_has_blocks() -> None:
    """Slope and noise are orthogonal; so are leaves with their own J."""
    rows = regression(jax.random.key(3), 4000)
    whole, _ = jax.jit(lambda r: run(fisher(), START, r))(rows)
    blocks, state = jax.jit(lambda r: run(fisher(largest=2), START, r))(rows)
    memory: FisherState = state.memory
    assert [b.information.shape for b in memory.blocks] == [(1, 1, 1), (1, 2, 2)]
    apart = np.asarray(whole["slope"] - blocks["slope"])[-1000:]
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
    rows = regression(jax.random.key(4), 4000)
    ends = [jax.jit(lambda r, k=k: run(fisher(refresh=k), START, r))(rows)[1] for k in (1, 25)]
    for name in TRUTH:
        np.testing.assert_allclose(ends[0].average[name], ends[1].average[name], atol=2e-3)


def test_outliers_and_rows_without_news_do_no_harm() -> None:
    """A gradient of 1e6 moves nothing much; zeros, NaN and unseen rows change no bit."""
    rows = regression(jax.random.key(5), 1500)
    path, ascent = jax.jit(lambda r: run(fisher(), START, r))(rows)
    theta, state = jax.tree.map(lambda v: v[-1], path), ascent.memory
    update: Any = jax.jit(fisher().update)
    blow = jax.tree.map(lambda v: jnp.full_like(v, 1e6), theta)
    step, after = update(blow, state, theta, seen=jnp.asarray(True))
    assert max(float(jnp.abs(v).max()) for v in jax.tree.leaves(step)) < 0.1
    before, now = (jnp.diagonal(s.blocks[0].information[0]) for s in (state, after))
    assert float(jnp.max(now / before)) < 5.0
    for gradient, seen in ((0.0, True), (jnp.nan, True), (jnp.inf, True), (1.0, False)):
        same = jax.tree.map(lambda v, g=gradient: jnp.full_like(v, g), theta)
        step, kept = update(same, state, theta, seen=jnp.asarray(seen))
        assert all(float(jnp.abs(v).max()) == 0.0 for v in jax.tree.leaves(step))
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
    rows = regression(jax.random.key(6), 4000)

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
    rows = regression(jax.random.key(7), 3000)
    single = jax.tree.map(lambda v: v.astype(jnp.float32), START)
    short, state = jax.jit(lambda r: run(fisher(), single, r))(rows.astype(jnp.float32))
    long, _ = jax.jit(lambda r: run(fisher(), START, r))(rows)
    assert all(v.dtype == jnp.float32 for v in jax.tree.leaves(short))
    floats = [v for v in jax.tree.leaves(state.memory.blocks) if v.dtype != jnp.int_]
    assert all(v.dtype == jnp.float32 for v in floats)
    np.testing.assert_allclose(short["slope"][-1], long["slope"][-1], atol=0.01)


def test_a_floor_follows_what_moves() -> None:
    """After a slope has changed by one standard deviation of the noise: within 1000 rows."""
    rows = regression(jax.random.key(8), 8000)
    rows = rows.at[6000:, 2].add(0.5 * rows[6000:, 0])
    ends = [
        jax.jit(lambda r, f=floor: run(fisher(floor=f), START, r))(rows)[0]["slope"][7000]
        for floor in (0.005, 0.0)
    ]
    off = [float(jnp.abs(v - TRUTH["slope"] - jnp.array([0.5, 0.0])).max()) for v in ends]
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
