"""A learner for people who do not want to see JAX, in the manner of river.

    live = Live(["co", "nox"])
    for row in stream:                     # dicts or arrays, NaN or absent = not observed
        estimate = live.learn_one(row)     # predicted first, then learned
    live.forecast(24)

Values go in and come out in their own units. Each row is standardised by what came before it.
"""

import copy
import dataclasses
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import jax
import numpy as np
from jaxtyping import PyTree

from rmcvi.contract import AbstractLearner
from rmcvi.core.checks import check_instance, check_int
from rmcvi.learners.checkpoint import load, peek, save
from rmcvi.learners.default import default_learner
from rmcvi.learners.episodes import Episodes
from rmcvi.learners.estimate import Estimate, LiveForecast
from rmcvi.learners.one_row import Program, Row, Watch
from rmcvi.learners.parameters import parameters
from rmcvi.learners.units import Scaling, Standardiser
from rmcvi.learners.values import Values, names, step_length, vector
from rmcvi.monitors.health import Alarm

LONGEST = 64
"""The longest window that the remedy for a short one may reach."""


class Live:
    """Holds a learner, its state and a standardiser; every call moves it on.

    Threads may share one: calls wait for one another. It can be copied (`copy.deepcopy`), and
    written to a file (`save`), but not pickled, and it does not live on in a forked process.
    """

    def __init__(
        self,
        columns: Sequence[str] | int,
        *,
        inputs: Sequence[str] | int = (),
        learner: AbstractLearner | None = None,
        standardiser: Standardiser | bool | None = None,
        seed: int = 0,
        remedy: bool = True,
    ):
        """Start with nothing learned.

        Args:
            columns: names (or the number) of the observed columns.
            inputs: names (or the number) of the columns that are known beforehand.
            learner: any learner (default: `default_learner`).
            standardiser: how units are learned (True: robustly; what a failing column says is
                doubted, and a new level is followed; False: the learner takes the columns as
                they are; default: True unless the learner's `units` are "raw").
            seed: of all random numbers.
            remedy: lengthen a window that is too short (the next row then compiles anew).
        """
        self.columns = names("columns", columns, "y")
        self.inputs = names("inputs", inputs, "u")
        if not self.columns:
            raise ValueError("columns: got none, expected at least one")
        dims = len(self.columns), len(self.inputs)
        self.learner = default_learner(*dims) if learner is None else learner
        check_instance("learner", self.learner, AbstractLearner)
        if self.learner.streams or (self.learner.dim_obs, self.learner.dim_input) != dims:
            got = f"{self.learner.dim_obs} columns and {self.learner.dim_input} inputs"
            got += f" of {self.learner.streams[0]} streams" if self.learner.streams else ""
            raise ValueError(f"learner: got one for {got}, expected {dims[0]} and {dims[1]}")
        if standardiser is None:
            standardiser = self.learner.units == "standard"
        self.standardiser = Standardiser() if isinstance(standardiser, bool) else standardiser
        self.scaling = self.standardiser.init(dims[0])
        self._raw = standardiser is False
        if self._raw:
            nothing, one = np.zeros(dims[0]), np.ones(dims[0])
            self.scaling = dataclasses.replace(self.scaling, mean=nothing, scale=one, frozen=True)
        self.remedy = remedy
        self._as_dict = False
        self._last = np.full(dims[0], np.nan)
        self._episodes = Episodes(self.columns)
        self._lock, self._process = threading.RLock(), os.getpid()
        state = self.learner.init(jax.random.key(check_int("seed", seed, 0)))
        self._program = Program(self.learner, state, Watch.fresh(dims[0]))

    @property
    def state(self) -> PyTree:
        """The learner's state, yours to keep."""
        with self._alone():
            return jax.tree.map(jax.numpy.copy, self._program.state)

    @state.setter
    def state(self, state: PyTree) -> None:
        with self._alone():
            self._program = Program(self.learner, state, self._program.watch)

    @property
    def recoveries(self) -> int:
        """Rows on which the learner went back to a sound state, or was replaced."""
        with self._alone():
            return int(self._program.watch.soundness.recoveries)

    def _alone(self) -> threading.RLock:
        """For `with`: the state is given up and replaced at each row, by one thread at a time."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "Live: got a call in a forked process, where its compiled program would hang; "
                "start processes with multiprocessing's 'spawn', and use save and load"
            )
        return self._lock

    def learn_one(self, y: Values, u: Values | None = None, dt: float | None = None) -> Estimate:
        """Predict the row, score the prediction, then learn from the row."""
        row = vector("y", y, self.columns, np.nan)
        known = vector("u", u, self.inputs, None)
        length = step_length(dt)
        with self._alone():
            self._as_dict = isinstance(y, Mapping)
            return self._learn(np.where(np.isfinite(row), row, np.nan), known, length)

    def _learn(self, row: np.ndarray, known: np.ndarray, dt: float) -> Estimate:
        scaling, z, last = self.scaling, row, self._last
        if not self._raw:
            self.scaling, z = self.standardiser.step(scaling, row)
        values = [z, scaling.transform(last), row - last, scaling.scale]
        results = self._program.step(values, known, dt)
        self._last = np.where(np.isnan(row), last, row)
        flags = Alarm(results.alarms)
        if Alarm.LOST in flags:
            self._start_afresh(results.recoveries)
        elif self.remedy and Alarm.WINDOW_SHORT in flags:
            self._lengthen()
        return self._estimate(results, scaling, (row, z, last), flags)

    def _start_afresh(self, recoveries: int) -> None:
        """A learner that cannot be saved forgets everything but how often it was saved."""
        state = self.learner.init(jax.random.key(recoveries))
        watch, kept = Watch.fresh(len(self.columns)), self._program.watch.soundness
        soundness = dataclasses.replace(kept, strikes=watch.soundness.strikes)
        self._program = Program(
            self.learner, state, dataclasses.replace(watch, soundness=soundness)
        )

    def _lengthen(self) -> None:
        if 0 < 2 * self.learner.gradient_window <= LONGEST:
            self.learner, self.state = self.learner.lengthen(self._program.state)

    def _estimate(
        self, results: Row, scaling: Scaling, values: tuple[np.ndarray, ...], flags: Alarm
    ) -> Estimate:
        """In the units of the data; of a column that never had a value nothing was known."""
        row, z, last = values
        new = np.isnan(last)
        mean, low, high, filled = np.where(new, np.nan, scaling.inverse(np.stack(results[:4])))
        alarms = self._episodes.step(row, last, (mean, low, high), results.kind, flags)
        score = np.nan if new[~np.isnan(z)].all() else results.log_score
        return Estimate(
            *(self._shape(v) for v in (mean, low, high)),
            log_score=score if self._raw else score + scaling.log_jacobian(z),
            failure=self._shape(results.failure),
            alarms=alarms,
            filled=self._shape(np.where(np.isnan(row), filled, np.nan)),
            state_mean=results.state_mean,
            state_std=results.state_std,
            elbo=results.elbo,
            ess=results.ess,
            recoveries=results.recoveries,
        )

    def parameters(self, *, whole: bool = False) -> dict[str, Any]:
        """What has been learned: scalars by name, or with `whole` a model's arrays."""
        with self._alone():
            return parameters(self.learner, self._program.state, self.columns, whole=whole)

    def forecast(
        self,
        horizon: int,
        u: Sequence[Values] | None = None,
        dt: Sequence[float] | None = None,
        *,
        level: float = 0.9,
    ) -> LiveForecast:
        """The next rows with their central intervals; `u` holds their inputs, one per step."""
        check_int("horizon", horizon)
        known = None
        if self.inputs:
            rows = [] if u is None else list(u)
            if len(rows) != horizon:
                raise ValueError(f"u: got {len(rows)} rows, expected {horizon}, one per step")
            known = np.stack([vector("u", v, self.inputs, None) for v in rows])
        lengths = None if dt is None else np.array([step_length(v) for v in dt])
        with self._alone():
            state = self._program.state
            band = self.learner.forecast(state, horizon, known, lengths, level=level)
            parts = jax.device_get((band.mean, band.low, band.high))
        raw = (self.scaling.inverse_ahead(v) for v in parts)
        return LiveForecast(*([self._shape(row) for row in part] for part in raw))

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> None:
        """Write everything to one file, all of it or nothing; `extra` may hold any JSON."""
        with self._alone():
            leaves = jax.device_get(jax.tree.leaves(self._program.watch))
            kept = self._settings() | {
                "window": self.learner.gradient_window,
                "scaling": self.scaling.to_json(),
                "extra": extra or {},
                "monitors": [leaf.tolist() for leaf in leaves],
                "last": self._last.tolist(),
                "episodes": self._episodes.to_json(),
            }
            save(path, self.learner, self._program.state, {"live": kept})

    def _settings(self) -> dict[str, Any]:
        """What a file must agree with."""
        return {
            "columns": self.columns,
            "inputs": self.inputs,
            "standardiser": None if self._raw else dataclasses.asdict(self.standardiser),
        }

    def load(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Go on from a file that `save` wrote for a learner like this; returns its `extra`."""
        kept = peek(path).get("live")
        if kept is None:
            raise ValueError(f"{path}: got a checkpoint of a bare learner, expected one of Live")
        for name, value in self._settings().items():
            if kept[name] != value:
                raise ValueError(f"{path}: {_difference(name, kept[name], value)}")
        learner, window = self.learner, kept["window"] or 0
        if window > learner.gradient_window > 0:
            learner, _ = learner.lengthen(learner.init(jax.random.key(0)), window)
        state, _ = load(path, learner)
        try:
            watch = _restored(Watch.fresh(len(self.columns)), kept["monitors"])
            last = np.array(kept["last"], float).reshape(len(self.columns))
            episodes = Episodes(self.columns, kept["episodes"])
        except (KeyError, OverflowError, TypeError, ValueError):
            message = f"{path}: its monitors are not as Live of this version writes them"
            raise ValueError(f"{message}; learn the stream anew") from None
        with self._alone():
            self.learner, self._last, self._episodes = learner, last, episodes
            self._program = Program(learner, state, watch)
            self.scaling = Scaling.from_json(kept["scaling"])
        return kept["extra"]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Live":
        """Another one that goes on from here."""
        with self._alone():
            other = object.__new__(type(self))
            vars(other).update(vars(self))
            other._episodes = copy.deepcopy(self._episodes)
            other._program = Program(self.learner, self._program.state, self._program.watch)
            other._lock = threading.RLock()
        return other

    def __copy__(self) -> "Live":
        """As `copy.deepcopy`: two of them cannot share a state."""
        return copy.deepcopy(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Live: cannot be pickled; write it with save(path), read it with load(path)"
        )

    def _shape(self, values: Any) -> Any:
        array = np.asarray(values, float)
        if not self._as_dict:
            return array
        return dict(zip(self.columns, map(float, array), strict=True))


def _difference(name: str, file: Any, here: Any) -> str:
    """In what a file differs, in one sentence."""
    if name == "standardiser" and None in (file, here):
        units = ["standardised columns", "columns in their own units"]
        old, new = (units[v is None] for v in (file, here))
        return f"its learner was given {old}, this one is given {new} (see `standardiser`)"
    return f"{name}: file has {file}, this has {here}"


def _restored(like: Watch, kept: list[Any]) -> Watch:
    """The arrays of a file, if they have the shapes of `like`."""
    leaves, tree = jax.tree.flatten(like)
    arrays = []
    for value, leaf in zip(kept, leaves, strict=True):
        array = np.array(value, leaf.dtype)
        if array.shape != leaf.shape:
            raise ValueError(f"got shape {array.shape}, expected {leaf.shape}")
        arrays.append(jax.numpy.asarray(array))
    return jax.tree.unflatten(tree, arrays)
