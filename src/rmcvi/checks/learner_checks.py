"""Conformance of a learner: it predicts y_t without looking, scores, learns, and survives.

state, info = learner.update(state, y),    info.prediction made before y was seen
"""

import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from rmcvi.checks.report import HINT, SKIPPED, Report, Sheet, call
from rmcvi.checks.tools import (
    ABSURD,
    changed_structure,
    close,
    different_leaf,
    keys,
    not_arrays,
    raw,
    shown,
    trees_close,
    wandering,
)
from rmcvi.contract import AbstractLearner
from rmcvi.learners import CheckpointError, load, save, scan

LENGTH = 12
PEEK, OUTLIER, INFINITE, GAP = 4, 7, 9, 5
"""Rows at which something happens; the first row is missing, too."""
STREAM = "updates over a stream"


def learner(learner: Any, *, ys: Any = None, seed: int = 0) -> Report:
    """Check a learner on `ys` (at least 12 rows), by default on an autoregression."""
    sheet = Sheet(f"learner {type(learner).__name__}")
    sheet.check("class", lambda: _class(learner, ys))
    if not sheet.usable("class"):
        return sheet.report()
    start: Any = sheet.compute("init", lambda: call("learner.init", learner.init, keys(seed)))
    sheet.check("state of arrays", lambda: _arrays(start), ["init"])
    sheet.check("same key, same start", lambda: _same(learner, start, seed), ["init"])
    run: Any = sheet.compute(
        STREAM, lambda: _Run(learner, start, ys, seed), ["init", "state of arrays"]
    )
    sheet.check("state of constant type", lambda: _constant(run), [STREAM])
    for name, check in (
        ("predictions are finite and ordered", _ordered),
        ("a prediction does not know y", _blind),
        ("log score", _scored),
        (f"y = {ABSURD:g} and infinities are survived", _survives),
    ):
        sheet.check(name, lambda c=check: _if_predicting(c, run), [STREAM])
    needs = [STREAM, "state of constant type"]
    for name, check in (
        ("forecast", _forecasts),
        ("present and recent", _looks_back),
        ("filter and smooth", _hidden),
    ):
        sheet.check(name, lambda c=check: c(run), needs)
    sheet.check("rmcvi.scan = single updates", lambda: _scan(run), needs)
    sheet.check("rmcvi.save and rmcvi.load", lambda: _saved(run), needs)
    return sheet.report()


def _class(learner: Any, ys: Any) -> str | None:
    if not isinstance(learner, AbstractLearner):
        return f"got {type(learner).__name__}, expected a subclass of rmcvi.AbstractLearner"
    for name, least in (("dim_obs", 1), ("dim_input", 0)):
        value = call(f"learner.{name}", lambda name=name: getattr(learner, name))
        if not isinstance(value, int) or value < least:
            return f"learner.{name}: got {value!r}, expected an integer of at least {least}"
    shape, dim = np.shape(ys), learner.dim_obs
    if ys is not None and (shape[1:] != (dim,) or shape[0] < LENGTH):
        return f"ys: got shape {shape}, expected {dim} columns and at least {LENGTH} rows"
    return None


def _arrays(state: PyTree) -> str | None:
    wrong = not_arrays(state)
    return wrong and f"the state of learner.init {wrong}"


def _same(learner: Any, start: PyTree, seed: int) -> str | None:
    path = different_leaf(learner.init(keys(seed)), start)
    return path and f"learner.init gave another state{path} for the same key"


class _Run:
    """One pass: the first row and row GAP are missing, the last coordinate is never seen."""

    def __init__(self, learner: Any, start: PyTree, ys: Any, seed: int):
        self.learner = learner
        self.ys = _rows(learner, ys, seed)
        self.states, self.infos = [start], []
        for y in self.ys:
            state, info = self.update(self.states[-1], y)
            self.states.append(state)
            self.infos.append(info)

    def update(self, state: PyTree, y: Any) -> tuple[PyTree, Any]:
        return call("learner.update", self.learner.update, state, y)

    @property
    def predictions(self) -> list[Any]:
        return [info.prediction for info in self.infos]


def _rows(learner: Any, ys: Any, seed: int) -> np.ndarray:
    ys = wandering(learner.dim_obs, LENGTH, seed) if ys is None else ys
    ys = np.array(ys, float)[:LENGTH]
    if ys.shape[1] > 1:
        ys[:, -1] = np.nan
        ys[2, 0] = np.nan
    ys[0], ys[GAP] = np.nan, np.nan
    ys[OUTLIER, 0] = ABSURD
    ys[INFINITE, 0] = np.inf
    ys[INFINITE + 1, 0] = -np.inf
    return ys


def _constant(run: _Run) -> str | None:
    for t, (before, after) in enumerate(zip(run.states[:-1], run.states[1:], strict=True)):
        how = changed_structure(before, after)
        if how is not None:
            return f"learner.step must return a state of the type it was given: {how} at step {t}"
    return None


def _if_predicting(check: Any, run: _Run) -> str | None:
    if any(not hasattr(info, "prediction") for info in run.infos):
        return f"the info of learner.step has no field `prediction`: {type(run.infos[0]).__name__}"
    if run.predictions[0] is None:
        return f"{SKIPPED}the learner makes no predictions"
    return check(run)


def _ordered(run: _Run) -> str | None:
    for t, p in enumerate(run.predictions[:OUTLIER]):
        for name in ("mean", "low", "high"):
            value = np.asarray(getattr(p, name))
            if value.shape != (run.learner.dim_obs,):
                expected = (run.learner.dim_obs,)
                return f"info.prediction.{name} has shape {value.shape}, expected {expected}"
            if not np.all(np.isfinite(value)):
                return (
                    f"info.prediction.{name} is {shown(value)} at step {t}, expected finite numbers"
                )
        low, high = np.asarray(p.low), np.asarray(p.high)
        if np.any(low > high):
            return f"at step {t} the interval runs from {shown(low)} down to {shown(high)}"
    return None


def _blind(run: _Run) -> str | None:
    """Mean and interval are the same whatever y_t turns out to be."""
    expected, y = run.predictions[PEEK], run.ys[PEEK]
    for other in (y + 3.0, np.full_like(y, np.nan), np.zeros_like(y)):
        _, info = run.update(run.states[PEEK], other)
        for name in ("mean", "low", "high"):
            got, usual = getattr(info.prediction, name), getattr(expected, name)
            if not close(got, usual):
                return (
                    f"info.prediction.{name} changes from {shown(usual)} to {shown(got)} when y "
                    f"changes from {shown(y)} to {shown(other)}: it must be made before y is seen"
                )
    return None


def _scored(run: _Run) -> str | None:
    for t, (p, y) in enumerate(zip(run.predictions[:OUTLIER], run.ys, strict=False)):
        seen, score = bool(np.any(~np.isnan(y))), float(p.log_score)
        if seen and not np.isfinite(score):
            return (
                f"info.prediction.log_score is {score} at step {t}, where y = {shown(y)} was seen"
            )
        if not seen and not np.isnan(score):
            return f"info.prediction.log_score is {score} at step {t}, where nothing was seen (NaN)"
    return None


def _survives(run: _Run) -> str | None:
    what = {t: f"y[0] = {ABSURD:g}" for t in range(OUTLIER + 1, INFINITE + 1)}
    for t in range(OUTLIER + 1, LENGTH):
        p = run.predictions[t]
        if not all(np.all(np.isfinite(np.asarray(v))) for v in (p.mean, p.low, p.high)):
            return f"after {what.get(t, 'y[0] = inf')}, the prediction at step {t} is not finite"
    if not np.isfinite(float(run.predictions[-1].log_score)):
        return "after an absurd value and infinities, the log score of a usual row is not finite"
    return None


def _forecasts(run: _Run) -> str | None:
    """Two rows ahead; a wider level gives a wider band."""
    if run.predictions[0] is None and run.learner.dim_state == 0:
        return f"{SKIPPED}the learner makes no predictions"
    state = run.states[OUTLIER]
    narrow, wide = (
        call("learner.forecast", lambda at=at: run.learner.forecast(state, 2, level=at))
        for at in (0.5, 0.9)
    )
    for name in ("mean", "low", "high"):
        value = np.asarray(getattr(wide, name))
        if value.shape != (2, run.learner.dim_obs) or not np.all(np.isfinite(value)):
            return f"learner.forecast gives {name} = {shown(value)}, expected two finite rows"
    if np.any(wide.high - wide.low <= narrow.high - narrow.low):
        return "the band of learner.forecast is no wider at level .9 than at .5"
    return None


def _looks_back(run: _Run) -> str | None:
    """A value that was seen is given back, by both."""
    t = OUTLIER
    learner, state, y = run.learner, run.states[t], run.ys[t - 1]
    now = call("learner.present", learner.present, state)
    lag = min(learner.reach, 1)
    past = call("learner.recent", learner.recent, state, lag)
    if past.mean.shape != (lag + 1, learner.dim_obs):
        return f"learner.recent gives {past.mean.shape[0]} rows, expected {lag + 1}"
    for name, row in (("present", now.mean), ("recent", past.mean[-1])):
        value, seen = np.asarray(row), ~np.isnan(y) & ~np.isnan(np.asarray(row))
        if not close(value[seen], y[seen]):
            return f"learner.{name} gives {shown(value)}, where y = {shown(y)} was seen"
    return None


def _hidden(run: _Run) -> str | None:
    learner, state = run.learner, run.states[OUTLIER]
    mean = call("learner.filter", learner.filter, state).mean
    past = call("learner.smooth", learner.smooth, state, 0).mean
    for name, shape in (("filter", mean.shape), ("smooth", past.shape[1:])):
        if shape != (learner.dim_state,):
            expected = f"{learner.dim_state} as learner.dim_state says"
            return f"learner.{name} gives a state of shape {shape}, expected {expected}"
    return None


def _scan(run: _Run) -> str | None:
    state, infos = call("rmcvi.scan", scan, run.learner, run.states[0], run.ys)
    path = different_leaf(state, run.states[-1])
    if path is not None:
        return f"rmcvi.scan ends in another state{path} than single updates over the same rows"
    single = jax.tree.map(lambda *v: np.stack([raw(w) for w in v]), *run.infos)
    path = different_leaf(infos, single)
    if path is None:
        return None
    if trees_close(infos, single):
        return f"{HINT}rmcvi.scan and single updates differ in the last bits of info{path}"
    return f"rmcvi.scan gives another info{path} than single updates over the same rows"


def _saved(run: _Run) -> str | None:
    """A round trip in mid-stream, to the bit; the next update as well."""
    state = run.states[PEEK]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.rmcvi"
        try:
            save(path, run.learner, state)
        except CheckpointError as error:
            return f"rmcvi.save refuses the learner: {str(error).splitlines()[0]}"
        again, _ = call("rmcvi.load", load, path, run.learner)
    where = different_leaf(again, state)
    if where is None:
        where = different_leaf(run.update(again, run.ys[PEEK])[0], run.states[PEEK + 1])
    return where and f"the state{where} changes when it is saved and loaded"
