"""Calendar inputs: sin and cos of 2 pi h (time - origin) / period, h = 1, ..., harmonics."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from rmcvi.core.checks import check_int, check_option, check_real

_DAY = 86400.0
CYCLES = {
    "hour": (_DAY, 0.0),
    "week": (7.0 * _DAY, 4.0 * _DAY),
    "month": (365.2425 / 12.0 * _DAY, 0.0),
    "year": (365.2425 * _DAY, 0.0),
}
"""Period and origin in seconds of the hour of the day, the day of the week (from Monday; 1970 began
on a Thursday) and the place in a mean month and year (a day off at most in a century)."""


def calendar(
    time: ArrayLike | float | None, cycles: Sequence[str | float | int], harmonics: int = 1
) -> np.ndarray:
    """Sine and cosine of each cycle and harmonic, (..., 2 harmonics len(cycles)).

    Args:
        time: seconds since 1970, one or many, for named cycles ('hour', 'week', 'month', 'year');
            anything, a row counter for instance, for a period in the same unit. None or NaN is an
            unknown time: zeros, the mean of every cycle.
        cycles: names or periods.
        harmonics: waves per cycle.
    """
    check_int("harmonics", harmonics)
    times = np.asarray(np.nan if time is None else time, float)
    waves = [np.zeros((*times.shape, 0))]
    for cycle in cycles:
        period, origin = _period(cycle)
        phase = 2.0 * np.pi * (np.mod(times - origin, period) / period)
        angles = phase[..., None] * np.arange(1.0, harmonics + 1.0)
        pairs = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        waves.append(pairs.reshape(*times.shape, 2 * harmonics))
    return np.nan_to_num(np.concatenate(waves, axis=-1), nan=0.0)


def calendar_names(cycles: Sequence[str | float | int], harmonics: int = 1) -> tuple[str, ...]:
    """Names of the columns of `calendar`: 'hour sin 1', 'hour cos 1', ..."""
    check_int("harmonics", harmonics)
    return tuple(
        f"{cycle if isinstance(cycle, str) else f'{_period(cycle)[0]:g}'} {wave} {h}"
        for cycle in cycles
        for h in range(1, harmonics + 1)
        for wave in ("sin", "cos")
    )


def _period(cycle: str | float | int) -> tuple[float, float]:
    if isinstance(cycle, str):
        return CYCLES[check_option("cycles", cycle, CYCLES)]
    return check_real("cycles", cycle, 0.0), 0.0
