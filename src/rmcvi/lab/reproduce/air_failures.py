"""Sensors that fail: what was lost is reconstructed, and how soon a failure is noticed.

One column is hit for 6, 24 or 72 hours at random places after the first weeks. Reconstruction sees
twelve more hours and knows which values are lost; detection sees the broken values and knows
nothing.
"""

from statistics import NormalDist
from typing import Any

import jax
import numpy as np

import rmcvi
from rmcvi.lab.reproduce.experiment import Arrays, Settings
from rmcvi.monitors import PeerMonitor, SensorMonitor

AFTER = 12
"""Hours after the failure that reconstruction may use."""
EVERY = 100
"""Rows between the states from which failures start."""
HISTORY = 1000
"""Rows before a failure that the monitors have seen."""
KINDS = ("freeze", "spike", "drift")
WAYS = ("seasonal", "lstm", "interpolation", "last value")


def failures(year: Any, seasonal: Any, lstm: Any, settings: Settings) -> dict[str, np.ndarray]:
    """Errors (length, placement, way), coverage, delays (length, placement, kind) in hours.

    `false_alarms` is the share of hours in which each column is suspected as it is.
    """
    states = [_states(seasonal, year.y, None), _states(lstm, year.z, year.u)]
    predictions = _predictions(seasonal, year.y)
    rng = np.random.default_rng(settings["seed"])
    lengths, count = settings["lengths"], settings["placements"]
    errors = np.full((len(lengths), count, len(WAYS)), np.nan)
    cover, delays = (
        np.full((len(lengths), count), np.nan),
        np.full((len(lengths), count, 3), np.nan),
    )
    for g, length in enumerate(lengths):
        for n in range(count):
            start, column = _place(rng, year.y, length)
            errors[g, n], cover[g, n] = _reconstruct(
                year, (seasonal, lstm), states, start, column, length
            )
            for k, kind in enumerate(KINDS):
                broken = _break(rng, year.y[:, column], start, length, kind)
                delays[g, n, k] = _delay(
                    seasonal, states[0], predictions, year.y, start, column, broken
                )
    score = _watch(year.y, predictions.p_value, predictions.low, predictions.high)
    return {
        "errors": errors,
        "coverage": cover,
        "delays": delays,
        "lengths": np.array(lengths),
        "false_alarms": (score > 0.5).mean(0),
    }


def summary(failed: Arrays) -> dict[str, Any]:
    """Errors by length and way (with standard errors), shares noticed by kind, false alarms."""
    errors, delays = np.asarray(failed["errors"]), np.asarray(failed["delays"])
    count = errors.shape[1]
    means, spread = errors.mean(1), errors.std(1, ddof=1) / count**0.5
    return {
        "reconstruction": {
            str(int(length)): {way: [means[g, w], spread[g, w]] for w, way in enumerate(WAYS)}
            for g, length in enumerate(np.asarray(failed["lengths"]))
        },
        "noticed": {kind: np.isfinite(delays[:, :, k]).mean(1) for k, kind in enumerate(KINDS)},
        "false_alarms": float(np.mean(np.asarray(failed["false_alarms"]))),
    }


def _collect(learner: Any, state: Any, info: Any) -> Any:
    return info.prediction


def _copy(state: Any) -> Any:
    """A state to be used up by `scan`."""
    return jax.tree.map(jax.numpy.copy, state)


def _states(learner: Any, rows: np.ndarray, inputs: np.ndarray | None) -> list[Any]:
    """The learner's state before rows 0, EVERY, 2 EVERY, ..."""
    state, kept = learner.init(jax.random.key(0)), []
    for i in range(0, len(rows) - EVERY + 1, EVERY):
        kept.append(_copy(state))
        u = None if inputs is None else inputs[i : i + EVERY]
        state, _ = rmcvi.scan(learner, state, rows[i : i + EVERY], u, collect=_collect)
    return kept


def _predictions(learner: Any, rows: np.ndarray) -> Any:
    state = learner.init(jax.random.key(0))
    _, predictions = rmcvi.scan(learner, state, rows, collect=_collect)
    return jax.tree.map(np.asarray, predictions)


def _place(rng: np.random.Generator, rows: np.ndarray, length: int) -> tuple[int, int]:
    """A stretch that is mostly observed, after the first weeks."""
    last = (len(rows) - length - AFTER) // EVERY - 1
    while True:
        start, column = EVERY * int(rng.integers(5, last)), int(rng.choice([0, 2, 3, 4]))
        if np.isnan(rows[start : start + length, column]).mean() < 0.3:
            return start, column


def _reconstruct(
    year: Any, learners: Any, states: Any, start: int, column: int, length: int
) -> tuple[np.ndarray, float]:
    """RMSE in standard units by way, and coverage of the 90 % band of `SeasonalLearner`."""
    seasonal, lstm = learners
    end = start + length + AFTER
    truth, unit = year.y[start : start + length, column], year.scale[column]
    rows, standard = year.y[start:end].copy(), year.z[start:end].copy()
    rows[:length, column] = standard[:length, column] = np.nan
    at = start // EVERY
    state, _ = rmcvi.scan(seasonal, _copy(states[0][at]), rows, collect=_collect)
    band = seasonal.recent(state, len(rows) - 1)
    mean, low, high = (np.asarray(v)[:length, column] for v in (band.mean, band.low, band.high))
    _, by_lstm = rmcvi.scan(
        lstm, _copy(states[1][at]), standard, year.u[start:end], collect=_collect
    )
    shift = np.nanmean(year.y[:, column] - unit * year.z[:, column])
    network = unit * np.asarray(by_lstm.mean)[:length, column] + shift
    whole = year.y[:, column].copy()
    whole[start : start + length] = np.nan
    known = np.flatnonzero(~np.isnan(whole))
    line = np.interp(np.arange(start, start + length), known, whole[known])
    last = np.full(length, whole[known[known < start][-1]])
    missed = [(guess - truth) / unit for guess in (mean, network, line, last)]
    seen = ~np.isnan(truth)
    inside = ((truth >= low) & (truth <= high))[seen].mean()
    return np.array([np.sqrt(np.nanmean(m**2)) for m in missed]), float(inside)


def _break(
    rng: np.random.Generator, column: np.ndarray, start: int, length: int, kind: str
) -> np.ndarray:
    """Values that the broken sensor tells."""
    true, scale = column[start : start + length], np.nanstd(column)
    if kind == "freeze":
        known = np.flatnonzero(~np.isnan(column[:start]))
        return np.full(length, column[known[-1]])
    if kind == "spike":
        return true + 10.0 * scale * rng.choice([-1.0, 1.0], length)
    return true + 4.0 * scale * np.arange(1, length + 1) / length


def _delay(
    learner: Any,
    states: list[Any],
    predictions: Any,
    rows: np.ndarray,
    start: int,
    column: int,
    broken: np.ndarray,
) -> float:
    """Hours until the sensor's failure score passes one half; infinite if it never does."""
    now = rows[start : start + len(broken)].copy()
    now[:, column] = broken
    _, after = rmcvi.scan(learner, _copy(states[start // EVERY]), now, collect=_collect)
    before = slice(max(0, start - HISTORY), start)
    shown = [(rows[before], now)]
    shown += [
        (getattr(predictions, n)[before], getattr(after, n)) for n in ("p_value", "low", "high")
    ]
    empty = np.full((HISTORY - start + before.start, rows.shape[1]), np.nan)
    ys, p, low, high = (np.concatenate([empty, old, np.asarray(new)]) for old, new in shown)
    score = _watch(ys, p, low, high)[HISTORY:, column]
    alarm = np.flatnonzero(score > 0.5)
    return float(alarm[0] + 1) if alarm.size else np.inf


@jax.jit
def _scan_monitor(ys: Any, p: Any, deviation: Any) -> Any:
    sensors, peers = SensorMonitor(), PeerMonitor()

    def step(states, row):
        first, score, _ = sensors.step(states[0], *row)
        second, apart, _ = peers.step(states[1], row[0])
        return (first, second), jax.numpy.maximum(score, apart)

    start = sensors.init(ys.shape[1]), peers.init(ys.shape[1])
    return jax.lax.scan(step, start, (ys, p, deviation))[1]


def _watch(ys: np.ndarray, p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Failure scores of rows with their p-values and 90 % intervals."""
    deviation = 0.5 * (high - low) / NormalDist().inv_cdf(0.95)
    return np.asarray(_scan_monitor(*(jax.numpy.asarray(v, float) for v in (ys, p, deviation))))
