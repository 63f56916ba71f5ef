"""What the page's script draws: packed arrays, and the curves and names as JSON."""

import base64
import zlib
from statistics import NormalDist
from typing import Any

import numpy as np

from rmcvi.app.report.forecast import Forecast
from rmcvi.app.report.scores import FEWEST, Episode, Scores, grid, moving_mean, running_rmse, window
from rmcvi.app.run.estimates import Run

BLOCK = 256
TOP = 65534


STATES = 12
PARAMETERS = 24
"""Charts of hidden states and of parameters at most."""
POINTS = 2000
"""Points of a parameter's curve at most: more than a screen has pixels."""


class Packer:
    """Arrays as text: two bytes a number, deflated, in base 64; `index` says where each lies.

    Each block of 256 numbers has its own least value and step, so that an outlier costs precision
    in its block alone: `x = low + step * code`, with 65535 for NaN. What is kept are the
    differences of codes, high bytes first and low bytes after them, which deflate better.
    """

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.index: dict[str, list[Any]] = {}
        self.size = 0

    def add(self, name: str, values: np.ndarray) -> None:
        """An array of numbers (n,), kept to 1/131068 of the range of their block."""
        self._keep(name, "number", len(values), encode(np.asarray(values, float)))

    def share(self, name: str, values: np.ndarray) -> None:
        """An array of numbers in [0, 1], kept to 1/508."""
        known = np.isfinite(values)
        codes = np.where(known, np.round(np.clip(np.where(known, values, 0), 0, 1) * 254), 255)
        self._keep(name, "share", len(values), codes.astype(np.uint8).tobytes())

    def exact(self, name: str, values: np.ndarray) -> None:
        """An array of doubles as they are."""
        self._keep(name, "double", len(values), np.asarray(values, "<f8").tobytes())

    def text(self) -> str:
        """Everything, as base 64."""
        return base64.b64encode(zlib.compress(b"".join(self.parts), 6)).decode("ascii")

    def _keep(self, name: str, kind: str, length: int, data: bytes) -> None:
        self.index[name] = [kind, self.size, length]
        self.parts.append(data)
        self.size += len(data)


def encode(values: np.ndarray) -> bytes:
    """Least values and steps of the blocks, then high and low bytes of the codes' differences."""
    blocks = -(-len(values) // BLOCK)
    table = np.full(blocks * BLOCK, np.nan)
    table[: len(values)] = values
    table = table.reshape(blocks, BLOCK)
    known = np.isfinite(table)
    low = np.where(known, table, np.inf).min(1, initial=np.inf)
    high = np.where(known, table, -np.inf).max(1, initial=-np.inf)
    empty = ~known.any(1)
    low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
    step = high / TOP - low / TOP
    away = np.where(known, table, low[:, None]) - low[:, None]
    codes = np.round(away / np.where(step > 0, step, 1.0)[:, None])
    codes = np.where(known, np.minimum(codes, TOP), TOP + 1).astype(np.int64).reshape(-1)
    change = np.diff(codes[: len(values)], prepend=0) % 65536
    parts = [low.astype("<f8"), step.astype("<f8")]
    parts += [(change >> 8).astype(np.uint8), (change & 255).astype(np.uint8)]
    return b"".join(part.tobytes() for part in parts)


def content(
    run: Run,
    scores: Scores,
    alarms: list[Episode],
    keep: np.ndarray,
    ahead: Forecast | None = None,
) -> tuple[dict[str, Any], str]:
    """The JSON, and the packed arrays of the rows `keep` and of those ahead."""
    units = list(run.units.values())
    meta = {
        "rows": len(keep),
        "level": run.level,
        "width": NormalDist().inv_cdf(0.5 + run.level / 2),
        "zoned": run.zoned,
        "columns": [{"name": n, "unit": u} for n, u in zip(run.columns, units, strict=True)],
        "states": run.state_names[:STATES],
        "parameters": _parameters(run),
        "curves": _curves(run, scores, units),
        "window": window(run.rows),
        "episodes": [[int(run.row[e.first]), int(run.row[e.last])] for e in alarms],
    }
    packer = _packed(run, keep, ahead)
    return meta | {"index": packer.index}, packer.text()


def _packed(run: Run, keep: np.ndarray, ahead: Forecast | None) -> Packer:
    """All that has a number per row; rows ahead have those of the forecast alone."""
    packer = Packer()
    none = np.full(0 if ahead is None else len(ahead.row), np.nan)

    def past(values: np.ndarray) -> np.ndarray:
        return np.append(values[keep], none)

    for i in range(len(run.columns)):
        for part in ("value", "mean", "low", "high", "filled"):
            packer.add(f"{part}.{i}", past(getattr(run, part)[:, i]))
        for part in ("failure", "anomaly"):
            shares = getattr(run, part)[:, i]
            if np.isfinite(shares).any():
                packer.share(f"{part}.{i}", past(shares))
        if ahead is not None:
            for part in ("mean", "low", "high"):
                values = np.append(np.full(len(keep), np.nan), getattr(ahead, part)[:, i])
                packer.add(f"next_{part}.{i}", values)
    for i in range(min(len(run.state_names), STATES)):
        packer.add(f"state.{i}", past(run.state_mean[:, i]))
        packer.add(f"spread.{i}", past(run.state_std[:, i]))
    for name in ("elbo", "ess"):
        if np.isfinite(getattr(run, name)).any():
            packer.add(name, past(getattr(run, name)))
    packer.exact("row", np.append(run.row[keep], [] if ahead is None else ahead.row))
    if run.time is not None:
        later = None if ahead is None else ahead.time
        packer.exact("time", np.append(run.time[keep], [] if later is None else later))
    return packer


def _curves(run: Run, scores: Scores, units: list[str]) -> dict[str, Any]:
    """Running RMSE and moving coverage, of all columns and of each; the moving log score."""
    at = grid(run.rows)
    width = window(run.rows)
    chosen: list[int | None] = [None] if len(run.columns) > 1 else []
    chosen += range(len(run.columns))
    lines = []
    for column in chosen:
        learner, rival = scores.squares(column)
        inside = scores.inside if column is None else scores.inside[:, column]
        lines.append(
            {
                "name": "all columns" if column is None else run.columns[column],
                "learner": plain(running_rmse(learner, at)),
                "persistence": plain(running_rmse(rival, at)),
                "coverage": plain(moving_mean(inside, width, at, FEWEST)),
                "unit": "standard deviations" if column is None else units[column],
            }
        )
    return {
        "at": plain(run.row[at]),
        "lines": lines,
        "log_score": plain(moving_mean(run.log_score, width, at, 1)),
    }


def _parameters(run: Run) -> list[dict[str, Any]]:
    lines = []
    for name, (rows, values) in list(run.parameters.items())[:PARAMETERS]:
        few = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), POINTS)).astype(int))
        lines.append({"name": name, "at": plain(rows[few]), "value": plain(values[few])})
    return lines


def plain(values: np.ndarray) -> list[float | None]:
    """Numbers to six digits for JSON, None where there is none."""
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in values.tolist()]
