"""A learner for people who do not want to see JAX, in the manner of river.

    live = Live(["co", "nox"])
    for row in stream:                     # dicts or arrays, NaN or absent = not observed
        told = live.learn_one(row)         # predicted first, then learned
    live.forecast(24)

Values go in and come out in their own units. Each row is standardised by what came before it.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from rmcvi._contract import AbstractLearner
from rmcvi._core.checks import check_instance, check_int, check_option
from rmcvi.data import Scaling, Standardiser
from rmcvi.estimator._checkpoint import load, peek, save
from rmcvi.estimator._default import default_learner
from rmcvi.estimator._estimator import OnlineEstimator
from rmcvi.estimator._health import Alarm
from rmcvi.estimator._one_row import Monitors, Program, Row
from rmcvi.estimator._parameters import parameters

LONGEST = 64
"""The longest window that the remedy for a short one may reach."""

Values = Mapping[str, float] | Sequence[float] | np.ndarray


def _none() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True)
class Told:
    """What one row brought, in the units of the data; dicts if the row was one."""

    mean: Any
    """Prediction, made before the row was seen (NaN while nothing is known of a column)."""
    low: Any
    high: Any
    log_score: float
    """Log-density of the row under the prediction, over what was observed."""
    failure: Any
    """Evidence in [0, 1] that a column's sensor has failed (above 1/2: it has)."""
    alarms: tuple[str, ...]
    """Sentences; empty if all is well."""
    filled: Any = None
    """Posterior of each value that was not observed, NaN where it was."""
    state_mean: np.ndarray = field(default_factory=_none)
    """Filtered mean of the hidden state, in the learner's units; empty if there is none."""
    state_std: np.ndarray = field(default_factory=_none)
    elbo: float = np.nan
    """Evidence lower bound per row so far, of the rows as the learner sees them."""
    ess: float = np.nan
    """Effective sample size."""


@dataclass(frozen=True)
class Ahead:
    """A forecast: one entry per step."""

    mean: list[Any]
    low: list[Any]
    high: list[Any]


class Live:
    """Holds a learner, its state and a standardiser; every call moves it on."""

    def __init__(
        self,
        columns: Sequence[str] | int,
        *,
        inputs: Sequence[str] | int = (),
        learner: AbstractLearner | None = None,
        standardiser: Standardiser | bool = True,
        seed: int = 0,
        remedy: bool = True,
    ):
        """Start with nothing learned.

        Args:
            columns: names (or the number) of the observed columns.
            inputs: names (or the number) of the columns that are known beforehand.
            learner: any learner for standardised columns (default: `default_learner`).
            standardiser: how units are learned (True: robustly, never forgetting; False: the
                learner takes the columns as they are).
            seed: of all random numbers.
            remedy: lengthen a window that is too short (the next row then compiles anew).
        """
        self.columns = _names("columns", columns, "y")
        self.inputs = _names("inputs", inputs, "u")
        if not self.columns:
            raise ValueError("columns: got none, expected at least one")
        dims = len(self.columns), len(self.inputs)
        self.learner = default_learner(*dims) if learner is None else learner
        check_instance("learner", self.learner, AbstractLearner)
        if (self.learner.dim_obs, self.learner.dim_input) != dims:
            got = f"{self.learner.dim_obs} columns and {self.learner.dim_input} inputs"
            raise ValueError(f"learner: got one for {got}, expected {dims[0]} and {dims[1]}")
        self.standardiser = Standardiser() if isinstance(standardiser, bool) else standardiser
        self.scaling = self.standardiser.init(dims[0])
        self._raw = standardiser is False
        if self._raw:
            nothing, one = np.zeros(dims[0]), np.ones(dims[0])
            self.scaling = dataclasses.replace(self.scaling, mean=nothing, scale=one, frozen=True)
        self.remedy = remedy
        self._as_dict = False
        self._origin = np.full(dims[0], np.nan)
        state = self.learner.init(jax.random.key(check_int("seed", seed, 0)))
        self._program = Program(self.learner, state, Monitors.fresh(dims[0]))

    @property
    def state(self) -> PyTree:
        """The learner's state, yours to keep."""
        return jax.tree.map(jax.numpy.copy, self._program.state)

    @state.setter
    def state(self, state: PyTree) -> None:
        self._program = Program(self.learner, state, self._program.monitors)

    def learn_one(self, y: Values, u: Values | None = None, dt: float | None = None) -> Told:
        """Predict the row, score the prediction, then learn from the row."""
        self._as_dict = isinstance(y, Mapping)
        row = _vector("y", y, self.columns, np.nan)
        known = _vector("u", u, self.inputs, None)
        scaling, z = self.scaling, row
        if not self._raw:
            self.scaling, z = self.standardiser.step(scaling, row)
        finite = np.where(np.isfinite(row), row, np.nan)
        new = np.isnan(self._origin)
        if new.any():
            self._origin = np.where(new, finite, self._origin)
        told = self._program.step(
            z, finite - self._origin, scaling.scale, known, 1.0 if dt is None else float(dt)
        )
        flags = Alarm(told.alarms)
        if self.remedy and Alarm.WINDOW_SHORT in flags:
            self._lengthen()
        return self._tell(told, scaling, row, flags, new)

    def _lengthen(self) -> None:
        learner = self.learner
        window = getattr(_recursion(learner), "window", LONGEST)
        if isinstance(learner, OnlineEstimator) and 2 * window <= LONGEST:
            self.learner, self.state = learner.lengthen(self._program.state)

    def _tell(
        self, told: Row, scaling: Scaling, row: np.ndarray, flags: Alarm, new: np.ndarray
    ) -> Told:
        """In the units of the data; of a column that is `new` nothing was known."""
        mean, low, high, filled = np.where(new, np.nan, scaling.inverse(np.stack(told[:4])))
        filled = np.where(np.isnan(row), filled, np.nan)
        score = np.nan if new[np.isfinite(row)].all() else told.log_score
        return Told(
            *(self._shape(v) for v in (mean, low, high)),
            log_score=score if self._raw else score + scaling.log_jacobian(row),
            failure=self._shape(told.failure),
            alarms=self._sentences(flags, told.failure),
            filled=self._shape(filled),
            state_mean=told.state_mean,
            state_std=told.state_std,
            elbo=told.elbo,
            ess=told.ess,
        )

    def _sentences(self, flags: Alarm, failure: np.ndarray) -> tuple[str, ...]:
        """One for each flag; that of the sensors says which."""
        if not flags:
            return ()
        sentences = (flags & ~Alarm.SENSOR).sentences
        for name in np.array(self.columns)[failure > 0.5]:
            sentences.append(f"{name}: behaves as no healthy sensor would under this model.")
        return tuple(sentences)

    def parameters(self, *, whole: bool = False) -> dict[str, Any]:
        """What has been learned: scalars by name, or with `whole` a model's arrays."""
        return parameters(self.learner, self._program.state, self.columns, whole=whole)

    def forecast(
        self,
        horizon: int,
        u: Sequence[Values] | None = None,
        dt: Sequence[float] | None = None,
        *,
        level: float = 0.9,
    ) -> Ahead:
        """The next rows with their central intervals; `u` holds their inputs, one per step."""
        ask = getattr(self.learner, "forecast", None)
        if ask is None:
            raise ValueError(f"forecast: {type(self.learner).__name__} looks one step ahead only")
        check_int("horizon", horizon)
        known = None
        if self.inputs:
            rows = [] if u is None else list(u)
            if len(rows) != horizon:
                raise ValueError(f"u: got {len(rows)} rows, expected {horizon}, one per step")
            known = np.stack([_vector("u", v, self.inputs, None) for v in rows])
        told = ask(
            self._program.state, horizon, known, None if dt is None else np.asarray(dt), level=level
        )
        raw = (self.scaling.inverse(np.asarray(v)) for v in (told.mean, told.low, told.high))
        return Ahead(*([self._shape(row) for row in part] for part in raw))

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> None:
        """Write everything to one file, all of it or nothing; `extra` may hold any JSON."""
        window = getattr(_recursion(self.learner), "window", None)
        kept = {"columns": self.columns, "inputs": self.inputs, "window": window}
        kept |= {"standardiser": dataclasses.asdict(self.standardiser)}
        kept |= {"scaling": self.scaling.to_json(), "extra": extra or {}}
        leaves = jax.device_get(jax.tree.leaves(self._program.monitors))
        kept |= {"monitors": [leaf.tolist() for leaf in leaves], "origin": self._origin.tolist()}
        save(path, self.learner, self._program.state, {"live": kept})

    def load(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Go on from a file that `save` wrote for a learner like this; returns its `extra`."""
        kept = peek(path).get("live")
        if kept is None:
            raise ValueError(f"{path}: got a checkpoint of a bare learner, expected one of Live")
        learner, window = self.learner, getattr(_recursion(self.learner), "window", None)
        if isinstance(learner, OnlineEstimator) and window and kept["window"] > window:
            learner, _ = learner.lengthen(learner.init(jax.random.key(0)), kept["window"])
        state, _ = load(path, learner)
        mine = {"columns": self.columns, "inputs": self.inputs}
        mine |= {"standardiser": dataclasses.asdict(self.standardiser)}
        for name, value in mine.items():
            if kept[name] != value:
                raise ValueError(f"{path}: {name}: file has {kept[name]}, this has {value}")
        shapes, tree = jax.tree.flatten(Monitors.fresh(len(self.columns)))
        if "monitors" in kept:
            rows = zip(kept["monitors"], shapes, strict=True)
            shapes = [jax.numpy.asarray(value, like.dtype) for value, like in rows]
            self._origin = np.array(kept["origin"], float)
        self.learner = learner
        self._program = Program(learner, state, jax.tree.unflatten(tree, shapes))
        self.scaling = Scaling.from_json(kept["scaling"])
        return kept["extra"]

    def _shape(self, values: Any) -> Any:
        array = np.asarray(values, float)
        if not self._as_dict:
            return array
        return dict(zip(self.columns, map(float, array), strict=True))


def _recursion(learner: AbstractLearner) -> Any:
    return getattr(learner, "recursion", None)


def _names(name: str, given: Sequence[str] | int, prefix: str) -> list[str]:
    if isinstance(given, str):
        raise ValueError(f"{name}: got {given!r}, expected a list of names or their number")
    if isinstance(given, int):
        return [f"{prefix}{i}" for i in range(check_int(name, given, 0))]
    names = [str(v) for v in given]
    if len(set(names)) != len(names):
        raise ValueError(f"{name}: got {names}, expected different names")
    return names


def _vector(name: str, values: Values | None, names: list[str], absent: float | None) -> Any:
    """A row as an array, in the order of `names`; what a dict does not hold is `absent`."""
    if values is None:
        if names and absent is None:
            raise ValueError(f"{name}: got nothing, expected {', '.join(names)}")
        return np.full(len(names), np.nan)
    row: Any = values
    if isinstance(values, Mapping):
        for key in values:
            check_option(name, key, names)
        lacking = [k for k in names if k not in values]
        if lacking and absent is None:
            raise ValueError(f"{name}: got no {', '.join(lacking)}, expected every input")
        row = [values.get(k, absent) for k in names]
    array = np.array([np.nan if v is None else v for v in row], float)
    if array.shape != (len(names),):
        raise ValueError(f"{name}: got {array.size} values, expected {len(names)}")
    return array
