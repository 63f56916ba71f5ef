"""The seasons of a stream, in rows: said by the user, or by the calendar."""

from collections.abc import Sequence
from dataclasses import dataclass

from rmcvi.cli._app import Refusal
from rmcvi.data import Schema, Stream

DAY, DAYS = 86400.0, 7
MOST = 20_000
"""Rows of the longest season: each has a profile in the state."""
FAR = 1500
"""Rows of the longest season whose last value, itself, is an input."""


@dataclass(frozen=True)
class Season:
    """Rows in a season and in a longer one, None if there is no such rhythm, and why."""

    period: int | None
    long_period: int | None = None
    sentence: str = ""

    def long(self, own: int = 3) -> tuple[int, ...]:
        """Lags of a season ago, and one before and after it."""
        if self.period is None or self.period > FAR:
            return ()
        return tuple(p for p in range(self.period - 1, self.period + 2) if p > own)


def choose_season(stream: Stream, said: Sequence[str]) -> Season:
    """What `--season` says, else what the calendar does."""
    return given_season(said) if said else season_of(stream.schema)


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
    told = f"Season: {' and '.join(map(str, rows))} rows, as you said."
    return Season(rows[0], rows[1] if len(rows) > 1 else None, told)


def season_of(schema: Schema) -> Season:
    """A daily and a weekly rhythm, if rows come at least twice a day at a regular pace."""
    if not schema.time or schema.time_format == "number" or not schema.step:
        return Season(None, None, "No season: there is no calendar time.")
    if not schema.regular:
        return Season(None, None, "No season: times are irregular.")
    rows = DAY / schema.step
    if rows < 2.0 or abs(rows - round(rows)) > 1e-6 * rows:
        return Season(None, None, "No season: a day is not two or more whole steps.")
    day = round(rows)
    if day > MOST:
        return Season(None, None, f"No season: a day has {day} rows, more than {MOST}.")
    week = DAYS * day if DAYS * day <= MOST else None
    told = f"Seasons: {day} rows a day" + (f", {week} a week." if week else ".")
    return Season(day, week, told)
