"""The shell that hides JAX: units, names, and the same numbers as the learner inside."""

from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import rmcvi
from rmcvi.data import Standardiser
from tests.estimator._resumed import small_learner

COLUMNS = ["co", "nox"]
ROWS = np.random.default_rng(0).standard_normal((60, 2)) * [3.0, 50.0] + [10.0, 400.0]
ROWS[20:24, 0] = np.nan


def live(**options: Any) -> rmcvi.Live:
    """A small one; learners of equal settings share their compiled program."""
    return rmcvi.Live(COLUMNS, learner=_learner(), seed=3, **options)


@cache
def _learner() -> rmcvi.OnlineEstimator:
    return small_learner(draws=20)


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
    """Also after its window was lengthened; another set of columns is refused."""
    shell = live()
    for row in ROWS[:12]:
        shell.learn_one(row)
    shell.learner, shell.state = _learner().lengthen(shell.state)
    shell.save(tmp_path / "live.ckpt", {"offset": 12})
    again = live()
    assert again.load(tmp_path / "live.ckpt") == {"offset": 12}
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


def test_gaps_are_filled_and_the_state_is_told() -> None:
    """Only what was not observed is filled, from the posterior of that very row."""
    shell = live()
    every = [shell.learn_one(row) for row in ROWS[:24]]
    gaps = np.isnan(ROWS[:24])
    assert np.array_equal(np.isnan([t.filled for t in every])[12:], ~gaps[12:])
    told, law = every[-1], _learner().filter(shell.state)
    np.testing.assert_allclose(told.state_mean, law.mean, rtol=1e-9)
    np.testing.assert_allclose(told.state_std**2, np.diagonal(law.covariance), rtol=1e-9)
    exact = _learner().impute(shell.state, 0, num=4000)
    error = told.filled[0] - shell.scaling.inverse(exact.mean[0])[0]
    assert abs(error) < 5 * shell.scaling.scale[0] * 2 / np.sqrt(100)
    assert np.isfinite([told.elbo, told.ess]).all()
    assert set(shell.parameters()) > {"transition_noise[0]"}


def test_a_stuck_sensor_is_named_whatever_the_units() -> None:
    """Standardised values never repeat exactly; the raw ones do, also after a resume."""
    shell = rmcvi.Live(["a", "b"], learner=rmcvi.baselines.Persistence(2))
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((120, 2)).cumsum(0) + 1e9
    rows[80:, 1] = rows[80, 1]
    told = [shell.learn_one(row) for row in rows]
    failed = np.array([t.failure for t in told]) > 0.5
    assert not failed[:81].any() and not failed[:, 0].any()
    assert failed[95:, 1].all()
    assert told[-1].alarms == ("b: stuck at 1e+09 since row 81.",)


def test_monitors_survive_a_checkpoint(tmp_path: Path) -> None:
    """A run of repeats that a save interrupts is counted on."""
    learner, scores = rmcvi.baselines.Persistence(1), []
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
