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

from rmcvi.contract import AbstractLearner, ByHorizon
from rmcvi.core.checks import check_instance, check_int, check_real
from rmcvi.learners.checkpoint import difference, load, peek, save
from rmcvi.learners.chunk import CAPACITY, Program, Watch
from rmcvi.learners.default import default_learner
from rmcvi.learners.episodes import Episodes
from rmcvi.learners.estimate import Estimate, Estimates, LiveForecast, by_name
from rmcvi.learners.parameters import named
from rmcvi.learners.passage import Passage
from rmcvi.learners.units import Scaling, Standardiser, Units
from rmcvi.learners.values import Values, names, step_length, table, vector
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
        sensitivity: float = 1.0,
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
            sensitivity: false alarms per column in 10 000 rows that you would put up with. There is
                an alarm where `Estimate.anomaly` is above 1 / (1 + sensitivity).
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
        self._raw = standardiser is False
        unknown = self.standardiser.init(dims[0])
        self.scaling = unknown.as_it_comes() if self._raw else unknown
        self.remedy = remedy
        self._names: Sequence[str] = ()
        """Of the columns, if the last row was a dict, as answers are then, too."""
        self._last = np.full(dims[0], np.nan)
        self.sensitivity = check_real("sensitivity", sensitivity, 0.0)
        self._episodes = Episodes(self.columns, None, self.sensitivity)
        self._lock, self._process = threading.RLock(), os.getpid()
        state = self.learner.init(jax.random.key(check_int("seed", seed, 0)))
        self._program = Program(self.learner, state, Watch.fresh(dims[0]))

    @property
    def state(self) -> PyTree:
        """The learner's state, yours to keep."""
        with self._alone():
            return self._program.state

    @state.setter
    def state(self, state: PyTree) -> None:
        with self._alone():
            self._program = self._program.anew(self.learner, state, self._program.watch)

    @property
    def recoveries(self) -> int:
        """Rows on which the learner went back to a sound state, or was replaced."""
        with self._alone():
            return int(self._program.watch.soundness.recoveries)

    def _alone(self) -> threading.RLock:
        """For `with`: the state is given up and replaced at each row, by one thread at a time."""
        if os.getpid() != self._process:
            what = "got a call in a forked process, where its compiled program would hang"
            remedy = "start processes with multiprocessing's 'spawn', and use save and load"
            raise RuntimeError(f"Live: {what}; {remedy}")
        return self._lock

    def prepare(self) -> None:
        """Compile what learning needs, or find it in the cache; the first row does it otherwise."""
        self._program.prepare()

    def as_one_piece(self) -> "Live":
        """Itself, with rows compiled as one piece (`core.compiled`): for 100 000 and more.

        Only `SeasonalLearner` of up to eight columns can be; others are compiled as usual.
        """
        self._program = self._program.as_one_piece()
        return self

    def learn_one(self, y: Values, u: Values | None = None, dt: float | None = None) -> Estimate:
        """Predict the row, score the prediction, then learn from the row."""
        row = vector("y", y, self.columns, np.nan)[None]
        known = vector("u", u, self.inputs, None)[None]
        length = np.array([step_length(dt)])
        with self._alone():
            self._names = self.columns if isinstance(y, Mapping) else ()
            return self._learn(row, known, length)[0]

    def learn_many(
        self,
        rows: Sequence[Values] | np.ndarray,
        u: Sequence[Values] | np.ndarray | None = None,
        dt: Sequence[float] | np.ndarray | None = None,
    ) -> Estimates:
        """The numbers of `learn_one` for one row after the other, to the bit, and far quicker.

        Args:
            rows: dicts, lists or arrays; or one array, (rows, columns).
            u: their inputs.
            dt: their lengths.
        """
        values = table("y", rows, self.columns, np.nan)
        if not len(values):
            raise ValueError("rows: got none, expected at least one")
        known = table("u", [None] * len(values) if u is None else u, self.inputs, None)
        lengths = [None] * len(values) if dt is None else dt
        for name, given in (("u", known), ("dt", lengths)):
            if len(given) != len(values):
                raise ValueError(f"{name}: got {len(given)} rows, expected {len(values)}")
        steps = np.array([step_length(v) for v in lengths])
        with self._alone():
            self._names = self.columns if isinstance(rows[-1], Mapping) else ()
            return self._learn(values, known, steps)

    def _learn(self, rows: np.ndarray, known: np.ndarray, dt: np.ndarray) -> Estimates:
        """Chunk by chunk; a chunk ends early at a row after which the learner is another one."""
        rows, parts, done = np.where(np.isfinite(rows), rows, np.nan), [], 0
        while done < len(rows):
            these = slice(done, done + CAPACITY)
            parts.append(self._chunk(rows[these], known[these], dt[these]))
            done += len(parts[-1])
        return Estimates.joined(parts)

    def _chunk(self, rows: np.ndarray, known: np.ndarray, dt: np.ndarray) -> Estimates:
        # The units do not depend on the learner: they are known before the program begins.
        run = Units.raw if self._raw else self.standardiser.run
        passage = Passage.of(rows, self._last, run(self.scaling, rows))
        longer = self.remedy and 0 < 2 * self.learner.gradient_window <= LONGEST
        stop = Alarm.LOST | Alarm.WINDOW_SHORT if longer else Alarm.LOST
        results = self._program.advance(passage.values(known, dt), stop)
        passage = passage.first(len(results.alarms))
        self.scaling, self._last = passage.units.scalings[-1], passage.latest
        flags = Alarm(int(results.alarms[-1]))
        if Alarm.LOST in flags:
            self._start_afresh(int(results.recoveries[-1]))
        elif Alarm.WINDOW_SHORT in flags & stop:
            self.learner, self.state = self.learner.lengthen(self._program.state)
        return passage.estimates(results, self._episodes, self._names)

    def _start_afresh(self, recoveries: int) -> None:
        """A learner that cannot be saved forgets everything but how often it was saved."""
        state = self.learner.init(jax.random.key(recoveries))
        watch, kept = Watch.fresh(len(self.columns)), self._program.watch.soundness
        soundness = dataclasses.replace(kept, strikes=watch.soundness.strikes)
        watch = dataclasses.replace(watch, soundness=soundness)
        self._program = self._program.anew(self.learner, state, watch)

    def parameters(self, *, whole: bool = False) -> dict[str, Any]:
        """What has been learned: scalars by name, or with `whole` a model's arrays."""
        with self._alone():
            return named(self._program.parameters(), self.columns, whole=whole)

    def by_horizon(self) -> ByHorizon | None:
        """How forecasts have fared so far, if the learner keeps a record of them."""
        with self._alone():
            return jax.device_get(self.learner.by_horizon(self._program.state))

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
            band = self.learner.forecast(self._program.state, horizon, known, lengths, level=level)
            parts = jax.device_get((band.mean, band.low, band.high))
        raw = (self.scaling.inverse_ahead(v) for v in parts)
        return LiveForecast(*([by_name(row, self._names) for row in part] for part in raw))

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
        units = None if self._raw else dataclasses.asdict(self.standardiser)
        return {"columns": self.columns, "inputs": self.inputs, "standardiser": units}

    def load(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Go on from a file that `save` wrote for a learner like this; returns its `extra`."""
        kept = peek(path).get("live")
        if kept is None:
            raise ValueError(f"{path}: got a checkpoint of a bare learner, expected one of Live")
        for name, value in self._settings().items():
            if kept[name] != value:
                raise ValueError(f"{path}: {difference(name, kept[name], value)}")
        learner, window = self.learner, kept["window"] or 0
        if window > learner.gradient_window > 0:
            learner, _ = learner.lengthen(learner.init(jax.random.key(0)), window)
        state, _ = load(path, learner)
        try:
            watch = Watch.restored(len(self.columns), kept["monitors"])
            last = np.array(kept["last"], float).reshape(len(self.columns))
            episodes = Episodes(self.columns, kept["episodes"], self.sensitivity)
        except (KeyError, OverflowError, TypeError, ValueError):
            message = f"{path}: its monitors are not as Live of this version writes them"
            raise ValueError(f"{message}; learn the stream anew") from None
        with self._alone():
            self.learner, self._last, self._episodes = learner, last, episodes
            self._program = self._program.anew(learner, state, watch)
            self.scaling = Scaling.from_json(kept["scaling"])
        return kept["extra"]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Live":
        """Another one that goes on from here."""
        with self._alone():
            other = object.__new__(type(self))
            vars(other).update(vars(self))
            other._episodes = copy.deepcopy(self._episodes)
            other._program = self._program.copy()
            other._lock = threading.RLock()
        return other

    def __copy__(self) -> "Live":
        """As `copy.deepcopy`: two of them cannot share a state."""
        return copy.deepcopy(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Live: cannot be pickled; write it with save(path), read it with load(path)"
        )
