"""`report.html` of a fleet: streams by trouble, the first of them with pages of their own."""

import re
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from markupsafe import Markup

from rmcvi.app import report
from rmcvi.app.fleet.opened import OpenedFleet
from rmcvi.app.fleet.output import lines_of
from rmcvi.app.fleet.storage import Storage
from rmcvi.app.run.directory import ESTIMATES, REPORT, RUN
from rmcvi.app.run.speech import printable
from rmcvi.core.files import replace, to_json

STREAMS = "streams"
LISTED = 1000
"""Streams in the table."""
HEAD = {
    "key": "stream",
    "rows": "rows",
    "columns": "columns",
    "failure": "failing",
    "drifts": "drifts",
    "episodes": "alarms",
    "error_of_last_value": "error",
    "coverage": "in band",
    "recoveries": "recoveries",
}
MEANING = (
    "columns: those that have had a value. failing: evidence, from 0 to 1, that a sensor"
    " fails now. drifts: how often the stream has changed. alarms: one that goes on for many rows"
    " is one."
    " error: of our predictions, over that of the last value; below 1 is better. in band:"
    " share of the values that were in their predicted interval. recoveries: how often the"
    " learner went back to an earlier state. Streams with a link have a page of their own:"
    " 'rmcvi fleet report --pages N' makes more of them, --key NAME that of one."
)
NAMED = 10
"""Failing streams that the first sentence names."""


def write(opened: OpenedFleet, pages: int, keys: Sequence[str] = ()) -> Path:
    """The page of a fleet; returns its path.

    Args:
        opened: the fleet.
        pages: so many of the most troubled streams have pages of their own.
        keys: further ones that have.
    """
    for key in keys:
        opened.stream(key)  # or a sentence that it is not there
    ranked = opened.ranked()
    own = dict.fromkeys([*keys, *(row["key"] for row in ranked[:pages])])
    places = _own_pages(opened, list(own))
    shown = [row for i, row in enumerate(ranked) if i < LISTED or row["key"] in own]
    rows = [
        (_linked(row["key"], places), *("" if row[k] is None else row[k] for k in list(HEAD)[1:]))
        for row in shown
    ]
    failing = [row["key"] for row in ranked if row["failure"] > 0.5]
    first = f"{len(failing)} of {len(ranked)} streams fail now"
    first += f": {', '.join(map(printable, failing[:NAMED]))}" if failing else ""
    first += ", .." if len(failing) > NAMED else "."
    plain = "\n\n".join(map(printable, [first, *opened.sentences()]))
    table = report.Table(tuple(HEAD.values()), rows, "The most troubled first")
    title = f"{Path(opened.fleet.plan.source).name}: {len(ranked)} streams"
    sections = [report.Section("The fleet", [plain]), report.Section("Streams", [MEANING, table])]
    return report.page(title, sections, opened.directory / REPORT)


def put_pages(place: str, directory: Path) -> str:
    """The pages of a copy as objects of the storage that it is of; the address of the first."""
    storage = Storage(place)
    for path in [directory / REPORT, *(directory / STREAMS).rglob("*.html")]:
        storage.put(path, path.relative_to(directory).as_posix())
    return f"{storage.url}/{REPORT}"


def _linked(key: str, places: dict[str, str]) -> str:
    if key not in places:
        return printable(key)
    return Markup('<a href="{}">{}</a>').format(places[key], printable(key))


def _own_pages(opened: OpenedFleet, keys: Sequence[str]) -> dict[str, str]:
    """The pages of some streams, each as that of a run; their paths by key."""
    lines: dict[str, list[dict[str, Any]]] = {key: [] for key in keys}
    for line in lines_of(opened.directory, opened.fleet.form, keys) if keys else ():
        lines[line.pop("key")].append(line)
    places = {}
    for key, rows in lines.items():
        folder = opened.directory / STREAMS / _slug(key)
        folder.mkdir(parents=True, exist_ok=True)
        rows.sort(key=lambda line: line["row"])
        text = "".join(to_json(line) + "\n" for line in rows)
        replace(folder / ESTIMATES, text.encode())
        plan = opened.stream(key).plan.to_json() | {"stream": printable(key)}
        replace(folder / RUN, to_json(plan, indent=1).encode())
        places[key] = str(report.write(folder).relative_to(opened.directory))
    return places


def _slug(key: str) -> str:
    """A name for a folder that no other key has."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", key)[:40].strip(".")
    return f"{plain}-{blake2b(key.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}"
