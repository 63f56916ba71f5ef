"""Fewer rows for a page that would be too large: of each few rows the most surprising one."""

import numpy as np

from rmcvi.app.report.scores import Scores


def thin(scores: Scores, every: int) -> np.ndarray:
    """Indices of the rows that are kept: the largest |z| of each `every`, the last of the rest."""
    rows = len(scores.z)
    if every <= 1:
        return np.arange(rows)
    away = np.abs(np.where(np.isfinite(scores.z), scores.z, 0.0)).max(1, initial=0.0)
    parts = rows // every
    best = away[: parts * every].reshape(parts, every).argmax(1) + np.arange(parts) * every
    tail = [rows - 1] if rows > parts * every else []
    return np.concatenate([best, np.array(tail, best.dtype)])
