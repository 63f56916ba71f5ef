"""From the usual step of a stream to the rows in its day and its week."""

from dataclasses import dataclass

from rmcvi.data import Schema

DAY, DAYS = 86400.0, 7
MOST = 20_000
"""Rows of the longest season that is looked for: each has a profile in the state."""
FAR = 1500
"""Rows of the longest season whose last value, itself, is an input."""


@dataclass(frozen=True)
class Season:
    """Rows in a day and in a week, None if there is no such rhythm, and why."""

    period: int | None
    long_period: int | None
    sentence: str

    def long(self, own: int = 3) -> tuple[int, ...]:
        """Lags of a day ago, and one before and after it."""
        if self.period is None or self.period > FAR:
            return ()
        return tuple(p for p in range(self.period - 1, self.period + 2) if p > own)


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
