"""Numbers that stand for a missing value.

A fill value (9.96921e36 of NetCDF, the largest float of GDAL, 1e20 of climate models) is missing
wherever it stands, unless its column is full of such numbers. Any other number is taken for a code
only if the first rows show it, in one of two ways.
It is among those that instruments write (-200, -999, 32767, ...), and lies far outside of the
column's other values if it is repeated (below zero when they never are, or further from them than
they spread and than half its own size), absurdly far if it is not.
Or nobody is known to write it, but it is repeated and a million times further out than the others.
Once one column has it, it counts in every other column of which it lies far outside, seen or not.
"""

from collections.abc import Mapping

import numpy as np

from rmcvi.app.sources.observation import Vector

_NINES = (999.0, 999.9, 999.99, 9999.0, 9999.9, 9999.99, 99999.0, 999999.0, 9999999.0)
_POWERS = tuple(10.0**k for k in (9, 10, 12, 15, 20, 30, 31, 33, 35, 36, 37, 38))
_REGISTERS = (32767.0, 65535.0, 2147483647.0, 4294967295.0)
KNOWN = frozenset(
    [-99.0, -99.9, -99.99, -200.0, -888.0, -7777.0, -8888.0, -32768.0, -2147483648.0]
    + [*_REGISTERS, -32767.0, -2147483647.0]
    + [sign * value for sign in (-1.0, 1.0) for value in (*_NINES, *_POWERS)]
)
"""Numbers that instruments write for a missing value."""
HUGE = 1e19
"""Smaller numbers are no fill values."""
_FILLS = (1e20, 9.969209968386869e36, 3.4028234663852886e38, 1.7976931348623157e308)
_ROUNDED = 1e-5
"""They are written with six digits at least."""
_ONCE, _UNKNOWN = 20.0, 1e6
"""How many times further out than the others reach: a known code seen once; an unknown one.

A spike of twenty times all that came before is no measurement if it is also exactly such a number.
A machine that is switched on may draw ten thousand times what it drew, and the same again, but not
a million times.
"""
_LIKE_FILLS = 1e15
"""A column that reaches so far is counted in units in which 1e20 may be measured."""


def is_fill(value: float) -> bool:
    """Whether a number means missing wherever it stands."""
    size = abs(value)
    return size >= HUGE and any(abs(size / fill - 1.0) < _ROUNDED for fill in _FILLS)


def reaches_fills(values: Vector) -> bool:
    """Whether a column holds other numbers as large as fill values."""
    return any(
        abs(v) >= _LIKE_FILLS and not is_fill(v) and abs(v) not in KNOWN for v in values.tolist()
    )


def far_outside(value: float, rest: Vector) -> bool:
    """Whether `value` cannot be a neighbour of the numbers in `rest`."""
    if not len(rest):
        return False
    low, high = float(rest.min()), float(rest.max())
    if value < 0.0 <= low:
        return True
    gap = max(low - value, value - high)
    return gap >= max(high - low, 0.5 * abs(value))


def _beyond(value: float, rest: Vector, times: float) -> bool:
    """Whether it is so many times further out than the others reach and spread."""
    if not len(rest):
        return False
    low, high = float(rest.min()), float(rest.max())
    gap, reach = max(low - value, value - high), max(high - low, abs(low), abs(high))
    return (reach > 0.0 or value < 0.0) and min(gap, abs(value)) >= times * reach and gap > 0.0


def column_sentinels(values: Vector) -> list[float]:
    """The sentinels of one column (NaN = missing already), by the rule of this module."""
    numbers, times = np.unique(values[~np.isnan(values)], return_counts=True)
    fills = [] if reaches_fills(values) else [v for v in numbers.tolist() if is_fill(v)]
    known = np.array([float(v) in KNOWN or is_fill(float(v)) for v in numbers], bool)
    rest = numbers[~known]
    # Without any other value, the column is constant for all that is known.
    found = [v for v, n in _pairs(numbers[known], times[known]) if _is_code(v, n, rest)]
    repeated = [v for v, n in _pairs(rest, times[~known]) if n > 1 and len(rest) > 3]
    found += [v for v in repeated if _beyond(v, rest[rest != v], _UNKNOWN)]
    return sorted({*found, *fills})


def _pairs(numbers: Vector, times: np.ndarray) -> list[tuple[float, int]]:
    return list(zip(numbers.tolist(), times.tolist(), strict=True))


def _is_code(value: float, times: int, rest: Vector) -> bool:
    return far_outside(value, rest) and (times > 1 or _beyond(value, rest, _ONCE))


def table_sentinels(table: Mapping[str, Vector]) -> dict[str, tuple[float, ...]]:
    """The sentinels of each column, by the rule of this module."""
    everywhere = {v for values in table.values() for v in column_sentinels(values)}
    found: dict[str, tuple[float, ...]] = {}
    for name, values in table.items():
        seen = values[~np.isnan(values)]
        rest = seen[~np.isin(seen, sorted(everywhere))]
        here = [v for v in sorted(everywhere) if not len(rest) or far_outside(v, rest)]
        if here:
            found[name] = tuple(here)
    return found
