"""The shell that hides JAX: units, names, and the same numbers as the learner inside."""

import copy
import os
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import rmcvi
from rmcvi.baselines import Persistence
from rmcvi.learners.units import Standardiser
from rmcvi.learners.values import step_length, vector
from tests.learners._resumed import QUIET, small_learner
from tests.learners.test_chunks import Widening

COLUMNS = ["co", "nox"]
ROWS = np.random.default_rng(0).standard_normal((60, 2)) * [3.0, 50.0] + [10.0, 400.0]
ROWS[20:24, 0] = np.nan


def live(**options: Any) -> rmcvi.Live:
    """A small one; learners of equal settings share their compiled program."""
    return rmcvi.Live(COLUMNS, learner=_learner(), seed=3, **options)


@cache
def _learner() -> rmcvi.OnlineEstimator:
    return small_learner(draws=20, window=2, hidden=2, **QUIET)


def test_it_is_the_learner_on_standardised_rows() -> None:
    """Predictions, scores and forecasts, carried back to the units of the data."""
    shell = live()
    told = [shell.learn_one(row) for row in ROWS]
    zs, scaling = Standardiser().transform_stream(ROWS)
    state, infos = rmcvi.scan(_learner(), _learner().init(jax.random.key(3)), zs)
    _, before = Standardiser().transform_stream(ROWS[:-1])
    np.testing.assert_allclose(told[-1].mean, before.inverse(infos.prediction.mean[-1]), rtol=1e-9)
    score = float(infos.prediction.log_score[-1]) - np.log(before.scale).sum()
    assert told[-1].log_score == pytest.approx(score)
    assert np.isnan(told[0].mean).all()
    ahead = shell.forecast(3, level=0.5)
    exact = _learner().forecast(state, 3, level=0.5)
    np.testing.assert_allclose(ahead.mean, scaling.inverse(exact.mean), rtol=1e-9)
    assert np.all(np.asarray(ahead.low) < np.asarray(ahead.high))


def test_dicts_go_in_and_come_out() -> None:
    """An absent key is a missing value; a misspelt one is named."""
    shell, twin = live(), live()
    for row in ROWS[:15]:
        shell.learn_one(dict(zip(COLUMNS, row, strict=True)))
        twin.learn_one(row)
    by_name, by_order = shell.learn_one({"nox": 410.0}), twin.learn_one([np.nan, 410.0])
    assert list(by_name.mean) == COLUMNS
    assert by_name.mean == dict(zip(COLUMNS, by_order.mean, strict=True))
    assert by_name.log_score == by_order.log_score
    with pytest.raises(ValueError, match=r"y: got 'noxx'.*did you mean 'nox'"):
        shell.learn_one({"noxx": 1.0})
    with pytest.raises(ValueError, match="y: got 3 values, expected 2"):
        shell.learn_one([1.0, 2.0, 3.0])


def test_saved_and_loaded_it_goes_on_to_the_bit(tmp_path: Path) -> None:
    """Also after a window was lengthened; another set of columns is refused."""
    widening = Widening(inner=Persistence(2), dim_obs=2, dim_input=0)
    for learner, window in ((_learner(), 2), (widening, 8)):
        shell, again = (rmcvi.Live(COLUMNS, learner=learner, seed=3) for _ in range(2))
        for row in ROWS[:12]:
            shell.learn_one(row)
        shell.save(tmp_path / "live.ckpt", {"offset": 12})
        assert again.load(tmp_path / "live.ckpt") == {"offset": 12}
        assert again.learner.gradient_window == window
        for row in ROWS[12:16]:
            assert shell.learn_one(row).log_score == again.learn_one(row).log_score
    other = rmcvi.Live(["co", "no2"], learner=_learner())
    with pytest.raises(ValueError, match=r"columns: file has \['co', 'nox'\], this has"):
        other.load(tmp_path / "live.ckpt")


def test_units_can_be_left_alone() -> None:
    """Without a standardiser the learner sees the rows as they are."""
    shell = live(standardiser=False)
    told = [shell.learn_one(row) for row in ROWS[:5] / 100.0]
    _, infos = rmcvi.scan(_learner(), _learner().init(jax.random.key(3)), ROWS / 100.0)
    means = [t.mean for t in told]
    assert np.isnan(means[0]).all() and np.isnan(told[0].log_score)
    np.testing.assert_allclose(means[1:], infos.prediction.mean[1:5], rtol=1e-9)


def test_absurd_rows_do_not_ruin_rmcvi() -> None:
    """In its own units, without a standardiser: whatever comes, predictions stay numbers."""
    shell = live(standardiser=False)
    ys = np.random.default_rng(0).standard_normal((60, 2))
    ys[20] = 3e38, -1e300
    ys[25:28] = 1e30
    means = np.array([shell.learn_one(y).mean for y in ys])
    assert np.isfinite(means[1:]).all() and np.abs(means[50:]).max() < 10.0


def test_gaps_are_filled_and_the_state_is_told() -> None:
    """Only what was not observed is filled, from the posterior of that very row."""
    shell = live()
    every = [shell.learn_one(row) for row in ROWS[:24]]
    gaps = np.isnan(ROWS[:24])
    assert np.array_equal(np.isnan([t.filled for t in every])[12:], ~gaps[12:])
    told, law = every[-1], _learner().filter(shell.state)
    np.testing.assert_allclose(told.state_mean, law.mean, rtol=1e-9)
    np.testing.assert_allclose(told.state_std**2, np.diagonal(law.covariance), rtol=1e-9)
    exact = _learner().recent(shell.state, 0, num=4000)
    error = told.filled[0] - shell.scaling.inverse(exact.mean[0])[0]
    assert abs(error) < 5 * shell.scaling.scale[0] * 2 / np.sqrt(100)
    assert np.isfinite([told.elbo, told.ess]).all()
    assert set(shell.parameters()) > {"transition_noise[0]"}


def test_a_stuck_sensor_is_named_whatever_the_units() -> None:
    """Standardised values never repeat exactly; the raw ones do, also after a resume."""
    shell = rmcvi.Live(["a", "b"], learner=Persistence(2))
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((120, 2)).cumsum(0) + 1e9
    rows[80:, 1] = rows[80, 1]
    told = [shell.learn_one(row) for row in rows]
    failed = np.array([t.failure for t in told]) > 0.5
    assert not failed[:81].any() and not failed[:, 0].any()
    assert failed[95:, 1].all()
    (said,) = told[-1].alarms
    assert said.startswith("b: stuck at 1e+09 since row 81. Chance alone does this once in")


def test_monitors_survive_a_checkpoint(tmp_path: Path) -> None:
    """A run of repeats that a save interrupts is counted on."""
    learner, scores = Persistence(1), []
    rows = np.random.default_rng(6).standard_normal((90, 1)).cumsum(0)
    rows[60:] = rows[60]
    shell = rmcvi.Live(1, learner=learner)
    for i, row in enumerate(rows):
        if i == 63:
            shell.save(tmp_path / "live.ckpt")
        scores.append(shell.learn_one(row).failure[0])
    again = rmcvi.Live(1, learner=learner)
    again.load(tmp_path / "live.ckpt")
    assert [again.learn_one(row).failure[0] for row in rows[63:]] == scores[63:]
    assert scores[63] < 0.5 < scores[-1]


def test_wrong_settings_are_named() -> None:
    """Argument, got, expected."""
    with pytest.raises(ValueError, match="learner: got one for 2 columns and 0 inputs"):
        rmcvi.Live(3, learner=_learner())
    with pytest.raises(ValueError, match="columns: got 'co'"):
        rmcvi.Live("co")
    with pytest.raises(ValueError, match="different names"):
        rmcvi.Live(["a", "a"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"ab", "y: got bytes, expected a dict, a list or an array of numbers"),
        ({1.0, 2.0}, "y: got set, expected a dict"),
        (1.0, "y: got float, expected a dict"),
        ([1.0, 2.0j], "y: got 2j, expected a real number"),
        (np.array([1.0, 2.0j]), "y: got values of type complex128, expected real numbers"),
        (["1", "2"], "y: got '1', expected a real number"),
    ],
)
def test_wrong_rows_are_one_sentence(row: Any, message: str) -> None:
    """None is taken for what it is not."""
    with pytest.raises(ValueError, match=re.escape(message)):
        vector("y", row, ["a", "b"], np.nan)


@pytest.mark.parametrize("dt", [0.0, -1.0, np.nan, np.inf, "1", True])
def test_a_step_has_a_length(dt: Any) -> None:
    """Zero, less, or no number at all is refused."""
    with pytest.raises(ValueError, match=r"dt: got .*, expected a positive number"):
        step_length(dt)
    if isinstance(dt, float):
        shell = rmcvi.Live(1, learner=Persistence(1))
        with pytest.raises(ValueError, match="expected a positive number"):
            shell.learn_one([1.0], dt=dt)


def test_a_mask_is_a_gap() -> None:
    """Masked values are not observed, and None is not either."""
    masked: Any = np.ma.masked_array([3, 7], [False, True])
    for row in (masked, [3, None], np.array([3.0, None], object)):
        np.testing.assert_array_equal(vector("y", row, ["a", "b"], np.nan), [3.0, np.nan])


def test_units_in_a_file_are_compared(tmp_path: Path) -> None:
    """Raw columns are not standardised ones; the error is at hand at the top."""
    learner = Persistence(2)
    rmcvi.Live(2, learner=learner).save(tmp_path / "live.ckpt")
    raw = rmcvi.Live(2, learner=learner, standardiser=False)
    with pytest.raises(ValueError, match="standardised columns, this one is given columns"):
        raw.load(tmp_path / "live.ckpt")
    raw.save(tmp_path / "raw.ckpt")
    with pytest.raises(ValueError, match="columns in their own units, this one is given standard"):
        rmcvi.Live(2, learner=learner).load(tmp_path / "raw.ckpt")
    other = rmcvi.Live(2, learner=learner, standardiser=rmcvi.Standardiser(clip=4.0))
    with pytest.raises(ValueError, match=r"standardiser: file has .*'clip': 3\.0.*, this has"):
        other.load(tmp_path / "live.ckpt")
    with pytest.raises(rmcvi.CheckpointError):
        rmcvi.Live(2, learner=learner).load(tmp_path / "nothing.ckpt")


def test_threads_wait_for_one_another(tmp_path: Path) -> None:
    """Rows, copies, files and questions at once: none fails, none is lost."""
    shell = rmcvi.Live(1, learner=Persistence(1))

    def work(i: int) -> int:
        told = shell.learn_one([float(i)])
        assert np.isfinite(told.failure).all() and shell.state is not None
        if i % 50 == 0:
            shell.save(tmp_path / f"{i}.ckpt")
            copy.deepcopy(shell)
        return shell.recoveries

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(400))) == {0}
    assert shell._episodes.row == 400


def test_a_copy_goes_its_own_way() -> None:
    """`deepcopy` and `copy` do; pickle says what to do instead."""
    shell = rmcvi.Live(1, learner=Persistence(1), standardiser=False)
    for value in (1.0, 2.0, 3.0):
        shell.learn_one([value])
    for other in (copy.deepcopy(shell), copy.copy(shell)):
        other.learn_one([50.0])
        assert other.learn_one([50.0]).mean[0] == 50.0
    assert shell.learn_one([3.0]).mean[0] == 3.0
    with pytest.raises(TypeError, match=r"cannot be pickled; write it with save\(path\)"):
        pickle.dumps(shell)


def test_after_a_fork_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of a program that never ends."""
    shell = rmcvi.Live(1, learner=Persistence(1))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="Live: got a call in a forked process"):
        shell.learn_one([2.0])


def test_a_learner_that_knows_its_units_gets_the_columns_as_they_are() -> None:
    """Nothing is standardised twice, unless that is asked for."""
    seasonal = rmcvi.SeasonalLearner(1, period=None)
    assert rmcvi.Live(1, learner=seasonal).scaling.frozen
    assert not rmcvi.Live(1, learner=seasonal, standardiser=True).scaling.frozen
    assert not rmcvi.Live(1, learner=Persistence(1)).scaling.frozen
