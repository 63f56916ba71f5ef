"""Seasons are found where they are, and not where they are not."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rmcvi.app.run.season import find_seasons
from rmcvi.app.sources import read

Maker = Callable[[np.random.Generator, int], np.ndarray]


def _recursion(rng: np.random.Generator, rows: int, *weights: float) -> np.ndarray:
    values = rng.standard_normal(rows + 100)
    for t in range(len(weights), len(values)):
        values[t] += sum(w * values[t - 1 - k] for k, w in enumerate(weights))
    return values[100:]


NOISE: dict[str, Maker] = {
    "white": lambda rng, rows: rng.standard_normal(rows),
    "walk": lambda rng, rows: rng.standard_normal(rows).cumsum(),
    "AR(1)": lambda rng, rows: _recursion(rng, rows, 0.9),
    "alternating": lambda rng, rows: _recursion(rng, rows, -0.8),
    "AR(2), turning every 12 rows": lambda rng, rows: _recursion(rng, rows, 1.68, -0.94),
    "AR(3), turning every 7 rows": lambda rng, rows: _recursion(rng, rows, 1.92, -1.71, 0.65),
    "ramp with noise": lambda rng, rows: np.arange(rows) + 5.0 * rng.standard_normal(rows),
    "zeros with bursts": lambda rng, rows: np.maximum(rng.standard_normal(rows) - 1.0, 0.0),
}


@pytest.mark.parametrize("kind", list(NOISE))
def test_noise_has_no_season(kind: str) -> None:
    """Over all kinds: fewer than two in a hundred."""
    rng = np.random.default_rng(14)
    found = [find_seasons(NOISE[kind](rng, rows)[:, None]) for rows in [60] * 20 + [200] * 20]
    assert sum(map(bool, found)) <= 1


def test_there_is_none_in_what_is_smooth_constant_short_or_absent() -> None:
    t = np.arange(200.0)
    for column in (t, t**2, np.exp(t / 40.0), np.ones(200), np.full(200, np.nan), t[:10]):
        assert find_seasons(column[:, None]) == ()
    assert find_seasons(np.zeros((0, 1))) == ()


@pytest.mark.parametrize("period", [7, 12, 24, 48])
@pytest.mark.parametrize("noise", ["white", "walk", "AR(1)"])
def test_seasons_are_found_in_noise(period: int, noise: str) -> None:
    """At least four of five, with gaps; two columns help each other."""
    rng = np.random.default_rng(14)
    hits, rows = 0, max(300, 10 * period)
    phase = 2.0 * np.pi * np.arange(rows) / period
    size = {"white": 0.7, "walk": 0.2, "AR(1)": 0.3}[noise]
    for _ in range(5):
        values = np.stack(
            [np.sin(phase + c) + size * NOISE[noise](rng, rows) for c in (0.0, 2.0)], 1
        )
        values[rng.random(values.shape) < 0.03] = np.nan
        hits += find_seasons(values)[:1] == (period,)
    assert hits >= 4


def test_a_perfect_season_and_one_of_a_longer_scale() -> None:
    rng = np.random.default_rng(14)
    hours = np.arange(1400)
    sine = np.sin(2.0 * np.pi * hours / 24.0)
    assert find_seasons(sine[:, None]) == (24,)
    weekend = 1.5 * ((hours // 24) % 7 >= 5)
    noisy = sine + weekend + 0.2 * rng.standard_normal(1400)
    assert find_seasons(noisy[:, None]) == (24, 168)


def test_the_head_of_a_stream_uses_nothing_up(tmp_path: Path) -> None:
    text = "t,a\n" + "".join(f"{i},{i}.5\n" for i in range(300))
    file = tmp_path / "a.csv"
    file.write_text(text)
    for stream in (read(file), read(io.StringIO(text)), read(file, follow=True)):
        first = stream.head(100)
        assert [row.time for row in first] == list(range(100)) and stream.counts.rows == 0
        assert next(iter(stream)).time == 0.0
