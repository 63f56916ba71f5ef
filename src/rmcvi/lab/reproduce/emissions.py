"""Do particles earn their keep? Counts, shares and gaps, with and without them.

Of counts and shares `SeasonalLearner` is the special case without particles; the particles alone
and both together (`EmissionLearner`, `rmcvi learn --emission auto`) are compared with it
on the same rows. A log score is the logarithm of the probability of the value's cell, for all of
them.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

import rmcvi
from rmcvi.app import report
from rmcvi.contract import AbstractLearner
from rmcvi.lab.reproduce.experiment import (
    Arrays,
    Cell,
    Conclusion,
    Experiment,
    Settings,
    Workspace,
)
from rmcvi.learners.emissions import Emission, EmissionLearner
from rmcvi.learners.seasonal import SeasonalLearner

CLOSED, PARTICLES, BOTH = "closed form", "particles", "both"
PERIOD, BLOCK = 24, 100
"""Rows of the simulated season; rows of a block, whose means are taken as independent."""
Simulator = Callable[[np.random.Generator, int], np.ndarray]


def hidden(rng: np.random.Generator, rows: int, spread: float = 0.4) -> np.ndarray:
    """A season, and an AR(1) process of this standard deviation beside it."""
    noise = spread * np.sqrt(1.0 - 0.95**2) * rng.normal(size=rows)
    state = np.zeros(rows)
    for t in range(1, rows):
        state[t] = 0.95 * state[t - 1] + noise[t]
    return 0.8 * np.sin(2.0 * np.pi * np.arange(rows) / PERIOD) + state


def poisson(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Fewer than two a row."""
    return rng.poisson(np.exp(0.3 + hidden(rng, rows))).astype(float)


def rare(rng: np.random.Generator, rows: int) -> np.ndarray:
    """One in four rows."""
    return rng.poisson(np.exp(-1.5 + hidden(rng, rows))).astype(float)


def negative_binomial(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Some four a row, of size 3."""
    rate = np.exp(1.2 + hidden(rng, rows)) * rng.gamma(3.0, 1.0 / 3.0, rows)
    return rng.poisson(rate).astype(float)


def bursts(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Nothing in four of five rows."""
    return rng.poisson(np.exp(1.5 + hidden(rng, rows)) * (rng.random(rows) < 0.2)).astype(float)


def gaps(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Counts of which 30 % are missing, in blocks of ten rows."""
    y = poisson(rng, rows)
    lost = np.repeat(rng.random(-(-rows // 10)) < 0.3, 10)[:rows]
    return np.where(lost, np.nan, y)


def share(rng: np.random.Generator, rows: int) -> np.ndarray:
    """In hundredths, often near 1."""
    logit = 2.0 + 2.0 * hidden(rng, rows) + 0.3 * rng.logistic(size=rows)
    return np.round(100.0 / (1.0 + np.exp(-logit))) / 100.0


COUNTS, SHARE = Emission(0, "negative-binomial"), Emission(0, "bounded", 0.0, 1.0, 0.01)
SIMULATED: dict[str, tuple[Simulator, Emission]] = {
    "poisson": (poisson, COUNTS),
    "rare": (rare, COUNTS),
    "negative-binomial": (negative_binomial, COUNTS),
    "bursts": (bursts, COUNTS),
    "gaps": (gaps, COUNTS),
    "share": (share, SHARE),
}


def cells(settings: Settings) -> dict[str, Cell]:
    """One per kind of stream."""
    return {kind: _simulated(kind, settings) for kind in settings["simulated"]}


def _simulated(kind: str, settings: Settings) -> Cell:
    def work(workspace: Workspace) -> Arrays:
        simulator, emission = SIMULATED[kind]
        streams = [
            simulator(np.random.default_rng(seed), settings["rows"])[:, None]
            for seed in range(settings["seeds"])
        ]
        with jax.enable_x64(True):  # as the command computes
            base = SeasonalLearner(1, period=PERIOD, long_period=None)
            learner = EmissionLearner(base, (emission,))
            return _compared(learner, base, streams, settings, workspace)

    return work


def _compared(
    learner: EmissionLearner,
    base: SeasonalLearner,
    streams: list[np.ndarray],
    settings: Settings,
    workspace: Workspace,
) -> Arrays:
    """Blocks of rows: mean squares, log scores, coverage of each method; and what a row costs."""
    found: dict[str, list[np.ndarray]] = {}
    for y in streams:
        info = _run(learner, y)
        told = {CLOSED: info.closed[0], PARTICLES: info.particles[0]}
        parts = {n: (f.mean, f.low, f.high, f.log_mass) for n, f in told.items()}
        whole = info.prediction
        parts[BOTH] = (whole.mean, whole.low, whole.high, info.log_scores)
        _judge(found, parts, y, settings["first"])
    workspace.say(", ".join(f"{k} {np.mean(v):.4g}" for k, v in found.items()))
    times = {f"{n}.us": _cost(v, streams[0]) for n, v in ((BOTH, learner), (CLOSED, base))}
    return {name: np.concatenate(blocks) for name, blocks in found.items()} | times


def _run(learner: AbstractLearner, y: np.ndarray) -> Any:
    return rmcvi.scan(learner, learner.init(jax.random.key(0)), y)[1]


def _cost(learner: AbstractLearner, y: np.ndarray) -> float:
    """Microseconds of processor time a row, compiled before."""
    jax.block_until_ready(_run(learner, y))
    before = time.process_time()
    jax.block_until_ready(_run(learner, y))
    return 1e6 * (time.process_time() - before) / len(y)


def _judge(
    found: dict[str, list[np.ndarray]], parts: Mapping[str, Any], y: np.ndarray, first: int
) -> None:
    """Means over blocks of rows, after the first ones, of what there is."""
    for name, told in parts.items():
        mean, low, high, scores = (np.asarray(v)[first:] for v in told)
        rows = y[first:]
        inside = np.where(np.isnan(rows), np.nan, (rows >= low) & (rows <= high))
        scores = np.where(np.isnan(rows), np.nan, scores)
        for key, value in (
            ("square", (rows - mean) ** 2),
            ("log", scores),
            ("inside", inside),
            ("width", high - low),
        ):
            blocks = value[: len(value) // BLOCK * BLOCK].reshape(-1, BLOCK * value.shape[1])
            found.setdefault(f"{name}.{key}", []).append(np.nanmean(blocks, 1))


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """A table per measure; differences from the closed form with their standard errors."""
    numbers: dict[str, Any] = {}
    rows, remarks = [], []
    for kind, cell in found.items():
        numbers[kind] = {}
        square = np.asarray(cell[f"{CLOSED}.square"])
        for name in (CLOSED, PARTICLES, BOTH):
            own = {k: np.asarray(cell[f"{name}.{k}"]) for k in ("square", "log", "inside", "width")}
            gain = own["log"] - np.asarray(cell[f"{CLOSED}.log"])
            ratio = _ratio(own["square"], square)
            told = {
                "rmse": float(np.sqrt(own["square"].mean())),
                "rmse_ratio": list(ratio),
                "log_score": float(own["log"].mean()),
                "gain": [float(gain.mean()), _error(gain)],
                "coverage": [float(own["inside"].mean()), _error(own["inside"])],
                "width": float(own["width"].mean()),
            }
            if f"{name}.us" in cell:
                told["microseconds"] = float(np.mean(cell[f"{name}.us"]))
            numbers[kind][name] = told
            cost = f"{told['microseconds']:.0f}" if "microseconds" in told else ""
            rows.append(
                [
                    kind,
                    name,
                    told["rmse"],
                    "{:.4f} ({:.4f})".format(*ratio),
                    told["log_score"],
                    "{:+.4f} ({:.4f})".format(*told["gain"]),
                    "{:.3f}".format(told["coverage"][0]),
                    told["width"],
                    cost,
                ]
            )
        best = max(numbers[kind], key=lambda n: numbers[kind][n]["log_score"])
        remarks.append(f"{kind}: the best log score is that of {best}.")
    head = ["stream", "method", "RMSE", "over closed form", "log score", "gain", "90 % bands"]
    return Conclusion(
        numbers, [report.Table([*head, "width", "us a row"], rows, "emissions")], [], remarks
    )


def _ratio(own: np.ndarray, closed: np.ndarray) -> tuple[float, float]:
    """Of two RMSEs, with its standard error by the delta method."""
    ratio = own.mean() / closed.mean()
    error = _error(own - ratio * closed) / closed.mean()
    return float(np.sqrt(ratio)), float(0.5 * error / np.sqrt(ratio))


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


EXPERIMENT = Experiment("emissions", "Do particles earn their keep?", cells, conclude)
