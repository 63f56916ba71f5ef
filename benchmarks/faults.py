"""The faults that 0.1 fell to, put to the real command line again.

    python benchmarks/faults.py columns [ROWS]     seven plain streams, eight faults, one healthy
    python benchmarks/faults.py shifts             level shifts of 3 to 1 000 deviations
    python benchmarks/faults.py live               the same for `Live` with its default RMCVI
    python benchmarks/faults.py forecasts FILE     horizons 48 and 96 of FILE, such as nyc_taxi.csv

Errors are one-step root mean squares; "worst" is the largest ratio to the last value's over any
1 000 rows after the first thousand. Nothing is hidden where we lose. Each takes a few minutes on a
core of its own; what it is at goes to standard error.
"""

import copy
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import rmcvi

ROWS, BLOCK, DAY = 12_000, 1_000, 24
LEVEL = 3_000
"""The row at which a level shifts."""
SHIFTS = (3.0, 5.0, 10.0, 30.0, 1000.0)
"""By how many deviations of the noise."""


def command(*words: object) -> str:
    """What `rmcvi` prints; an exit status other than 0 is said."""
    program = str(Path(sys.executable).parent / "rmcvi")
    print(f"rmcvi {words[0]} ..", file=sys.stderr, flush=True)
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"status {done.returncode}: {done.stderr.strip()[-300:]}", file=sys.stderr)
    return done.stdout


def write(path: Path, y: np.ndarray) -> None:
    """An hourly CSV file; NaN is an empty cell."""
    times = np.datetime64("2000-01-01T00:00") + np.arange(len(y)) * np.timedelta64(1, "h")
    names = ",".join(f"y{i + 1}" for i in range(y.shape[1]))
    lines = [
        ",".join([str(time), *("" if np.isnan(v) else repr(float(v)) for v in row)])
        for time, row in zip(times, y, strict=True)
    ]
    path.write_text("\n".join([f"time,{names}", *lines]) + "\n")


def learn(y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and ends of the intervals of one pass with the defaults."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "stream.csv", Path(folder) / "run"
        write(source, y)
        command("learn", source, "--out", out, "--quiet", "--no-report")
        rows = [json.loads(line) for line in (out / "estimates.jsonl").read_text().splitlines()]
    names = [f"y{i + 1}" for i in range(y.shape[1])]
    mean, low, high = (
        np.array([[row[name + part] for name in names] for row in rows], float)
        for part in (".mean", ".low", ".high")
    )
    return mean, low, high


def last_value(y: np.ndarray) -> np.ndarray:
    """The last value that was not missing."""
    place = np.maximum.accumulate(np.where(np.isnan(y), 0, np.arange(len(y))[:, None]), 0)
    return np.concatenate([np.full((1, y.shape[1]), np.nan), np.take_along_axis(y, place, 0)[:-1]])


def root(squares: np.ndarray) -> float:
    """Root of the mean of what is there."""
    there = squares[np.isfinite(squares)]
    return float(np.sqrt(there.mean())) if there.size else float("nan")


def season(rng: np.random.Generator, rows: int) -> np.ndarray:
    """A day's rhythm, deviation of the noise 1."""
    return 20.0 + 3.0 * np.sin(2.0 * np.pi * np.arange(rows) / DAY) + rng.standard_normal(rows)


KINDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "season": season,
    "random walk": lambda rng, rows: np.cumsum(rng.standard_normal(rows)),
    "white noise": lambda rng, rows: rng.standard_normal(rows),
    "ramp 0, 1, 2, ..": lambda rng, rows: np.arange(rows) + 0.0,
    "noise-free sine": lambda rng, rows: np.sin(2.0 * np.pi * np.arange(rows) / 50.0),
    "zero-inflated": lambda rng, rows: np.where(
        rng.random(rows) < 0.7, 0.0, rng.exponential(2.0, rows)
    ),
    "quantised walk": lambda rng, rows: np.round(np.cumsum(0.3 * rng.standard_normal(rows))),
}


FAULTS: dict[str, tuple[float, float, Callable[[np.ndarray], np.ndarray]]] = {
    "level + 1e6, gone again": (0.3, 0.5, lambda y: y + 1e6),
    "level + 1e3, to stay": (0.35, 1.0, lambda y: y + 1e3),
    "60 rows of 1e6": (1_400, 1_460, lambda y: np.full_like(y, 1e6)),
    "stuck for 5/6 of the rows": (0.08, 0.914, lambda y: np.full_like(y, y[0])),
    "dead for 5/6 of the rows": (0.1, 0.934, lambda y: np.full_like(y, np.nan)),
    "1e10 at row 7": (7, 8, lambda y: np.full_like(y, 1e10)),
    "65535 at row 12": (12, 13, lambda y: np.full_like(y, 65535.0)),
    "1e25 at row 17": (17, 18, lambda y: np.full_like(y, 1e25)),
}
"""First row and row after the last, as shares of all if at most 1; what happens between them."""


def place(where: float, rows: int) -> int:
    """A row, or a share of the rows."""
    return int(where * rows) if where <= 1.0 else int(where)


def recovery(error: np.ndarray, window: int = 10) -> int:
    """Rows until the error over the next `window` is below 2, twice the noise."""
    for t in range(len(error) - window):
        if root(error[t : t + window] ** 2) <= 2.0:
            return t
    return len(error)


def kinds(y: np.ndarray, mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Print how plain streams fared."""
    print("| stream | lost | error / last value's | worst | coverage |\n|---|---|---|---|---|")
    ours, theirs = (mean - y) ** 2, (last_value(y) - y) ** 2
    blocks = [slice(b, b + BLOCK) for b in range(BLOCK, len(y) - BLOCK + 1, BLOCK)]
    for i, name in enumerate(KINDS):
        worst = max(root(ours[b, i]) / max(root(theirs[b, i]), 1e-300) for b in blocks)
        inside = np.mean(((y >= low) & (y <= high))[:, i])
        lost = int(np.isnan(mean[DAY:, i]).sum())
        ratio = root(ours[BLOCK:, i]) / root(theirs[BLOCK:, i])
        print(f"| {name} | {lost} | {ratio:.3f} | {worst:.3f} | {inside:.3f} |")


def faults(y: np.ndarray, mean: np.ndarray) -> None:
    """Print how faulty columns fared, and the healthy one after them."""
    print(
        "\n| fault | lost | rows to recover: when it comes, when it goes "
        "| error, last twelfth of the rows (the noise: 1) |\n|---|---|---|---|"
    )
    error = mean - y
    lost = (np.isnan(mean) & ~np.isnan(y))[DAY:].sum(0)
    late = [root(column[-(len(y) // 12) :] ** 2) for column in error.T]
    for i, (name, (begin, end, _)) in enumerate(FAULTS.items()):
        turns = (place(where, len(y)) for where in (begin, end))
        times = [recovery(error[t:, i]) if t < len(y) else "-" for t in turns]
        print(f"| {name} | {lost[i]} | {times[0]}, {times[1]} | {late[i]:.3f} |")
    every = root(error[BLOCK:, -1] ** 2)
    print(f"| none | {lost[-1]} | - | {late[-1]:.3f} ({every:.3f} over all rows) |")


def columns(rows: int = ROWS) -> None:
    """All plain streams and all faults, each a column of one file; the last column is healthy."""
    rng = np.random.default_rng(1)
    plain = [make(rng, rows) for make in KINDS.values()]
    bad = [season(rng, rows) for _ in range(len(FAULTS) + 1)]
    for y, (begin, end, change) in zip(bad, FAULTS.values(), strict=False):
        part = slice(place(begin, rows), place(end, rows))
        y[part] = change(y[part])
    y = np.stack([*plain, *bad], 1)
    told = learn(y)
    kinds(y[:, : len(plain)], *(part[:, : len(plain)] for part in told))
    faults(y[:, len(plain) :], told[0][:, len(plain) :])


def followed(y: np.ndarray, told: list[np.ndarray], by: float) -> list[float]:
    """Rows until half-way, until 9 of 10 values are in the band; errors over the last value's."""
    mean, low, high = (part[LEVEL:] for part in told)
    after = y[LEVEL:]
    error = np.abs(after - mean)
    calm = np.array([np.median(error[t : t + 5]) for t in range(300)]) < max(0.5 * by, 1.5)
    inside = np.convolve((after >= low) & (after <= high), np.ones(10), "valid")[:300] >= 9
    last = np.diff(y[LEVEL - 1 :])
    ratios = [root(error[:n] ** 2) / root(last[:n] ** 2) for n in (10, 20, 100, 300)]
    return [*(float(np.argmax(v)) if v.any() else 300.0 for v in (calm, inside)), *ratios]


HEADER = (
    "| shift, deviations of the noise | rows to half-way | rows until 9 of 10 are in the band "
    "| error / last value's over 10 | 20 | 100 | 300 rows |\n|---|---|---|---|---|---|---|"
)


def shifted(by: float, seed: int, rows: int = LEVEL + 400) -> np.ndarray:
    """A seasonal stream whose level shifts."""
    y = season(np.random.default_rng(seed), rows)
    y[LEVEL:] += by
    return y


def table_of_shifts(run: Callable[[np.ndarray], list[np.ndarray]]) -> None:
    """The worst of three streams for rows, the mean for errors."""
    print(HEADER)
    for by in SHIFTS:
        streams = [shifted(by, seed) for seed in (3, 4, 5)]
        found = np.array([followed(y, run(y), by) for y in streams])
        rows = " | ".join(f"{v:.0f}" for v in found[:, :2].max(0))
        errors = " | ".join(f"{v:.2f}" for v in found[:, 2:].mean(0))
        print(f"| {by:g} | {rows} | {errors} |", flush=True)


def shifts() -> None:
    """Level shifts that stay, by the command line."""
    table_of_shifts(lambda y: [part[:, 0] for part in learn(y[:, None])])


def live() -> None:
    """The same shifts for `Live` with its default RMCVI; what is before them is learned once."""
    known: dict[bytes, tuple[rmcvi.Live, list]] = {}

    def run(y: np.ndarray) -> list[np.ndarray]:
        before = y[:LEVEL].tobytes()
        if before not in known:
            print(f"{LEVEL} rows without a shift ..", file=sys.stderr, flush=True)
            learner = rmcvi.Live(1)
            known[before] = learner, [learner.learn_one(row[None]) for row in y[:LEVEL]]
        learner, rows = copy.deepcopy(known[before][0]), list(known[before][1])
        rows += [learner.learn_one(row[None]) for row in y[LEVEL:]]
        return [np.array([getattr(r, part)[0] for r in rows]) for part in ("mean", "low", "high")]

    table_of_shifts(run)


def iterated(y: np.ndarray, origin: int, horizon: int, period: int) -> np.ndarray:
    """Least squares on lags 1-3 and a season's, iterated."""
    lags = [1, 2, 3, period]
    past = [np.concatenate([[1.0], y[t - np.array(lags)]]) for t in range(period, origin)]
    weights = np.linalg.lstsq(np.array(past), y[period:origin], rcond=None)[0]
    path = list(y[:origin])
    for _ in range(horizon):
        path.append(float(weights @ np.array([1.0, *(path[-lag] for lag in lags)])))
    return np.array(path[origin:])


def ahead(run: Path, horizon: int) -> np.ndarray:
    """Mean and ends of the interval of the next rows, (horizon, 3)."""
    lines = command("forecast", run, "--horizon", horizon, "--format", "csv").splitlines()
    places = [lines[0].split(",").index(f"value.{part}") for part in ("mean", "low", "high")]
    return np.array([[float(line.split(",")[i]) for i in places] for line in lines[1:]])


def forecasts(path: Path, period: int = 48, origins: int = 6) -> None:
    """Forecasts from many places of a file with one column `value`, errors in its deviations."""
    y = np.array([float(line.split(",")[1]) for line in path.read_text().splitlines()[1:]])
    longest, told = 2 * period, []
    ends = np.linspace(0.3 * len(y), len(y) - longest, origins).astype(int)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command("learn", path, "--out", run, "--quiet", "--no-report", "--limit", ends[0])
        for end in ends:
            command("resume", run, "--quiet", "--no-report", "--limit", end)
            rivals = [
                np.concatenate([y[end - period : end]] * 2),
                y[end - 7 * period :][:longest],
                iterated(y, end, longest, period),
                np.full(longest, y[end - 1]),
            ]
            told.append([*ahead(run, longest).T, *rivals, y[end : end + longest]])
    mean, low, high, day, week, squares, last, truth = np.moveaxis(np.array(told), 1, 0)
    print("| rows ahead | rmcvi | day before | week before | least squares | last value ", end="")
    print("| coverage | mean in its band | largest end |\n|---|---|---|---|---|---|---|---|---|")
    for n in (period, longest):
        rows = (slice(None), slice(n))
        errors = [
            root((v - truth)[rows] ** 2) / np.std(y) for v in (mean, day, week, squares, last)
        ]
        inside = np.mean(((low <= truth) & (truth <= high))[rows])
        sane = np.mean(((low <= mean) & (mean <= high))[rows])
        cells = " | ".join(f"{e:.2f}" for e in errors)
        print(f"| {n} | {cells} | {inside:.2f} | {sane:.2f} | {high[rows].max():.0f} |")


TABLES = {"columns": columns, "shifts": shifts, "live": live}

if __name__ == "__main__":
    if sys.argv[1] == "forecasts":
        forecasts(Path(sys.argv[2]))
    else:
        TABLES[sys.argv[1]](*map(int, sys.argv[2:]))
