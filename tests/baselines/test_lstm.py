"""The online LSTM against a plain loop over the stream with finite differences."""

from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rmcvi
from rmcvi.baselines import OnlineLSTM
from rmcvi.baselines.lstm import Network
from tests.baselines._streams import TailsOracle, broken

RATE, LENGTH, BPTT, LAGS = 0.05, 14, 3, (1, 3)


@cache
def learner(skip: bool) -> OnlineLSTM:
    """Plain gradient steps, so that a loop can do the same."""
    options = {"hidden": 3, "lags": LAGS, "bptt": BPTT, "clip": 1e6, "calibrate": skip}
    return OnlineLSTM(2, 1, optimiser=optax.sgd(RATE), skip=skip, steps=1 + skip, **options)


def stream() -> tuple[np.ndarray, np.ndarray]:
    ys, u = broken()
    return ys[20 : 20 + LENGTH], u[20 : 20 + LENGTH]


Weights = dict[str, np.ndarray]


def weights(network: Network) -> Weights:
    """The network's numbers by name."""
    parts = {
        "in": network.cell.weight_ih,
        "hidden": network.cell.weight_hh,
        "bias": network.cell.bias,
        "mean": network.mean.weight,
        "mean bias": network.mean.bias,
        "scale": network.scale.weight,
        "scale bias": network.scale.bias,
    }
    return {name: np.array(part) for name, part in parts.items()}


def say(w: Weights, carry: Any, x: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """One row through the textbook's cell (gates: in, forget, cell, out), then the read-outs."""
    h, c = carry
    i, f, g, o = np.split(w["in"] @ x + w["hidden"] @ h + w["bias"], 4)
    c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    h = np.tanh(c) / (1 + np.exp(-o))
    scale = 0.01 + np.log1p(np.exp(w["scale"] @ h + w["scale bias"]))
    return (h, c), w["mean"] @ h + w["mean bias"], scale


def loss(w: Weights, carry: Any, rows: Any) -> float:
    """Mean negative log score per observed value."""
    total, num = 0.0, 0
    for x, base, y in rows:
        carry, change, scale = say(w, carry, x)
        nats = 0.5 * ((y - base - change) / scale) ** 2 + np.log(scale) + 0.5 * np.log(2 * np.pi)
        total, num = total + np.nansum(nats), num + np.sum(~np.isnan(y))
    return total / max(num, 1)


def descend(w: Weights, carry: Any, rows: Any) -> Weights:
    """A gradient step, by central differences."""
    new = {name: part.copy() for name, part in w.items()}
    for name, part in w.items():
        for k in np.ndindex(part.shape):
            kept, ends = part[k], []
            for side in (1e-5, -1e-5):
                part[k] = kept + side
                ends.append(loss(w, carry, rows))
            part[k] = kept
            new[name][k] -= RATE * (ends[0] - ends[1]) / 2e-5
    return new


def plain_loop(skip: bool, w: Weights) -> tuple[np.ndarray, np.ndarray, Weights]:
    """Means, scales and final weights, row by row."""
    ys, u = stream()
    carry, last = (np.zeros(3), np.zeros(3)), np.zeros(2)
    rows = [(np.zeros(10), np.zeros(2), np.full(2, np.nan))] * BPTT
    values, marks = [np.zeros(2)] * 3, [np.zeros(2)] * 3
    means, scales = np.zeros(ys.shape), np.zeros(ys.shape)
    for t, y in enumerate(ys):
        carry, *_ = say(w, carry, rows[0][0])
        past = [part for lag in LAGS for part in (values[lag - 1], marks[lag - 1])]
        x = np.concatenate([*past, u[t], [1.0]])
        rows = [*rows[1:], (x, last if skip else np.zeros(2), y)]
        through = carry
        for x, base, _ in rows:
            through, change, scales[t] = say(w, through, x)
            means[t] = base + change
        if not np.isnan(y).all():
            for _ in range(1 + skip):
                w = descend(w, carry, rows)
        values = [np.where(np.isnan(y), means[t], y), *values[:2]]
        marks = [(~np.isnan(y)).astype(float), *marks[:2]]
        last = np.where(np.isnan(y), last, y)
    return means, scales, w


def log_scores(ys: np.ndarray, means: np.ndarray, scales: np.ndarray, calibrate: bool) -> list:
    """Gaussian, or with scale and tails corrected by past errors."""
    square, count, tails, told = np.ones(2), np.ones(2), TailsOracle(2), []
    for y, mean, scale in zip(ys, means, scales, strict=True):
        if not calibrate:
            square, tails = np.ones(2), TailsOracle(2)
        wide = scale * np.sqrt(square)
        told.append(tails.score((y - mean) / wide, wide))
        seen = ~np.isnan(y)
        count = count + seen
        square = np.where(seen, square + (((y - mean) / scale) ** 2 - square) / count, square)
    return told


@pytest.mark.parametrize("skip", [True, False])
def test_agrees_with_a_plain_loop(skip: bool) -> None:
    """Predictions and learned weights, through gaps and a row of nothing."""
    ys, u = stream()
    method = learner(skip)
    start = method.init(jax.random.key(3))
    state, infos = rmcvi.scan(method, start, ys, u)
    means, scales, learned = plain_loop(skip, weights(start.network))
    np.testing.assert_allclose(infos.prediction.mean, means, atol=1e-7)
    scores = log_scores(ys, means, scales, calibrate=skip)
    np.testing.assert_allclose(infos.prediction.log_score, scores, atol=1e-6)
    for name, part in weights(state.network).items():
        np.testing.assert_allclose(part, learned[name], atol=1e-7, err_msg=name)
    assert int(state.skipped) == 0
    assert np.all(np.isnan(infos.prediction.log_score) == np.isnan(ys).all(1))


def test_begins_as_persistence() -> None:
    """Before anything is learned the skip connection alone speaks, with scale 1."""
    method = learner(True)
    _, infos = rmcvi.scan(method, method.init(jax.random.key(3)), *stream())
    np.testing.assert_array_equal(infos.prediction.mean[0], 0.0)
    np.testing.assert_allclose(infos.prediction.high[0], 1.6448536269514722, rtol=1e-9)


def test_a_gradient_that_is_not_finite_is_skipped() -> None:
    """Weights stay, the count grows, and the code says so."""
    method = learner(True)
    start = method.init(jax.random.key(3))
    broke = eqx.tree_at(lambda s: s.network.mean.bias, start, jnp.full(2, 1e308))
    ys, u = stream()
    state, infos = rmcvi.scan(method, broke, ys, u)
    assert np.any(infos.result == rmcvi.Result.NON_FINITE)
    assert int(state.skipped) > 0
    np.testing.assert_array_equal(state.network.cell.weight_hh, start.network.cell.weight_hh)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="hidden: got 0"):
        OnlineLSTM(2, hidden=0)
    with pytest.raises(ValueError, match=r"clip: got 0\.0"):
        OnlineLSTM(2, clip=0.0)
