"""A stream among many is what it is alone, whoever its neighbours are and however rows are cut."""

from typing import Any

import numpy as np
import pytest

from rmcvi import Live, SeasonalLearner
from rmcvi.scale import Streams

ROWS = {"a": 40, "b": 33, "c": 40, "late": 12, "short": 3}
"""Streams and their lengths: through the warm-up, in the midst of it, before it."""


def learner() -> SeasonalLearner:
    """Small, with an input, seasons and a warm-up."""
    return SeasonalLearner(
        2,
        1,
        period=4,
        long_period=None,
        harmonics=1,
        cross=1,
        own=1,
        plain=False,
        warm=16,
        window=8,
    )


@pytest.fixture(scope="module")
def streams() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Values with gaps, inputs and steps of each."""
    rng = np.random.default_rng(0)
    made = {}
    for key, count in ROWS.items():
        y = rng.normal(size=(count, 2)).cumsum(0) + 10.0
        y[rng.uniform(size=y.shape) < 0.1] = np.nan
        made[key] = y, rng.normal(size=(count, 1)), rng.choice([1.0, 2.5], count)
    return made


def told(streams: Any, order: list[str], cuts: list[int]) -> tuple[dict[str, np.ndarray], Streams]:
    """What is told of each stream's rows when they come in an order, cut at places."""
    fleet, left = Streams(learner()), dict.fromkeys(streams, 0)
    rows = []
    for key in order:
        rows.append((key, *(part[left[key]] for part in streams[key])))
        left[key] += 1
    found: dict[str, list[np.ndarray]] = {key: [] for key in streams}
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        keys, *parts = zip(*rows[begin:end], strict=True)
        results = fleet.learn(keys, *map(np.array, parts))
        numbers = np.concatenate(
            [results.mean, results.low, results.high, results.filled, results.failure], 1
        )
        numbers = np.concatenate([numbers, results.log_score[:, None]], 1)
        for key, row in zip(keys, numbers, strict=True):
            found[key].append(row)
    return {key: np.array(part) for key, part in found.items()}, fleet


@pytest.fixture(scope="module")
def one_by_one(streams: Any) -> tuple[dict[str, np.ndarray], Streams]:
    """One stream after the other, in one batch."""
    return told(streams, [key for key, n in ROWS.items() for _ in range(n)], [])


def test_neighbours_and_cuts_do_not_matter(streams: Any, one_by_one: Any) -> None:
    """To the bit: rows in any order of the streams, in batches of any length."""
    expected, whole = one_by_one
    rng = np.random.default_rng(1)
    order = rng.permutation([key for key, n in ROWS.items() for _ in range(n)]).tolist()
    cuts = sorted(rng.choice(np.arange(1, len(order)), 12, replace=False).tolist())
    found, fleet = told(streams, order, cuts)
    for key in ROWS:
        np.testing.assert_array_equal(found[key], expected[key])
        a, b = (f.state(f.place(key)).tobytes() for f in (fleet, whole))
        assert a == b


def test_streams_are_those_of_single_runs(streams: Any, one_by_one: Any) -> None:
    """Up to rounding: the sums of a block are taken in another order."""
    expected, whole = one_by_one
    for key in ("a", "b"):
        y, u, dt = streams[key]
        live = Live(2, inputs=1, learner=learner())
        alone = live.learn_many(y, u, dt)
        parts = (alone.mean, alone.low, alone.high, alone.filled, alone.failure)
        numbers = np.concatenate([*parts, alone.log_score[:, None]], 1)
        np.testing.assert_allclose(expected[key], numbers, rtol=1e-7, atol=1e-7)
        ahead = live.forecast(5, list(np.zeros((5, 1))))
        band = whole.forecast(key, 5, np.zeros((5, 1)))
        np.testing.assert_allclose(band.mean, ahead.mean, rtol=1e-7, atol=1e-7)


def test_scores_are_those_of_the_rows(streams: Any, one_by_one: Any) -> None:
    """Sums that a stream carries, worked out again from what was told."""
    expected, whole = one_by_one
    y, mean = streams["a"][0], expected["a"][:, :2]
    tally = whole.open("a")[1]
    assert int(tally.rows) == ROWS["a"]
    last = np.full(2, np.nan)
    error, repeat = np.zeros(2), np.zeros(2)
    for row, guess in zip(y, mean, strict=True):
        scored = np.isfinite(row) & np.isfinite(guess) & np.isfinite(last)
        error += np.where(scored, (row - guess) ** 2, 0.0)
        repeat += np.where(scored, (row - last) ** 2, 0.0)
        last = np.where(np.isnan(row), last, row)
    np.testing.assert_allclose(tally.error, error, rtol=1e-12)
    np.testing.assert_allclose(tally.repeat, repeat, rtol=1e-12)
    every = whole.tallies()
    np.testing.assert_array_equal(every.rows, list(ROWS.values()))


def test_wrong_calls_are_refused(one_by_one: Any) -> None:
    """In words."""
    _, fleet = one_by_one
    with pytest.raises(ValueError, match=r"^y: got \(1, 1\), expected \(1, 2\)"):
        fleet.learn(["a"], np.zeros((1, 1)), np.zeros((1, 1)))
    with pytest.raises(ValueError, match=r"^key: got 'z'"):
        fleet.forecast("z", 3)
