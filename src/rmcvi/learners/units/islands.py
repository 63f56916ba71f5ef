"""Columns are islands when they fail: what is doubted, and what is a new level.

Doubted values teach nothing. A value is doubted that lies too far from the last trusted one, and
one that repeats itself far longer than its column ever did. A full streak of doubted jumps is no
fault but a new level: mean and scale move so that it stands where the old level stood. And jumps
that come and go for hundreds of rows are how the column is (rain after a dry beginning): the scale
grows until they are none.
"""

from dataclasses import replace

import numpy as np

from rmcvi.core.moments import MEDIAN_TO_DEVIATION
from rmcvi.learners.units.scaling import Scaling

STREAK = 6
"""Doubted values in a row that are a new level."""
_RENEWED = 50.0
"""Values that statistics are worth after a new level: they may have to change quickly."""
_NARROW = 100.0
"""Scales in a streak's spread beyond which its scale is another one; a walk's is a tenth."""
_WIDE = 10.0
"""Scales in a streak's spread beyond which the old scale is remembered: it may come back."""
_USUAL, _PACE = 0.15, 1.0 / 500.0
"""Share of jumps beyond which they are no faults, and the rate of that share: a spike in every
twentieth row stays below it, and so does a fault of sixty rows."""
_REPEATS, _LONGER = 10.0, 3.0
"""A run of repeats is doubted beyond these many, and so many times the longest one before."""


def repeats(scaling: Scaling, y: np.ndarray, seen: np.ndarray) -> tuple[Scaling, np.ndarray]:
    """Count the repeats; and which columns repeat themselves far longer than ever before."""
    same = y == scaling.latest
    run, longest = np.where(same, scaling.run + 1.0, scaling.run), scaling.longest
    ended = seen & ~same & (run > longest)
    if ended.any():
        # A run teaches no more than it takes to be doubted, lest a stuck sensor become normal.
        most = _REPEATS + _LONGER * longest
        longest = np.where(ended, np.minimum(run, most), longest)
    run = np.where(seen & ~same, 0.0, run)
    latest = np.where(seen, y, scaling.latest)
    stuck = same & (run > _REPEATS + _LONGER * longest)
    return replace(scaling, latest=latest, run=run, longest=longest), stuck


def accustom(
    scaling: Scaling, y: np.ndarray, jump: np.ndarray, seen: np.ndarray, gate: float
) -> Scaling:
    """Widen the scale of columns whose jumps are usual: the like of this one will be none."""
    jumps = scaling.jumps + np.where(seen, _PACE * (jump - scaling.jumps), 0.0)
    usual = seen & jump & (jumps > _USUAL)
    wide = np.where(usual, np.abs(y - scaling.trusted) / gate, scaling.scale)
    count = np.where(usual, np.minimum(scaling.count, _RENEWED), scaling.count)
    return replace(scaling, jumps=jumps, scale=wide, count=count)


def new_level(scaling: Scaling, y: np.ndarray, jump: np.ndarray, trusted: np.ndarray) -> Scaling:
    """Gather jumps; move the statistics of columns whose streak is full."""
    if not jump.any() and np.isnan(scaling.streak[0]).all():
        return scaling
    streak = np.where(trusted, np.nan, scaling.streak)
    shifted = np.concatenate([np.where(jump, y, np.nan)[None], streak[:-1]])
    streak = np.where(jump, shifted, streak)
    full = jump & ~np.isnan(streak[-1])
    scaling = replace(scaling, streak=streak)
    return _relocate(scaling, full) if full.any() else scaling


def _relocate(scaling: Scaling, columns: np.ndarray) -> Scaling:
    """The new level stands where the old one stood."""
    names = ("mean", "scale", "count", "floor", "trusted", "level", "streak", "home")
    new = {name: getattr(scaling, name).copy() for name in names}
    for i in np.flatnonzero(columns):
        values, scale = scaling.streak[:, i], float(scaling.scale[i])
        middle = float(np.median(values))
        spread = MEDIAN_TO_DEVIATION * float(np.median(np.abs(values - middle)))
        if spread > scale or 0.0 < _NARROW * spread < scale:
            new["scale"][i] = spread
            new["floor"][i] = scaling.floor[i] * spread / scale
        if spread > _WIDE * scale and np.isnan(scaling.home[0, i]):
            new["home"][:, i] = scaling.mean[i], scale, 0.0
        stood = np.clip((scaling.level[i] - scaling.mean[i]) / scale, -3.0, 3.0)
        new["mean"][i] = middle - stood * new["scale"][i]
        new["trusted"][i], new["level"][i], new["streak"][:, i] = values[0], middle, np.nan
        new["count"][i] = min(scaling.count[i], _RENEWED)
    return replace(scaling, **new)


def come_home(scaling: Scaling, y: np.ndarray, seen: np.ndarray) -> Scaling:
    """After a time of wide values: those of the narrow old scale would hardly be seen to move."""
    mean, scale, run = scaling.home
    if np.isnan(mean).all():
        return scaling
    near = np.abs(y - mean) < 5.0 * scale
    run = np.where(seen, np.where(near, run + 1.0, 0.0), run)
    back = run >= STREAK
    floor = np.where(back, scaling.floor * scale / scaling.scale, scaling.floor)
    home = np.where(back, np.nan, np.stack([mean, scale, run]))
    return replace(
        scaling,
        mean=np.where(back, mean, scaling.mean),
        scale=np.where(back, scale, scaling.scale),
        floor=floor,
        level=np.where(back, y, scaling.level),
        home=home,
    )
