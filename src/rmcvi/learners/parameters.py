"""What a learner has learned, as numbers with names."""

from typing import Any

import numpy as np

MOST = 25
"""Entries of an array that are listed one by one; of a larger one the root mean square."""
EACH = "*."
"""Begins the name of a parameter with one entry per column."""


def named(
    arrays: dict[str, np.ndarray], columns: list[str], *, whole: bool = False
) -> dict[str, Any]:
    """Scalars by name, those of a column under its name; with `whole` other arrays as they are.

    Args:
        arrays: what `AbstractLearner.parameters` says, in the learner's units: standardised, if the
            columns are.
        columns: their names.
        whole: as said.
    """
    own = {k.removeprefix(EACH): v for k, v in arrays.items() if k.startswith(EACH)}
    found = {f"{c}.{k}": float(v[i]) for i, c in enumerate(columns) for k, v in own.items()}
    for k, v in arrays.items():
        if not k.startswith(EACH):
            found |= {k: v} if whole else dict(_scalars(k, v))
    return found


def _scalars(name: str, value: np.ndarray) -> list[tuple[str, float]]:
    if value.ndim == 0:
        return [(name, float(value))]
    if value.size > MOST:
        return [(f"{name}.rms", float(np.sqrt(np.mean(value**2))))]
    places = np.ndindex(value.shape)
    return [(f"{name}[{','.join(map(str, i))}]", float(value[i])) for i in places]
