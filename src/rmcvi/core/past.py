"""What came before each row of a table."""

import numpy as np


def last_value(value: np.ndarray, before: np.ndarray) -> np.ndarray:
    """For each row, the last value of each column before it; `before` is that of the first row."""
    if len(value) == 1:
        return before[None]
    rows = np.arange(len(value))[:, None]
    seen = np.maximum.accumulate(np.where(np.isnan(value), -1, rows), 0)
    at = np.vstack([np.full((1, value.shape[1]), -1), seen[:-1]])[: len(value)]
    found = np.take_along_axis(value, np.maximum(at, 0), 0) if len(value) else value
    return np.where(at >= 0, found, before)
