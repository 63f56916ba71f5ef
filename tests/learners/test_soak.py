"""`Live`'s default learner on long streams and through every fault, in single precision.

Of the streams none is beyond this model but two: the sine has no noise, while the learner's has a
floor, so its band holds all of it; and nothing can be as good as the last value of a stuck sensor
as long as it is stuck.
"""

import numpy as np
import pytest

from tests.learners._soak import Told, faults, soak, streams

SETTLED = 1000
"""Rows in which units and noises are learned."""


def _check(told: Told, names: list[str], start: int, column: int = 0) -> None:
    """No NaN; no thousand rows worse than the last value by a twentieth; honest bands."""
    assert np.isfinite(told.mean[:, 20:]).all() and np.isfinite(told.high[:, 20:]).all()
    length = told.y.shape[1]
    for first in range(start, length - 999, 1000):
        rows = slice(first, first + 1000)
        errors, shares = told.error(rows, column), told.coverage(rows, column)
        for name, error, share in zip(names, errors, shares, strict=True):
            assert error < 1.05, (name, first, error)
            # Three standard errors of a thousand Bernoulli draws are .03.
            least, most = 0.85 - 0.03, 1.0 if name == "sine" else 0.95 + 0.03
            assert least < share < most, (name, first, share)


def _run(length: int) -> None:
    ordinary, (faulty, bad) = streams(length), faults(length)
    names = [*ordinary, *faulty]
    told = soak([*ordinary.values(), *faulty.values()])
    _check(told, names, SETTLED, column=1)
    well = Told(*(v[: len(ordinary)] for v in (told.y, told.mean, told.low, told.high)))
    _check(well, list(ordinary), SETTLED)
    ill = Told(*(v[len(ordinary) :] for v in (told.y, told.mean, told.low, told.high)))
    _check(ill, list(faulty), bad.stop + 20)
    levels = [i for i, name in enumerate(faulty) if name.startswith("level")]
    inside = (ill.low <= ill.y) & (ill.y <= ill.high)
    for start in (bad.start, bad.stop):
        # Followed within ten rows, in the band again within twenty.
        off = np.abs(ill.mean - ill.y)[levels, start + 10 : start + 40, 0]
        assert np.median(off, 1).max() < 5.0
        assert inside[levels, start + 20 : start + 120, 0].mean(1).min() > 0.75


@pytest.mark.long
def test_a_few_thousand_rows() -> None:
    """Every stream and every fault once."""
    _run(4500)


@pytest.mark.long
def test_sixty_thousand_rows() -> None:
    """The same, for as long as two of the default learners of old lived."""
    _run(60_000)
