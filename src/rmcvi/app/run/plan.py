"""What a run is, as plain values: enough to begin it, and to go on with it elsewhere."""

import os
import re
import uuid
from collections import Counter
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from rmcvi.app.run import emission, zoo
from rmcvi.app.run.estimates import FIELDS, FIRST_FIELDS, Field, field_names, fields_of
from rmcvi.app.run.season import Season, choose_season
from rmcvi.app.run.settings import parse
from rmcvi.app.run.speech import Refusal
from rmcvi.app.sources import (
    Observation,
    Pace,
    Position,
    Schema,
    Stream,
    calendar,
    calendar_names,
    read,
)
from rmcvi.contract import AbstractLearner
from rmcvi.learners import Live
from rmcvi.version import __version__

HARMONICS = 2
SENSITIVITY = 1.0
"""False alarms per column in 10 000 rows, unless it is said: one in five weeks of five minutes."""
FORMAT = 2
"""Of `run.json`: 2 names the fields of a line of `estimates.jsonl`, 1 (of 0.1) does not."""
FORMATS = (1, FORMAT)
_UNITS = """
°C °F C F K % %RH V mV kV A mA W kW MW Wh kWh MWh J kJ Pa hPa kPa bar mbar psi m mm cm km s ms min
h m/s km/h mph l l/s l/min m3/h m³/h kg g mg t ppm ppb ug/m3 µg/m3 µg/m³ mg/m3 mg/m³ g/m3 g/m³ Hz
kHz rpm dB lux lx N Nm W/m2 W/m² EUR USD
"""
_KNOWN = frozenset(_UNITS.split())
"""Units that are taken for such in round brackets, too: 'flow (l/s)'."""
_SQUARE = re.compile(r"\[([^\[\]]{1,16})\]\s*$")
_ROUND = re.compile(r"\(([^()]{1,16})\)\s*$")


class _Model(BaseModel):
    model: str


class _Options(BaseModel):
    calendar: list[str]
    season: list[int | None] = [None]
    follow: bool
    on_bad_row: Literal["error", "skip", "missing"]
    limit: int | None
    checkpoint_every: int
    sensitivity: float = SENSITIVITY
    emission: list[dict[str, Any]] = []
    whole: bool = False
    model: _Model


class _Learner(BaseModel):
    name: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """The content of `run.json`."""

    source: str
    seed: int
    columns: list[str]
    inputs: list[str]
    level: float
    learner: dict[str, Any]
    assumed: list[str]
    units: dict[str, str | None]
    time_column: str | None
    step_seconds: float | None
    started: str
    options: dict[str, Any]
    """As given: calendar, follow, on_bad_row, limit, checkpoint_every, sensitivity, model; season,
    emission and whole (one piece of code for rows) as found."""
    schema: dict[str, Any]
    version: str = __version__
    format: int = FORMAT
    path: str = field(default_factory=os.getcwd)
    """The directory that `source` is relative to."""
    method: str = ""
    """What makes the numbers, in words; runs of 0.1 do not say."""
    id: str = ""
    """Drawn by chance; its checkpoints hold it, too (runs of 0.1 have none)."""
    fields: list[dict[str, Any]] = field(default_factory=lambda: [f.to_json() for f in FIELDS])
    """What a line of `estimates.jsonl` holds."""

    @classmethod
    def from_json(cls, plain: dict[str, Any], name: str) -> "Plan":
        """The inverse of `to_json`."""
        plain = {"fields": [f.to_json() for f in FIRST_FIELDS], "id": "", "method": "", **plain}
        lacking = sorted({f.name for f in fields(cls)} - plain.keys())
        if lacking:
            raise Refusal(f"{name}: got no {', '.join(lacking)}, expected what `learn` wrote")
        try:
            plan = TypeAdapter(cls).validate_python(plain)
            _Options.model_validate(plan.options)
            _Learner.model_validate(plan.learner)
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"]))
            raise Refusal(f"{name}: got a wrong {place}, expected what `learn` wrote") from None
        fields_of(plan.fields, name)
        return plan

    def to_json(self) -> dict[str, Any]:
        """Plain values, the version first."""
        plain = asdict(self)
        return {"format": plain.pop("format"), "version": plain.pop("version")} | plain

    @property
    def row_fields(self) -> tuple[Field, ...]:
        """What a line of `estimates.jsonl` holds."""
        return fields_of(self.fields, "run.json")

    @property
    def calendar(self) -> bool:
        """Whether times are dates."""
        return bool(self.schema["time"]) and self.schema["time_format"] != "number"

    def place(self) -> str:
        """The source as a path that holds anywhere."""
        return self.source if self.source == "-" else str(Path(self.path) / self.source)

    def stream(
        self, after: Position | None, pace: Pace | None = None, source: Any = None
    ) -> Stream:
        """The rows after a place; from the beginning if it is None."""
        return read(
            source or (self.place() if after else self.source),
            Schema.from_json(self.schema),
            on_bad_row=self.options["on_bad_row"],
            after=after,
            follow=self.options["follow"] and self.source != "-",
            pace=pace,
        )

    def trusted(self, model: str | None) -> "Plan":
        """The same if its model is none of its own code, or is `model`, said by the person again.

        What `run.json` says is never imported: it may come from a stranger.
        """
        name = self.options["model"]["model"]
        if model is not None and model != name:
            raise Refusal(f"--model: got {model!r}, but this run was learned by {name!r}")
        if ":" not in name:
            return self
        if model is None:
            raise Refusal(
                f"this run was learned by code of its own, which is run only if you say so again:"
                f" --model {name}"
            )
        return self.with_options(model={"model": name, "path": os.getcwd()})

    def with_options(self, **options: Any) -> "Plan":
        """The same with other options."""
        return replace(self, options=self.options | options)

    def built(self) -> AbstractLearner:
        """The learner, without a state."""
        sizes = len(self.columns), len(self.inputs)
        season = Season(*self.options.get("season", [None]))
        laws = emission.emissions_of(self.options.get("emission", []), self.columns)
        return zoo.build(self.options["model"], *sizes, self.level, season, laws)[0]

    def live(self) -> Live:
        """A learner that knows nothing yet."""
        sensitivity, learner = self.options.get("sensitivity", SENSITIVITY), self.built()
        about = {"inputs": self.inputs, "seed": self.seed, "sensitivity": sensitivity}
        try:
            live = Live(self.columns, learner=learner, **about)
        except ValueError as error:
            raise Refusal(f"--model {self.learner['name']}: {error}") from None
        return live.as_one_piece() if self.options.get("whole") else live

    def known(self, observation: Observation) -> np.ndarray:
        """The inputs of a row, the calendar's among them."""
        return self.inputs_at(observation.u, observation.time)

    def inputs_at(self, u: np.ndarray, time: float | None) -> np.ndarray:
        """Inputs at a time."""
        cycles = self.options["calendar"]
        return np.concatenate([u, calendar(time, cycles, HARMONICS)]) if cycles else u

    def inputs_at_each(self, u: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The same for many rows; NaN is no time."""
        if not self.options["calendar"]:
            return u
        known = (None if time != time else time for time in times.tolist())
        return np.array([self.inputs_at(*pair) for pair in zip(u, known, strict=True)])


def make_plan(
    source: str, stream: Stream, model: str, level: float, seed: int, started: str, **options: Any
) -> Plan:
    """A plan for a stream whose first rows have been looked at."""
    schema = stream.schema
    cycles = options["calendar"]
    if cycles and (not schema.time or schema.time_format == "number"):
        raise Refusal(f"--calendar: got {', '.join(cycles)}, but {source} has no calendar time")
    columns = _output_names(schema.columns)
    try:
        calendar(None, cycles, HARMONICS)
        inputs = [*schema.inputs, *calendar_names(cycles, HARMONICS)]
    except ValueError as error:
        raise Refusal(f"--calendar: {error}") from None
    plain = parse(model)
    season = _season(stream, plain["model"], options["season"])
    units = {out: unit_of(name) for out, name in zip(columns, schema.columns, strict=True)}
    found = _emission(stream, plain["model"], units, options.get("emission", ["gaussian"]))
    laws = emission.emissions_of(found, columns)
    learner, settings = zoo.build(plain, len(columns), len(inputs), level, season, laws)
    assumed = [*stream.describe(), *([season.sentence] if season.sentence else [])]
    assumed.extend(emission.sentences(found))
    if learner.units == "standard":
        assumed.append("Columns are standardised online.")
    name = plain["model"]
    assumed.append(f"Model: {name} ({type(learner).__name__}); intervals of {100 * level:g} %.")
    calendar_time = bool(schema.time) and schema.time_format != "number"
    return Plan(
        source=source,
        seed=seed,
        columns=columns,
        inputs=inputs,
        level=level,
        learner={"name": name, "settings": settings},
        assumed=assumed,
        units=units,
        time_column=" ".join(schema.time) or None,
        step_seconds=schema.step if calendar_time else None,
        started=started,
        options={
            **options,
            "model": plain,
            "season": [season.period, season.long_period],
            "emission": found,
        },
        schema=schema.to_json(),
        method=learner.method,
        id=uuid.uuid4().hex,
    )


def _season(stream: Stream, model: str, said: list[str]) -> Season:
    """The season of the model that has one."""
    if model == "seasonal":
        return choose_season(stream, said)
    if said:
        raise Refusal(f"--season: got {', '.join(said)}, which --model {model} does not use")
    return Season(None)


def _emission(
    stream: Stream, model: str, units: dict[str, str | None], said: list[str]
) -> list[dict[str, Any]]:
    """Laws of the columns, for the model that has some."""
    if model == "seasonal":
        percent = [unit == "%" for unit in units.values()]
        return emission.choose_emissions(stream, list(units), percent, said)
    if said not in ([], ["gaussian"]):
        raise Refusal(f"--emission: got {', '.join(said)}, which --model {model} does not use")
    return []


def anchored(source: Position, plan: Plan) -> Position:
    """A place whose file is named by a path that holds anywhere."""
    if plan.source == "-":
        return source
    return replace(source, name=str(Path(plan.path) / source.name))


def _output_names(columns: tuple[str, ...]) -> list[str]:
    """Names that do not clash with those of the output."""
    taken = field_names((), ())
    names = [f"{c}_" if c in taken else c for c in columns]
    twice = [n for n, times in Counter(field_names(names, ())).items() if times > 1]
    if twice:
        raise Refusal(f"columns: got {twice[0]!r} twice in the output, expected other names")
    return names


def unit_of(name: str) -> str | None:
    """What stands in square brackets, or in round ones if it is a unit that is known."""
    if match := _SQUARE.search(name):
        return match[1].strip()
    match = _ROUND.search(name)
    return match[1].strip() if match and match[1].strip() in _KNOWN else None
