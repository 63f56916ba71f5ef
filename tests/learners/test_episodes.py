"""Alarms in words: one sentence for each kind, the same while it goes on, one for a logger."""

import json
from typing import Any

import numpy as np
import pytest

import rmcvi
from rmcvi.baselines import Persistence
from rmcvi.learners.episodes import Episodes, Verdicts
from rmcvi.learners.monitors import APART, DRIFTING, MOVED, OUTLYING, RHYTHM, STUCK

LENGTH, START = 160, 120
SURE, AGE, CHANCE = 0.9, 1.0, " Chance alone does this once in 90 000 rows."
"""A score, the age of what it rests on, and what is said of it: 10 000 a / (1 - a)."""


def told(change: str, columns: int = 2) -> list[tuple[str, ...]]:
    """The alarms of a stream in which something happens to the first column, or to all."""
    shell = rmcvi.Live([f"c{i}" for i in range(columns)], learner=Persistence(columns))
    rows = np.random.default_rng(5).standard_normal((LENGTH, columns)) + 10.0
    rows[:, 1] += np.arange(LENGTH) * 0.01
    if change == "stuck":
        rows[START:, 0] = rows[START - 1, 0]
    elif change == "frozen":
        rows[START:] = rows[START - 1]
    elif change == "jump":
        rows[START, 0] = 500.0
    elif change == "level":
        rows[START:, 0] += 1000.0
    elif change == "dead":
        rows[START - 30 :, 0] = np.nan
    return [shell.learn_one(row).alarms for row in rows]


@pytest.mark.parametrize(
    ("change", "start"),
    [
        ("stuck", "c0: stuck at 9.71977 since row 120."),
        ("frozen", "All columns: no value has changed since row 120; the logger has frozen."),
        ("jump", "c0: jumped to 500 at row 121, far outside its band."),
        ("level", "c0: moved to a new level at row 121, from about 9.718 to about 1010."),
        ("dead", "c0: no value since row 91; it seems dead."),
    ],
)
def test_each_kind_has_its_sentence(change: str, start: str) -> None:
    """It names column, kind and row, and does not change from row to row."""
    alarms = told(change)
    assert not any(alarms[:90])
    sentences = list(dict.fromkeys(s for row in alarms for s in row))
    assert [s for s in sentences if s.startswith(start)]
    # A level begins as a jump; nothing else is said twice.
    assert len(sentences) == (2 if change == "level" else 1)
    if change in ("stuck", "frozen", "dead"):
        assert alarms[-1] == (sentences[0],)
    elif change == "jump":
        assert not any(alarms[START + 15 :])


def _step(episodes: Episodes, y: list[float], kind: list[int], half: float = 1.0) -> list[str]:
    """Two columns, predicted to be 0 in a band of `half`."""
    zero = np.zeros(2)
    band = (zero, zero - half, zero + half)
    return list(_one(episodes, np.array(y), zero + 0.5, band, np.array(kind)))


def _one(episodes: Episodes, y: Any, last: Any, band: Any, kind: Any) -> tuple[str, ...]:
    """The alarms of a row of a learner that has none of its own."""
    bands = tuple(part[None] for part in band)
    verdicts = Verdicts(
        kind[None], np.where(kind > 0, SURE, 0.0)[None], np.full((1, len(kind)), AGE)
    )
    (told,) = episodes.step(y[None], last[None], bands, verdicts, np.zeros(1, int))
    return told


def test_an_alarm_lasts_while_values_are_outside_their_band() -> None:
    """Also when the monitor has already got used to them, and across a file."""
    episodes = Episodes(["a", "b"])
    first = said = _step(episodes, [9.0, 0.1], [OUTLYING, 0])
    for i in range(20):
        said = _step(episodes, [9.0 + 0.01 * i, 0.2], [0, 0])
        assert len(said) == 1
        episodes = Episodes(["a", "b"], json.loads(json.dumps(episodes.to_json())))
    assert first == ["a: jumped to 9 at row 1, far outside its band." + CHANCE]
    assert said == ["a: moved to a new level at row 1, from about 0 to about 9.005." + CHANCE]
    ends = [_step(episodes, [0.3, 0.1], [0, 0]) for _ in range(4)]
    assert [len(v) for v in ends] == [1, 1, 0, 0]


def test_drift_and_erratic_values_are_said_so() -> None:
    """A drift by its peers; values on both sides of the band are no level."""
    episodes = Episodes(["a", "b"])
    (drift,) = _step(episodes, [0.1, 0.1], [0, APART])
    assert drift.startswith("b: has drifted since row 1 away from")
    episodes = Episodes(["a", "b"])
    said = _step(episodes, [9.0, 0.1], [OUTLYING, 0])
    for value in (-8.0, 7.0, -9.0):
        said = _step(episodes, [value, 0.1], [OUTLYING, 0])
    assert said == ["a: erratic since row 1; its values are far outside its band." + CHANCE]


def test_columns_that_stick_alone_are_named_alone() -> None:
    """One moves: no frozen logger."""
    episodes, moving, said = Episodes(["a", "b"]), 0.0, ()
    for i in range(12):
        moving += 1.0
        y = np.array([0.5, moving])
        kind = np.array([STUCK if i > 6 else 0, 0])
        wide = (np.zeros(2), np.full(2, -99.0), np.full(2, 99.0))
        said = _one(episodes, y, np.array([0.5, moving - 1.0]), wide, kind)
    assert said == ("a: stuck at 0.5 since row 0." + CHANCE,)


def test_a_gap_is_no_frozen_logger() -> None:
    """Where nothing was seen nothing repeats, though one column was stuck before."""
    episodes, wide = Episodes(["a", "b"]), (np.zeros(2), np.full(2, -99.0), np.full(2, 99.0))
    stuck, last = np.array([STUCK, 0]), np.array([0.5, 0.0])
    for moving in np.arange(1.0, 9.0):
        y = np.array([0.5, moving])
        _one(episodes, y, last, wide, stuck)
        last = y
    said = ()
    for _ in range(20):
        said = _one(episodes, np.full(2, np.nan), last, wide, stuck)
    assert said == ("a: stuck at 0.5 since row 0." + CHANCE,)
    restored = Episodes(["a", "b"], json.loads(json.dumps(episodes.to_json())))
    for _ in range(4):
        said = _one(restored, last, last, wide, stuck)
    assert said == ("All columns: no value has changed since row 8; the logger has frozen.",)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (MOVED, "a: its level has changed since row 6."),
        (DRIFTING, "a: has drifted since row 6; its values keep to one side of their predictions."),
        (RHYTHM, "a: its rhythm has changed since row 6."),
    ],
)
def test_what_begins_slowly_says_since_when(kind: int, words: str) -> None:
    """By the age of its statistic; what comes again after a short pause goes on."""
    episodes, zero = Episodes(["a"]), np.zeros((30, 1))
    codes = np.where(np.isin(np.arange(30), (9, 20))[:, None], kind, 0)
    verdicts = Verdicts(codes, np.where(codes > 0, SURE, 0.0), zero + 5.0)
    told = episodes.step(zero, zero, (zero, zero - 1.0, zero + 1.0), verdicts, np.zeros(30, int))
    assert {s for row in told for s in row} == {words + CHANCE}
    assert [i for i, row in enumerate(told) if row] == [9, 10, 11, 20, 21, 22]


def test_the_sensitivity_is_the_threshold() -> None:
    """An alarm where the score is above 1 / (1 + sensitivity)."""
    zero, one = np.zeros((1, 1)), np.ones((1, 1))
    for sensitivity, heard in ((1.0, True), (0.1, False), (0.12, True)):
        episodes = Episodes(["a"], None, sensitivity)
        verdicts = Verdicts(one.astype(int), SURE * one, one)
        told = episodes.step(zero, zero, (zero, zero, zero), verdicts, np.zeros(1, int))
        assert bool(told[0]) == heard
