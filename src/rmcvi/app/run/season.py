"""The seasons of a stream, in rows: said by the user, by the calendar, or by the first rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rmcvi.app.run.refusal import Refusal
from rmcvi.app.sources import Observation, Schema, Stream, find_seasons

DAY, WEEK = 86400.0, 604800.0
HEAD = 2000
"""Rows that are looked at for a season: less than a second's reading."""
MOST = 20_000
"""Rows of the longest season: each has a profile in the state."""


@dataclass(frozen=True)
class Season:
    """Rows in a season and in a longer one, None if there is no such rhythm, and why."""

    period: int | None
    long_period: int | None = None
    sentence: str = ""


def choose_season(stream: Stream, said: Sequence[str]) -> Season:
    """What `--season` says, else the calendar, else the first rows."""
    if said:
        return given_season(said)
    return calendar_season(stream.schema) or found_season(stream)


def given_season(said: Sequence[str]) -> Season:
    """'none', or one or two numbers of rows."""
    if list(said) == ["none"]:
        return Season(None, None, "No season, as you said.")
    rows = sorted(int(word) for word in said if word.isdecimal())
    if len(rows) != len(said) or len(set(rows)) != len(rows) or len(rows) > 2:
        expected = "one or two different numbers of rows, such as 24,168, or none"
        raise Refusal(f"--season: got {', '.join(said)}, expected {expected}")
    if not 2 <= rows[0] <= rows[-1] <= MOST:
        raise Refusal(f"--season: got {', '.join(said)}, expected from 2 to {MOST} rows")
    sentence = f"Season: {_rows(rows)}, as you said."
    return Season(rows[0], rows[1] if len(rows) > 1 else None, sentence)


def calendar_season(schema: Schema) -> Season | None:
    """Day and week, week and year, or year, whichever the usual step divides; None for others."""
    step = schema.usual
    if step is None or not schema.regular or schema.time_format == "number":
        return None
    if step.months:
        year = 12 // step.months
        fits = year > 1 and 12 % step.months == 0
        return Season(year, None, f"Season: {year} rows a year.") if fits else None
    if _near(step.size, WEEK):
        return Season(52, None, "Season: 52 rows a year.")
    if _near(step.size, DAY):
        return Season(7, 365, "Seasons: 7 rows a week, 365 a year.")
    day = round(DAY / step.size)
    if not (2 <= day <= MOST and _near(day * step.size, DAY)):
        return None
    week = 7 * day if 7 * day <= MOST else None
    return Season(day, week, f"Seasons: {day} rows a day" + (f", {week} a week." if week else "."))


def found_season(stream: Stream) -> Season:
    """What the first rows show."""
    rows = stream.head(HEAD)
    seasons = find_seasons(_grid(rows)) if rows else ()
    if not seasons:
        seen = f"none was found in the first {len(rows)} rows"
        return Season(None, None, f"No season: {seen}; --season 12 would say one of 12 rows.")
    sentence = f"Season: {_rows(seasons)}, found in the first {len(rows)} rows."
    return Season(seasons[0], seasons[1] if len(seasons) > 1 else None, sentence)


def _grid(rows: Sequence[Observation]) -> np.ndarray:
    """Values at whole steps, NaN between them; what comes after a very long gap is left out."""
    place = np.round(np.cumsum([row.dt for row in rows]) - rows[0].dt).astype(int)
    place = place[place < 2 * HEAD]
    values = np.full((place[-1] + 1, len(rows[0].y)), np.nan)
    for k, row in zip(place, rows, strict=False):
        values[k] = row.y
    return values


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * b


def _rows(seasons: Sequence[int]) -> str:
    return " and ".join(map(str, seasons)) + " rows"
