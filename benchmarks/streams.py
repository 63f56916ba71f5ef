"""`rmcvi learn` with its defaults on every CSV file of a directory, against simple rivals.

    python benchmarks/streams.py DIR [NAME ...]

One pass each; the last value, the value one season before, and least squares on lags 1-3 and a
season's are computed here, in plain NumPy, on the same rows. A row of the table says who won.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SKIPPED = 24
"""Rows before anybody is scored."""


def learn(path: Path, out: Path) -> tuple[dict, dict, np.ndarray, np.ndarray]:
    """Run and summary of a pass, values and predictions."""
    command = ["rmcvi", "learn", str(path), "--out", str(out), "--quiet", "--no-report", "--force"]
    subprocess.run([str(Path(sys.executable).parent / command[0]), *command[1:]], check=False)
    run, summary = (json.loads((out / f"{name}.json").read_text()) for name in ("run", "summary"))
    rows = [json.loads(line) for line in (out / "estimates.jsonl").read_text().splitlines()]
    names = run["columns"]
    values, means = (
        np.array([[row[name + part] for name in names] for row in rows], float)
        for part in ("", ".mean")
    )
    return run, summary, values, means


def last_value(y: np.ndarray) -> np.ndarray:
    """The last value that was not missing."""
    filled, last = np.full_like(y, np.nan), np.full(y.shape[1], np.nan)
    for t, row in enumerate(y):
        filled[t] = last
        last = np.where(np.isnan(row), last, row)
    return filled


def least_squares(y: np.ndarray, season: int | None, keep: float = 0.9995) -> np.ndarray:
    """Recursive least squares on own lags 1, 2, 3 and a season's, column by column."""
    z = np.where(np.isnan(y), last_value(y), y)
    predicted, lags = np.full_like(y, np.nan), [1, 2, 3, *([season] if season else [])]
    for i in range(y.shape[1]):
        w = np.zeros(len(lags) + 1)
        w[1], p = 1.0, np.eye(len(w)) * 10.0
        unit = np.nanstd(z[: SKIPPED * 4, i]) or 1.0
        for t in range(max(lags), len(z)):
            x = np.array([1.0, *(z[t - lag, i] / unit for lag in lags)])
            if not np.isfinite(x).all():
                continue
            predicted[t, i] = unit * (w @ x)
            if not np.isnan(y[t, i]):
                gain = p @ x / (keep + x @ p @ x)
                w = w + gain * (y[t, i] - predicted[t, i]) / unit
                p = (p - np.outer(gain, x @ p)) / keep
                p = 0.5 * (p + p.T)
    return predicted


def main(directory: Path, names: list[str]) -> None:
    """Print a row for each file."""
    print(
        "| stream | rows | SeasonalLearner | last value | season before | lags | coverage | lost |"
    )
    print("|---|---|---|---|---|---|---|---|")
    over = []
    for path in sorted(directory.glob("*.csv")):
        if names and path.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as out:
            run, summary, y, mean = learn(path, Path(out))
        season = (run["options"]["season"] or [None])[0]
        rivals = {
            "last": last_value(y),
            "season": np.concatenate([np.full_like(y[:season], np.nan), y[:-season]])
            if season
            else np.full_like(y, np.nan),
            "lags": least_squares(y, season),
        }
        unit = np.nanstd(y, 0) if y.shape[1] > 1 else np.ones(1)

        def rmse(predicted: np.ndarray, y: np.ndarray = y, unit: np.ndarray = unit) -> float:
            error = ((predicted - y) / np.where(unit > 0, unit, 1.0))[SKIPPED:]
            return float(np.sqrt(np.nanmean(error**2))) if np.isfinite(error).any() else np.nan

        ours, *others = (rmse(predicted) for predicted in (mean, *rivals.values()))
        best = np.nanmin(others)
        over.append(ours / best)
        cells = [
            f"**{v:.4g}**" if v <= np.nanmin([ours, best]) else f"{v:.4g}" for v in (ours, *others)
        ]
        lost = summary["lost_predictions"]
        coverage = summary["overall"]["coverage"]
        print(
            f"| {path.stem} | {len(y)} | {' | '.join(cells)} | {coverage:.3f} | {lost} |",
            flush=True,
        )
    print(f"\nGeometric mean of ours over the best rival: {np.exp(np.mean(np.log(over))):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
