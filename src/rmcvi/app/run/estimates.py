"""A row of `estimates.jsonl`, declared once.

The attributes of `Run` that are annotated by a `Field` are the schema of a line. From it derive the
writer (output.py), the reader (reading.py), `run.json`, which names the fields, and `verify`. A new
output column is one more line in `Run`, named as the attribute of `Estimate` that holds it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np

from rmcvi.app.run.speech import Refusal

INTEGER, TIME, TEXTS, VALUE, NUMBER = "integer", "time", "texts", "value", "number"
"""A count; a date or a number; sentences; a number as it came; a number of nine digits."""
_TYPES = {INTEGER: int, TIME: str | int | float, TEXTS: list}
_TYPES |= dict.fromkeys((VALUE, NUMBER), int | float)
_WORDS = {INTEGER: "a whole number", TIME: "a time", TEXTS: "a list of sentences"}
_WORDS |= dict.fromkeys((VALUE, NUMBER), "a number")


@dataclass(frozen=True)
class Field:
    """One field of a line."""

    name: str
    """In the file; `{column}` and `{state}` stand for each column and each hidden state."""
    kind: str = NUMBER
    nullable: bool = True
    since: int = 1
    """The format of `run.json` in which it came: runs of an older one do not have it."""
    attribute: str = ""
    """Of `Run`, and of what a learner returns for a row."""

    @property
    def per(self) -> str:
        """How often it occurs in a line: once per 'row', 'column' or 'state'."""
        return next((p for p in ("column", "state") if f"{{{p}}}" in self.name), "row")

    def to_json(self) -> dict[str, Any]:
        """As `run.json` names it."""
        return {"name": self.name, "kind": self.kind, "per": self.per, "nullable": self.nullable}

    def accepts(self, value: Any) -> bool:
        """Whether a line may hold this value."""
        if value is None:
            return self.nullable
        types = _TYPES[self.kind]
        return isinstance(value, types) and not isinstance(value, bool)

    @property
    def expected(self) -> str:
        """What a line may hold, in words."""
        return f"{_WORDS[self.kind]}{' or null' if self.nullable else ''}"


@dataclass(frozen=True)
class Run:
    """A run as arrays, (rows, columns), (rows, states) or (rows,); NaN where there is no number."""

    about: dict[str, Any]
    """The content of `run.json`."""
    columns: list[str]
    level: float
    zoned: bool
    """Whether the times said their zone; they are in UTC then."""
    state_names: list[str]
    parameters: dict[str, tuple[np.ndarray, np.ndarray]]
    """Name to rows and values."""
    row: Annotated[np.ndarray, Field("row", INTEGER, nullable=False)]
    time: Annotated[np.ndarray | None, Field("time", TIME)]
    """Seconds since 1970 (rows,), if every row has a time; they do not decrease."""
    log_score: Annotated[np.ndarray, Field("log_score")]
    elbo: Annotated[np.ndarray, Field("elbo")]
    ess: Annotated[np.ndarray, Field("ess")]
    alarms: Annotated[dict[str, list[int]], Field("alarms", TEXTS, nullable=False)]
    """Sentence to the indices of its rows."""
    value: Annotated[np.ndarray, Field("{column}", VALUE)]
    mean: Annotated[np.ndarray, Field("{column}.mean")]
    low: Annotated[np.ndarray, Field("{column}.low")]
    high: Annotated[np.ndarray, Field("{column}.high")]
    filled: Annotated[np.ndarray, Field("{column}.filled")]
    failure: Annotated[np.ndarray, Field("{column}.failure")]
    anomaly: Annotated[np.ndarray, Field("{column}.anomaly", since=2)]
    state_mean: Annotated[np.ndarray, Field("state.{state}.mean")]
    state_std: Annotated[np.ndarray, Field("state.{state}.std")]

    @property
    def rows(self) -> int:
        """How many rows were learned from."""
        return len(self.row)

    @property
    def units(self) -> dict[str, str]:
        """Units by column; empty if unknown, or if the column's name says it."""
        given = self.about.get("units") or {}
        units = {name: str(given.get(name) or "") for name in self.columns}
        return {
            n: "" if f"[{unit}]" in n or f"({unit})" in n else unit for n, unit in units.items()
        }

    @property
    def title(self) -> str:
        """The source without its folders; a stream of a fleet comes first."""
        source = str(self.about.get("source") or "")
        name = "standard input" if source == "-" else Path(source).name or "A run"
        return f"{self.about['stream']} · {name}" if "stream" in self.about else name


def _declared() -> Iterator[Field]:
    for attribute, hint in get_type_hints(Run, include_extras=True).items():
        for entry in getattr(hint, "__metadata__", ()):
            yield replace(entry, attribute=attribute)


FIELDS = tuple(_declared())
"""The schema of a line, in the order of the file."""
_STATE = re.compile(
    "|".join(
        re.escape(f.name).replace(re.escape("{state}"), "(.+)") for f in FIELDS if f.per == "state"
    )
)


FIRST_FIELDS = tuple(f for f in FIELDS if f.since == 1)
"""Those of format 1: a run of 0.1 has them, though its `run.json` does not say so."""


def fields_of(named: Sequence[dict[str, Any]], where: str) -> tuple[Field, ...]:
    """The fields that `run.json` names."""
    known = {f.name: f for f in FIELDS}
    names = [str(plain.get("name")) for plain in named]
    strange = [name for name in names if name not in known]
    if strange:
        what = f"got the field {strange[0]!r}, which this version of rmcvi does not know"
        raise Refusal(f"{where}: {what}; go on with the version that began the run")
    return tuple(known[name] for name in names)


def pairs(
    columns: Sequence[str], states: Iterable[object], schema: Sequence[Field] = FIELDS
) -> list[tuple[str, Field]]:
    """The names in a line, in order, each with its field."""
    row = [(f.name, f) for f in schema if f.per == "row"]
    of = {per: [f for f in schema if f.per == per] for per in ("column", "state")}
    row += [(f.name.replace("{column}", c), f) for c in columns for f in of["column"]]
    return row + [(f.name.replace("{state}", str(s)), f) for s in states for f in of["state"]]


def field_names(columns: Sequence[str], states: Iterable[object]) -> list[str]:
    """The names in a line, in order."""
    return [name for name, _ in pairs(columns, states)]


def state_names(names: Iterable[str], columns: Sequence[str]) -> list[str]:
    """The hidden states among the names in a line; a column may look like one."""
    taken = set(field_names(columns, ()))
    found = [_STATE.fullmatch(name) for name in names if name not in taken]
    return list(dict.fromkeys(next(filter(None, m.groups())) for m in found if m))
