"""Rows in chunks: however the stream is cut, the numbers are those of one row after the other."""

import dataclasses
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import rmcvi
from rmcvi.baselines import Persistence
from rmcvi.contract import Diagnostics
from rmcvi.learners import CAPACITY, Alarm, Estimates
from rmcvi.learners.episodes import Episodes, Verdicts
from rmcvi.learners.values import table
from tests.learners._resumed import QUIET, small_learner
from tests.learners.test_cost import TRACED, Counting
from tests.learners.test_soundness import Fragile

LENGTH = 330
"""More than a full chunk."""


class Widening(rmcvi.AbstractLearner):
    """Persistence that finds its window too short after so many rows, until it is long enough."""

    inner: Persistence
    dim_obs: int
    dim_input: int
    window: int = 4
    level: float = 0.9

    @property
    def gradient_window(self) -> int:
        """As said."""
        return self.window

    def init(self, key: Any) -> Any:
        """Rows so far, and what is inside."""
        return jnp.zeros((), int), self.inner.init(key)

    def step(self, state: Any, y: Any, inputs: Any) -> Any:
        """Count."""
        inner, info = self.inner.step(state[1], y, inputs)
        return (state[0] + 1, inner), info

    def diagnostics(self, state: Any, info: Any) -> Diagnostics:
        """Short at every eleventh row."""
        short = jnp.where(state[0] % 11 == 0, int(Alarm.WINDOW_SHORT), 0)
        return Diagnostics(alarms=short)

    def lengthen(self, state: Any, window: int | None = None) -> Any:
        """Twice as long; the count begins anew, so that it matters when this happens."""
        longer = dataclasses.replace(self, window=window or 2 * self.window)
        return longer, (jnp.zeros((), int), state[1])


def make(name: str) -> rmcvi.Live:
    """Learners that take every way a row can go."""
    learners = {
        "rmcvi": lambda: small_learner(draws=20, **QUIET),
        "seasonal": lambda: rmcvi.SeasonalLearner(2, period=6, long_period=None),
        "fragile": lambda: Fragile(poison=1e25, limit=30.0, dim_obs=2, dim_input=0),
        "widening": lambda: Widening(inner=Persistence(2), dim_obs=2, dim_input=0, window=32),
    }
    raw = False if name == "fragile" else None
    return rmcvi.Live(["a", "b"], learner=learners[name](), standardiser=raw, seed=3)


def stream() -> np.ndarray:
    """A rhythm with gaps, a stuck sensor, a dead one, values of another world, a new level."""
    rng = np.random.default_rng(7)
    ys = np.sin(np.arange(LENGTH) / 6 * 2 * np.pi)[:, None] + rng.standard_normal((LENGTH, 2))
    ys = ys * [1.0, 5.0] + [10.0, -3.0]
    ys[rng.random(ys.shape) < 0.1] = np.nan
    ys[100:140, 1] = ys[99, 1] = 4.0
    ys[150:215, 0] = np.nan
    ys[240:252:2] = 1e12
    ys[280:, 0] += 500.0
    return ys


def same(one: Any, other: Any) -> None:
    """Every field, to the bit."""
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        np.testing.assert_array_equal(a, b, err_msg=field.name)


def kept(live: rmcvi.Live, path: Path) -> bytes:
    """Everything that a live learner is."""
    live.save(path)
    return path.read_bytes()


LONG = pytest.param("rmcvi", marks=pytest.mark.long)


@pytest.mark.parametrize("name", ["seasonal", "fragile", "widening", LONG])
def test_any_cut_gives_the_same_numbers(name: str, tmp_path: Path) -> None:
    """Alarms, monitors, units, recoveries and the file that is saved included."""
    ys, dts = stream(), np.where(np.arange(LENGTH) % 17 == 5, 2.5, 1.0)
    single, whole = make(name), make(name)
    told = [single.learn_one(y, dt=float(dt)) for y, dt in zip(ys, dts, strict=True)]
    rng = np.random.default_rng()
    for cuts in ([], sorted(rng.integers(0, LENGTH, 6).tolist())):
        other, parts = make(name), np.split(np.arange(LENGTH), cuts)
        parts = [other.learn_many(ys[i], dt=dts[i]) for i in parts if len(i)]
        for one, again in zip(told, Estimates.joined(parts), strict=True):
            same(one, again)
        assert kept(other, tmp_path / "a") == kept(single, tmp_path / "b"), cuts
        whole = other
    if name == "fragile":
        assert whole.recoveries > 5 and any("afresh" in s for one in told for s in one.alarms)
    if name == "widening":
        assert whole.learner.gradient_window == 64
    assert any("stuck" in s for one in told for s in one.alarms)


def test_the_row_after_a_chunk_is_learned_by_the_same_program() -> None:
    """One compilation, whatever the number of rows."""
    learner = Counting(inner=Persistence(2), dim_obs=2, dim_input=0)
    live, ys = rmcvi.Live(2, learner=learner), stream()
    live.learn_one(ys[0])
    before = len(TRACED)
    live.learn_many(ys[1:4])
    live.learn_many(np.tile(ys, (2, 1)))
    live.learn_one(ys[0])
    assert len(TRACED) == before > 0 and 2 * LENGTH > 2 * CAPACITY


def test_rows_as_users_give_them() -> None:
    """Dicts give dicts; lists, arrays and inputs; what does not fit is said."""
    live = rmcvi.Live(["a", "b"], inputs=["wind"], learner=Persistence(2, 1))
    told = live.learn_many(
        [{"a": 1.0}, {"b": 2.0, "a": 3.0}], u=[{"wind": 1.0}, [2.0]], dt=[1.0, 2.0]
    )
    assert len(told) == 2 and list(told[1].mean) == ["a", "b"]
    assert isinstance(live.learn_many([[1.0, np.nan]], u=[[0.0]])[0].mean, np.ndarray)
    with pytest.raises(ValueError, match="u: got 1 rows, expected 2"):
        live.learn_many(np.zeros((2, 2)), u=[[1.0]])
    with pytest.raises(ValueError, match="dt: got 3 rows, expected 2"):
        live.learn_many(np.zeros((2, 2)), u=[[1.0]] * 2, dt=[1.0] * 3)
    with pytest.raises(ValueError, match="u: got nothing, expected wind"):
        live.learn_many(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="rows: got none"):
        live.learn_many([])
    with pytest.raises(ValueError, match="y: got 3 values, expected 2"):
        live.learn_many(np.zeros((2, 3)), u=[[1.0]] * 2)
    with pytest.raises(ValueError, match="y: got dict, expected a list of rows"):
        table("y", {"a": 1.0}, ["a", "b"], np.nan)


def test_episodes_of_any_cut() -> None:
    """Counters and sentences, on a stream of every kind of alarm, drawn at random."""
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, (400, 3)).astype(float)
    y[rng.random(y.shape) < 0.3] = np.nan
    y[120:260, 1] = np.nan
    y[300:330] = 1.0
    last = np.vstack([np.full((1, 3), np.nan), y[:-1]])
    kind = rng.integers(0, 7, y.shape) * (rng.random(y.shape) < 0.05)
    flags = rng.choice([0, int(Alarm.UNSOUND), int(Alarm.LOST)], 400, p=[0.96, 0.02, 0.02])
    band = (np.zeros(y.shape), np.full(y.shape, -1.5), np.full(y.shape, 1.5))

    def run(cuts: list[int]) -> tuple[list[tuple[str, ...]], dict[str, Any]]:
        episodes, told = Episodes(["a", "b", "c"]), []
        for rows in np.split(np.arange(400), cuts):
            bands = tuple(part[rows] for part in band)
            verdicts = Verdicts(kind[rows], 1.0 * (kind[rows] > 0), kind[rows] + 1.0)
            told += episodes.step(y[rows], last[rows], bands, verdicts, flags[rows])
        return told, episodes.to_json()

    single = run(list(range(1, 400)))
    assert len({s for row in single[0] for s in row}) > 20
    for count in (0, 3, 40):
        assert repr(run(sorted(rng.integers(0, 400, count).tolist()))) == repr(single)
