"""`--model` in TOML, seasons, units, simulated streams and failures."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmcvi.app.cli.simulate import KINDS, Failure, punch
from rmcvi.app.run import zoo
from rmcvi.app.run.plan import unit_of
from rmcvi.app.run.season import Season, calendar_season, given_season
from rmcvi.app.run.settings import ZOO, from_toml, named
from rmcvi.app.run.speech import Refusal
from rmcvi.app.sources import Schema
from rmcvi.learners import OnlineEstimator
from rmcvi.learners.seasonal import SeasonalLearner
from tests.cli._runs import call

HOURLY = Season(24, 168, "")
WRONG = {
    'modle = "seasonal"': "got 'modle', expected one of 'model', .*did you mean 'model'",
    'model = "chaotic"': "got 'chaotic'.*did you mean 'chaotic-rnn'",
    "x = ": "got no TOML",
    "[settings]": "got no 'model'",
    'model = "seasonal"\nsettings.perod = 3': "got 'perod'.*did you mean 'period'",
    'model = "seasonal"\nsettings.warm = 2': "warm: got 2, expected greater than or equal to 8",
    'model = "seasonal"\n[learning]\nsteps = 2': r"got \[learning\], which 'seasonal' does",
    'model = "chaotic-rnn"\n[family]\nname = "kalman"': "family.name: got 'kalman', expected",
    'model = "seasonal"\nsettings.keep = 0.01': "keep: got 0.01, expected greater than or equal",
    'model = "seasonal"\nsettings.window = 100000000': "window: got 100000000, expected less",
    'model = "linear-gaussian"\nsettings.noise = inf': "noise: got inf, expected a finite number",
    'model = "chaotic-rnn"\nlearning.particles = 1000000000': "particles: got 10*, expected less",
    'model = "chaotic-rnn"\nlearning.partcles = 3': "got 'learning.partcles'.*mean 'particles'",
}


@pytest.mark.parametrize("text", list(WRONG))
def test_wrong_settings_are_named(text: str, tmp_path: Path) -> None:
    """File, place, got, expected and the nearest name."""
    path = tmp_path / "my.toml"
    path.write_text(text)
    with pytest.raises(Refusal, match=WRONG[text]) as refused:
        from_toml(path)
    assert str(refused.value).startswith(str(path))


@pytest.mark.parametrize("name", list(ZOO))
def test_every_name_builds_a_learner(name: str) -> None:
    """Of the right sizes; what `run.json` keeps builds it again."""
    inputs = 0 if name in ("stochastic-volatility", "chaotic-rnn") else 2
    plain = named(name).model_dump()
    learner, settings = zoo.build(plain, 3, inputs, 0.8, HOURLY)
    assert (learner.dim_obs, learner.dim_input) == (3, inputs)
    kind = SeasonalLearner if name == "seasonal" else OnlineEstimator
    assert isinstance(learner, kind) and learner.level == 0.8
    assert settings


def test_more_columns_than_memory() -> None:
    """Said before the memory is taken."""
    with pytest.raises(Refusal, match=r"^columns: got 5000, .* GB .* --columns$"):
        zoo.build(named("seasonal").model_dump(), 5000, 0, 0.9, HOURLY)


def test_families_by_name(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    for family in ("linear-gaussian", "extended-kalman", "innovation", "recurrent"):
        path.write_text(f'model = "neural-gaussian"\n[family]\nname = "{family}"\nhidden = 4')
        learner, _ = zoo.build(from_toml(path).model_dump(), 2, 0, 0.9, HOURLY)
        assert isinstance(learner, OnlineEstimator)
        assert type(learner.family).__name__.lower().startswith(family.split("-")[0])


@pytest.mark.parametrize(
    ("step", "months", "period", "week", "long"),
    [
        (3600.0, 0, 24, 168, (23, 24, 25)),
        (600.0, 0, 144, 1008, (143, 144, 145)),
        (43200.0, 0, 2, 14, ()),
        (60.0, 0, 1440, 10080, (1439, 1440, 1441)),
        (10.0, 0, 8640, None, ()),
        (86400.0, 0, 7, 365, (6, 7, 8)),
        (604800.0, 0, 52, None, (51, 52, 53)),
        (2678400.0, 1, 12, None, (11, 12, 13)),
        (7948800.0, 3, 4, None, (4, 5)),
    ],
)
def test_seasons_of_the_calendar(
    step: float, months: int, period: int, week: int | None, long: tuple[int, ...]
) -> None:
    schema = Schema("delimited", ("t", "a"), ("a",), (), ("t",), "iso", step, True, months)
    season = calendar_season(schema)
    assert season is not None
    assert (season.period, season.long_period) == (period, week)
    learner = SeasonalLearner(1, period=period, long_period=week)
    assert learner.design.long == long
    assert calendar_season(replace(schema, regular=False)) is None
    assert calendar_season(replace(schema, time_format="number")) is None


@pytest.mark.parametrize(("step", "months"), [(7000.0, 0), (1.0, 0), (31622400.0, 12)])
def test_steps_of_which_the_calendar_knows_no_season(step: float, months: int) -> None:
    schema = Schema("delimited", ("t", "a"), ("a",), (), ("t",), "iso", step, True, months)
    assert calendar_season(schema) is None


def test_seasons_that_are_said() -> None:
    assert given_season(["none"]).period is None
    season = given_season(["144", "12"])
    assert (season.period, season.long_period) == (12, 144)
    for wrong in (["x"], ["1"], ["12", "12"], ["2", "3", "4"], ["12", "none"], ["90000"]):
        with pytest.raises(Refusal, match=f"--season: got {', '.join(wrong)}, expected"):
            given_season(wrong)


def test_units_in_names() -> None:
    names = {"T [°C]": "°C", "flow (l/s)": "l/s", "CO(GT)": None, "T": None, "x[0] y": None}
    assert {name: unit_of(name) for name in names} == names


@pytest.mark.parametrize("kind", KINDS)
def test_sensors_fail_where_they_are_told_to(kind: str) -> None:
    values = np.random.default_rng(0).standard_normal((60, 2))
    before = values.copy()
    Failure.parse(f"b:11:20:{kind}").apply(values, ["a", "b"], np.random.default_rng(1))
    changed = ~((values == before) | (np.isnan(values) & np.isnan(before)))
    assert changed[10:30, 1].any() and not changed[:10].any() and not changed[30:].any()
    assert not changed[:, 0].any()


def test_gaps_have_the_share_that_was_asked_for() -> None:
    values = np.zeros((1000, 3))
    punch(values, 0.13, np.random.default_rng(0))
    np.testing.assert_array_equal(np.isnan(values).sum(0), [130] * 3)


def test_simulate_writes_csv(capsys: Any, tmp_path: Path) -> None:
    """The same seed, the same rows; wrong failures are refused."""
    words = ("simulate", "seasonal", "--rows", 50, "--columns", 2, "--seed", 4)
    done = call(capsys, *words, "--fail", "y2:10:5:freeze")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert len(rows) == 50 and list(rows[0]) == ["time", "y1", "y2"]
    assert len({row["y2"] for row in rows[9:14]}) == 1 != len({row["y2"] for row in rows[8:14]})
    call(capsys, *words, "--fail", "y2:10:5:freeze", "--out", tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == done.out
    assert "--force" in call(capsys, *words, "--out", tmp_path / "a.csv").err
    assert (tmp_path / "a.csv").read_text() == done.out
    assert call(capsys, *words, "--fail", "y2:10").status == 2
    assert "did you mean 'freeze'" in call(capsys, *words, "--fail", "y1:1:5:freez").err
    assert "'y1', 'y2'" in call(capsys, *words, "--fail", "z:1:5:freeze").err
    assert "--missing" in call(capsys, *words, "--missing", 2).err
    hidden = call(capsys, "simulate", "stochastic-volatility", "--rows", 5, "--states")
    assert hidden.out.splitlines()[0] == "time,y1,y2,y3,x1,x2,x3"
