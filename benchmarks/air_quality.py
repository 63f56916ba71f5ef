"""The UCI air-quality year, one pass from a cold start: who predicts the next hour best?

    python benchmarks/air_quality.py path/to/AirQualityUCI.csv

Errors over CO, NOx, NO2 and C6H6, log scores and coverage over all eight columns, in full-sample
standard units. Rivals get standardised columns and daily terms; `SeasonalLearner` gets raw columns.
"""

import sys
from typing import Any

import jax
import numpy as np

import rmcvi
from rmcvi.baselines import OnlineLSTM, Persistence, RecursiveLeastSquares
from rmcvi.conjugate import SeasonalLearner
from rmcvi.data import air_quality, calendar

CHOSEN = [0, 2, 3, 4]


def collect(learner: Any, state: Any, info: Any) -> Any:
    """The prediction alone."""
    return info.prediction


def main() -> None:
    """Print one row per method."""
    year = air_quality(sys.argv[1] if len(sys.argv) > 1 else None)
    scale = np.nanstd(year.y, 0)
    ys = (year.y - np.nanmean(year.y, 0)) / scale
    u = calendar(year.time, ["hour"], harmonics=3)
    methods = {
        "persistence": (Persistence(8), ys, None, np.ones(8)),
        "least squares": (
            RecursiveLeastSquares(8, 6, lags=(1, 2, 3, 23, 24, 25)),
            ys,
            u,
            np.ones(8),
        ),
        "online LSTM": (OnlineLSTM(8, 6), ys, u, np.ones(8)),
        "seasonal": (SeasonalLearner(8), year.y, None, scale),
    }
    print(f"{'method':<14} {'RMSE':>7} {'log score':>10} {'coverage':>9}")
    for name, (learner, rows, inputs, unit) in methods.items():
        state = learner.init(jax.random.key(0))
        _, told = rmcvi.scan(learner, state, rows, inputs, collect=collect)
        seen = ~np.isnan(rows)
        miss = (np.asarray(told.mean) - rows) / unit
        score = np.asarray(told.log_score) + np.where(seen, np.log(unit), 0.0).sum(1)
        inside = (rows >= np.asarray(told.low)) & (rows <= np.asarray(told.high))
        print(
            f"{name:<14} {np.sqrt(np.nanmean(miss[:, CHOSEN] ** 2)):7.4f} "
            f"{np.nansum(score[1:]) / seen[1:].sum():10.4f} {inside[1:][seen[1:]].mean():9.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
