import json
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rmcvi.learners.units import Scaling, Standardiser

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)
TABLES = arrays(float, (25, 2), elements=NUMBERS | st.just(math.nan))
SETTINGS = settings(max_examples=20, deadline=None, derandomize=True)


def _stream(length: int = 1000) -> np.ndarray:
    rng = np.random.default_rng(3)
    ys = rng.normal([5.0, -100.0, 0.0], [2.0, 0.1, 1e4], (length, 3))
    ys[rng.uniform(size=ys.shape) < 0.3] = np.nan
    return ys


@SETTINGS
@given(TABLES, arrays(float, (2,), elements=st.floats(-50, 50)))
def test_the_inverse_is_exact(ys: np.ndarray, z: np.ndarray) -> None:
    _, scaling = Standardiser(warmup=3).transform_stream(ys)
    ready = scaling.ready
    raw = scaling.inverse(z)
    np.testing.assert_allclose(
        scaling.inverse(scaling.transform(raw))[ready], raw[ready], rtol=1e-12, atol=1e-300
    )
    low, high = scaling.inverse(z - 1.0), scaling.inverse(z + 1.0)
    width = np.abs(raw) + scaling.scale
    assert np.all(np.abs((high - low) - 2.0 * scaling.scale)[ready] <= 1e-12 * width[ready])


@SETTINGS
@given(TABLES, st.integers(0, 24), st.sampled_from([None, 5]))
def test_nothing_looks_ahead(ys: np.ndarray, t: int, memory: int | None) -> None:
    """A row is standardised by the rows before it: z_t is affine in y_t with their statistics."""
    standardiser = Standardiser(warmup=3, memory=memory, gate=None)
    zs, _ = standardiser.transform_stream(ys)
    before, scaling = standardiser.transform_stream(ys[:t])
    np.testing.assert_array_equal(zs[:t], before)
    np.testing.assert_array_equal(zs[t], (ys[t] - scaling.mean) / scaling.scale)
    assert np.all(np.isfinite(zs) | np.isnan(ys) | (np.cumsum(~np.isnan(ys), 0) <= 3))


@SETTINGS
@given(TABLES, st.integers(0, 25))
def test_cut_anywhere_and_stored_the_numbers_are_the_same(ys: np.ndarray, cut: int) -> None:
    standardiser = Standardiser(warmup=4, memory=8)
    whole, last = standardiser.transform_stream(ys)
    head, scaling = standardiser.transform_stream(ys[:cut])
    scaling = Scaling.from_json(json.loads(json.dumps(scaling.to_json())))
    tail, end = standardiser.transform_stream(ys[cut:], scaling)
    np.testing.assert_array_equal(np.concatenate([head, tail]), whole)
    for name in ("mean", "scale", "count", "floor", "trusted", "level", "run", "longest"):
        np.testing.assert_array_equal(getattr(end, name), getattr(last, name))


def test_moments_of_clean_data() -> None:
    ys = _stream(3000)
    _, scaling = Standardiser().transform_stream(ys)
    n = (~np.isnan(ys)).sum(0)
    sd = np.array([2.0, 0.1, 1e4])
    # Winsorising at 3 costs hardly any efficiency: five standard errors of mean and deviation.
    assert np.all(np.abs(scaling.mean - [5.0, -100.0, 0.0]) < 5.0 * sd / np.sqrt(n))
    assert np.all(np.abs(scaling.scale / sd - 1.0) < 5.0 / np.sqrt(2.0 * n))


def test_outliers_teach_little() -> None:
    ys = _stream()
    clean = Standardiser().transform_stream(ys)[1]
    dirty = ys.copy()
    dirty[::40] = 1e9
    dirty[3] = -1e9
    scaling = Standardiser().transform_stream(dirty)[1]
    assert np.all(np.abs(scaling.mean - clean.mean) < 0.3 * clean.scale)
    assert np.all((scaling.scale > 0.8 * clean.scale) & (scaling.scale < 1.5 * clean.scale))
    # The plain moments would be useless.
    assert np.nanstd(dirty[:, 0]) > 1e7 * clean.scale[0]


@pytest.mark.parametrize(("value", "scale"), [(0.0, 1.0), (250.0, 25.0), (-1e-9, 1e-10)])
def test_constants_have_a_scale(value: float, scale: float) -> None:
    zs, scaling = Standardiser(gate=None).transform_stream(np.full((200, 1), value))
    np.testing.assert_array_equal(zs[10:], 0.0)
    assert np.isnan(zs[:10]).all()
    assert scaling.inverse([0.0]).tolist() == [value]
    assert 0.01 * scale * 0.99 <= scaling.scale[0] <= scale * 1.01


def test_a_stuck_sensor_does_not_shrink_its_scale_to_nothing() -> None:
    ys = np.r_[np.random.default_rng(0).normal(size=100), np.full(1000, 0.3)][:, None]
    _, scaling = Standardiser(memory=50, gate=None).transform_stream(ys)
    assert scaling.scale[0] == scaling.floor[0]
    assert abs(scaling.transform([1.3])[0]) < 300.0


def test_forgetting_follows_a_change_of_level() -> None:
    rng = np.random.default_rng(1)
    ys = np.r_[rng.normal(0.0, 1.0, 1000), rng.normal(20.0, 5.0, 500)][:, None]
    forgetful = Standardiser(memory=50).transform_stream(ys)[1]
    assert abs(forgetful.mean[0] - 20.0) < 5.0 * 5.0 / math.sqrt(100.0)
    assert abs(forgetful.scale[0] / 5.0 - 1.0) < 5.0 / math.sqrt(200.0)
    faithful = Standardiser(memory=None).transform_stream(ys)[1]
    assert faithful.mean[0] < 12.0


def _faulty(kind: str) -> tuple[np.ndarray, slice]:
    """White noise with a fault, and the rows after it."""
    ys = np.random.default_rng(4).normal(5.0, 2.0, (6000, 1))
    bad = slice(1000, 5000) if kind in ("stuck", "level", "wide") else slice(1000, 1060)
    if kind == "stuck":
        ys[bad] = ys[999]
    elif kind in ("outliers", "constant"):
        ys[bad] = 1e6 if kind == "constant" else ys[bad] * 1e5
    else:
        ys[bad] = ys[bad] * (50.0 if kind == "wide" else 1.0) + 2e3
    return ys, bad


FAULTS = ("stuck", "outliers", "constant", "level", "wide")


@cache
def _standardised() -> tuple[np.ndarray, Scaling]:
    """All faults, a column each: columns are islands."""
    return Standardiser().transform_stream(np.hstack([_faulty(kind)[0] for kind in FAULTS]))


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_doubted_or_followed_and_then_over(kind: str) -> None:
    """Standard values stay standard, in the fault where it is a level, and soon after it."""
    (_, bad), (every, scaling), k = _faulty(kind), _standardised(), FAULTS.index(kind)
    zs = every[:, k]
    assert np.nanmax(np.abs(zs)) < 11.0
    assert 1.0 < scaling.scale[k] < 4.0 and abs(scaling.mean[k] - 5.0) < 2.0
    after = zs[bad.stop + 20 :]
    assert np.isnan(after).mean() < 0.01 and np.nanstd(after[:900]) < 2.0
    inside = zs[bad.start + 10 : bad.stop]
    if kind == "stuck":
        assert np.isnan(inside[20:]).all()
    if kind == "level":
        assert np.isfinite(inside).all() and abs(inside.mean()) < 0.5


@pytest.mark.parametrize("code", [32767.0, 9.96921e36, -3.4028235e38])
def test_an_absurd_first_value_ruins_nothing(code: float) -> None:
    """Two codes for missing in the warm-up: units are those of the rest."""
    ys = np.random.default_rng(7).normal(5.0, 2.0, (300, 1))
    ys[[0, 7]] = code
    zs, scaling = Standardiser().transform_stream(ys)
    assert 1.0 < scaling.scale[0] < 4.0 and np.nanmax(np.abs(zs[10:])) < 6.0


def test_columns_are_islands() -> None:
    """What one column does is nothing to the others, to the bit."""
    ys = np.random.default_rng(5).normal(size=(400, 2))
    alone = Standardiser().transform_stream(ys)[0]
    ys[200:, 0] += 1e6
    np.testing.assert_array_equal(Standardiser().transform_stream(ys)[0][:, 1], alone[:, 1])


def test_rounded_values_and_walks_are_not_doubted() -> None:
    """Runs of repeats are learned; a walk moves in small steps however far it goes."""
    rng = np.random.default_rng(6)
    walk = rng.normal(size=(3000, 1)).cumsum(0)
    rounded = np.round(rng.normal(0.0, 0.3, (3000, 1)))
    for ys in (walk, rounded):
        zs, _ = Standardiser().transform_stream(ys)
        assert np.isnan(zs[10:]).mean() < 0.02


def test_jumps_that_go_on_are_how_the_column_is() -> None:
    """Dry at first, then rain in three rows of ten: the scale of the first rows was a hundredth."""
    rng = np.random.default_rng(8)
    ys = np.where(rng.random((3000, 1)) < 0.3, rng.exponential(2.0, (3000, 1)), 0.0)
    ys[:10] = 0.0
    ys[4] = 0.03
    zs, scaling = Standardiser().transform_stream(ys)
    assert 0.3 < scaling.scale[0] / ys.std() < 1.5
    # Before, every drop of rain was doubted for good: three values in ten.
    assert np.nanmax(np.abs(zs)) < 25.0 and np.isnan(zs[600:]).mean() < 0.06


def test_frozen_statistics_stay() -> None:
    standardiser = Standardiser()
    _, scaling = standardiser.transform_stream(_stream()[:400])
    frozen = scaling.freeze()
    _, after = standardiser.transform_stream(_stream()[400:], frozen)
    np.testing.assert_array_equal(after.mean, scaling.mean)
    assert after.frozen and Scaling.from_json(after.to_json()).frozen


def test_freezing_ends_the_warm_up() -> None:
    _, scaling = Standardiser(warmup=50).transform_stream([[1.0, np.nan], [3.0, np.nan]])
    frozen = scaling.freeze()
    assert not scaling.ready.any() and frozen.ready.tolist() == [True, False]
    assert frozen.mean[0] == 2.0


def test_densities_change_units() -> None:
    _, scaling = Standardiser().transform_stream(_stream())
    y = np.array([4.0, np.nan, 3.0])
    expected = -np.log(scaling.scale[0]) - np.log(scaling.scale[2])
    assert scaling.log_jacobian(y) == pytest.approx(expected, rel=1e-14)


def test_wrong_calls() -> None:
    with pytest.raises(ValueError, match="warmup"):
        Standardiser(warmup=1)
    with pytest.raises(ValueError, match="memory"):
        Standardiser(memory=5)
    standardiser = Standardiser()
    with pytest.raises(ValueError, match=r"got an array of shape \(3,\), expected \(2\)"):
        standardiser.step(standardiser.init(2), np.zeros(3))
    with pytest.raises(ValueError, match="scaling"):
        Scaling.from_json({"mean": [0.0]})
