"""A row as one piece of code: the usual numbers, and the same bytes however rows are cut."""

from pathlib import Path

import jax
import numpy as np
import pytest

from rmcvi.app.run.length import rows_about
from rmcvi.core import compiled
from rmcvi.learners import Live, SeasonalLearner
from rmcvi.learners.chunk import Fixed, Watch
from rmcvi.scale import Streams

ROWS = 400


def learner(columns: int = 1) -> SeasonalLearner:
    """A small one."""
    return SeasonalLearner(columns, period=6, long_period=None)


def stream(seed: int, columns: int = 1) -> np.ndarray:
    """A season with gaps, a fault, values that are absurd, a column that is stuck."""
    rng = np.random.default_rng(seed)
    y = np.sin(np.arange(ROWS) / 6.0 * 2.0 * np.pi)[:, None] + 0.1 * rng.normal(
        size=(ROWS, columns)
    )
    y[rng.random(y.shape) < 0.05] = np.nan
    y[60:80], y[200], y[300:340, 0] = np.nan, 1e6, 0.5
    return y


def near(found: np.ndarray, usual: np.ndarray) -> None:
    """The same but for the last digits."""
    np.testing.assert_array_equal(np.isnan(found), np.isnan(usual))
    np.testing.assert_allclose(found, usual, rtol=1e-6, atol=1e-8)


def is_whole() -> bool:
    """Whether this compiler is one that is told to make one piece."""
    return compiled.version("jaxlib") in compiled.QUICK and jax.default_backend() == "cpu"


@pytest.mark.long
def test_a_piece_gives_the_same_bytes_for_any_cut(tmp_path: Path) -> None:
    """Against the usual program to a few digits, and itself, saved and cut, to the bit."""
    rows, columns = stream(0), ["a"]
    usual = Live(columns, learner=learner()).learn_many(rows)
    live = Live(columns, learner=learner()).as_one_piece()
    at_once = live.learn_many(rows)
    for name in ("mean", "low", "high", "anomaly", "failure"):
        near(np.asarray(getattr(at_once, name)), np.asarray(getattr(usual, name)))
    if is_whole():
        text = live._program._program.as_text()
        main = text[text.index("ENTRY") :]
        assert (main.count(" call("), main.count(" while(")) == (1, 0)
    parts, begin = Live(columns, learner=learner()).as_one_piece(), 0
    for end in (1, 2, 61, 90, 290, ROWS):
        parts.learn_many(rows[begin:end])
        parts.save(tmp_path / "part")
        parts = Live(columns, learner=learner()).as_one_piece()
        parts.load(tmp_path / "part")
        begin = end
    parts.save(tmp_path / "cut")
    live.save(tmp_path / "whole")
    assert (tmp_path / "cut").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.long
def test_streams_lane_by_lane() -> None:
    """Those of a block in one piece: near the usual ones, and the same whoever their neighbours."""
    many = {f"s{i}": stream(i) for i in range(5)}
    keys = [key for _ in range(ROWS) for key in many]
    y = np.stack(list(many.values()), 1).reshape(-1, 1)
    together = Streams(learner(), whole=True).learn(keys, y)
    near(np.asarray(together.mean), np.asarray(Streams(learner()).learn(keys, y).mean))
    alone, found = Streams(learner(), whole=True), []
    for begin in range(0, ROWS, 37):
        part = many["s3"][begin : begin + 37]
        found.append(alone.learn(["s3"] * len(part), part).mean)
    assert np.array_equal(np.concatenate(found), together.mean[3::5], equal_nan=True)


def test_what_sorts_is_no_piece() -> None:
    """It is compiled as usual: the compiler would end the process."""
    fixed = Fixed.of(learner(), learner().init(jax.random.key(0)), Watch.fresh(1))[0]
    made = compiled.compiled(_sorted, fixed, [np.ones(3, "float32")], whole=_sorted)
    np.testing.assert_array_equal(made(np.array([2.0, 3.0, 1.0], "float32")), [1.0, 2.0, 3.0])


def test_a_piece_may_need_nothing_of_an_argument() -> None:
    """What the compiler simplifies away, too, has a place in the piece; it ended the process."""
    fixed = Fixed.of(learner(), learner().init(jax.random.key(0)), Watch.fresh(1))[0]
    given = [np.arange(3.0), np.ones((2, 2), "int32"), np.ones(0), np.ones(3)]
    made = compiled.compiled(_first, fixed, given, whole=_first)
    np.testing.assert_array_equal(made(*given), given[0])


def _first(fixed: Fixed, *given: jax.Array) -> jax.Array:
    def body(_: jax.Array, loop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return jax.numpy.roll(loop[0], 1), loop[1] * 2

    first, second, _, last = given
    rolled = jax.lax.fori_loop(0, 3, body, (first, second))[0]
    return rolled + jax.numpy.where(jax.numpy.array(False), last, 0.0)


def _sorted(fixed: Fixed, values: jax.Array) -> jax.Array:
    return jax.numpy.sort(values)


def test_rows_of_a_file_are_guessed(tmp_path: Path) -> None:
    """From its first lines; nothing is guessed of what holds no lines."""
    (path := tmp_path / "rows.csv").write_text("12,34\n" * 100_000)
    assert rows_about(str(path)) == pytest.approx(100_000, rel=0.01)
    path.write_bytes(b"PAR1\0\n" * 100)
    assert [rows_about(str(path)), rows_about("-"), rows_about(str(tmp_path))] == [0.0, 0.0, 0.0]
