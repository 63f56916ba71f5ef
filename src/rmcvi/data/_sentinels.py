"""Numbers that stand for a missing value.

A number is taken for one only if all three hold:
it is among those that instruments write (-200, -999, -9999, ...);
it is repeated in the column;
it lies far outside of the column's other values: below zero when they never are, or further from
them than they spread and than half its own size.
Once one column has it, it counts in every other column of which it lies far outside, seen or not.
"""

from collections.abc import Mapping

import numpy as np

from rmcvi.data._observation import Vector

_NINES = (999.0, 999.9, 999.99, 9999.0, 9999.9, 99999.0, 999999.0)
KNOWN = frozenset(
    [-99.0, -99.9, -99.99, -200.0, -888.0, -7777.0, -8888.0, -32768.0, 32767.0, 65535.0]
    + [sign * value for sign in (-1.0, 1.0) for value in (*_NINES, 1e20, 1e30)]
)
"""Numbers that instruments write for a missing value."""


def far_outside(value: float, rest: Vector) -> bool:
    """Whether `value` cannot be a neighbour of the numbers in `rest`."""
    if not len(rest):
        return False
    low, high = float(rest.min()), float(rest.max())
    if value < 0.0 <= low:
        return True
    gap = max(low - value, value - high)
    return gap >= max(high - low, 0.5 * abs(value))


def column_sentinels(values: Vector) -> list[float]:
    """The sentinels of one column (NaN = missing already), by the rule of this module."""
    numbers, times = np.unique(values[~np.isnan(values)], return_counts=True)
    known = np.array([float(v) in KNOWN for v in numbers], bool)
    rest = numbers[~known]
    found = [float(v) for v, n in zip(numbers[known], times[known], strict=True) if n > 1]
    # Without any other value, the column is constant for all that is known.
    return [v for v in found if far_outside(v, rest)]


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
