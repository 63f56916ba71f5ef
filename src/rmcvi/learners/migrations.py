"""How the file of an older release is read by this one, after classes or fields were renamed.

A file names the schema of its classes. A migration takes the outline of one object as that schema
had it, {"class": name, field: ...}, and returns the outline of the next schema. Arrays keep their
order: a migration may rename a class or a field, and add or drop fields without arrays. Whoever
changes a class that learners or their states are made of raises `SCHEMA` by one and registers here.
"""

from collections.abc import Callable
from typing import Any

Outline = dict[str, Any]
Migration = Callable[[Outline], Outline]
SCHEMA = 5
"""That of this release; files of 0.1, which do not say, have 1."""


def renamed(name: str) -> Migration:
    """The class is called `name` now."""
    return lambda outline: outline | {"class": name}


def field_renamed(old: str, new: str) -> Migration:
    """The field `old` is called `new` now."""
    return lambda outline: {new if k == old else k: v for k, v in outline.items()}


def field_added(name: str, value: Any = None) -> Migration:
    """A field without arrays is new; old files are as if it had been `value`."""
    return lambda outline: outline | {name: value}


def field_dropped(name: str) -> Migration:
    """A field without arrays is no more."""
    return lambda outline: {k: v for k, v in outline.items() if k != name}


def _averaging(outline: Outline) -> Outline:
    """`average_from` has become one of several settings."""
    start = outline["average_from"]
    fields = {"class": "Averaging", "start": start, "power": 0.0, "answers": False}
    kept = field_dropped("average_from")(outline)
    return kept | {"averaging": None if start is None else fields}


MIGRATIONS: dict[tuple[str, int], Migration] = {
    ("LearnerState", 1): field_added("past"),
    ("Watch", 1): field_dropped("level"),
    ("Ascent", 2): _averaging,
    ("LearnerState", 2): field_added("em"),
    ("Best", 2): field_added("em"),
    ("", 2): lambda outline: outline | ({"em": None} if "model_ascent" in outline else {}),
    ("DenseWeights", 2): field_added("share"),
    ("LearnerState", 3): field_added("trial"),
    ("", 3): lambda outline: outline | ({"trial": None} if "model_ascent" in outline else {}),
    ("NaturalRMCVI", 4): field_added("components", 1),
}
"""By the name of the class ("": the learner itself) and the schema that the file has."""


def migrate(outline: Any, schema: int) -> Any:
    """What a release of `schema` wrote of a learner or a state, as this release would write it."""
    for version in range(schema, SCHEMA):
        outline = _next(outline, version)
    return outline


def _next(outline: Any, version: int) -> Any:
    if isinstance(outline, list):
        return [_next(v, version) for v in outline]
    if not isinstance(outline, dict):
        return outline
    inner = {k: _next(v, version) for k, v in outline.items()}
    name = inner.get("class", "")
    migration = MIGRATIONS.get((name, version)) if isinstance(name, str) else None
    return inner if migration is None else migration(inner)
