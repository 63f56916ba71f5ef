"""The seasons of a stream, in rows: said by the user, by the calendar, or by the first rows.

The first rows show the period P whose waves improve a one-step prediction,

    y_t = trend + sum_l a_l y_{t-l} + sum_{h <= H} b_h cos(2 pi h t / P) + c_h sin(..) + noise

The lags have had their say before a wave is heard, so that a walk, or noise with a memory, which
has waves of any length but keeps none of them, shows no season. With the squared errors without
(R_0) and with H waves (R_H), n log(R_0 / R_H) is chi-square of 2 H degrees if there is no season.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from rmcvi.app.run.speech import Refusal
from rmcvi.app.sources import Observation, Schema, Stream

DAY, WEEK = 86400.0, 604800.0
HEAD = 2000
"""Rows that are looked at for a season: less than a second's reading."""
MOST = 20_000
"""Rows of the longest season: each has a profile in the state."""
LAGS, TREND = 3, 3
"""Rows before, and coefficients of a parabola."""
WAVES = (1, 2, 4, 8, 12)
"""Numbers of waves that are tried."""
CYCLES = 6
"""Seasons that the rows must hold at least."""
SHORTEST = 24
"""Rows below which nothing is looked for."""
COLUMNS = 4
"""Columns that are looked at: a second's work at most."""
RISK = 0.001
"""Probability of a find in noise, over all periods and columns."""
WORTH = 0.05
"""Share of the squared error that the season of one half has to save in the other."""
RIDGE = 1e-4
"""Prior precision of a lag, per row: without it, lags alone would predict a perfect wave."""
AS_GOOD = 0.9
"""Share of the evidence for a period with which a whole part of it is preferred."""
SCALE, OWN = 4, 0.25
"""A part so many times shorter, with such a share of the evidence, is a season of its own."""


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


def find_seasons(values: np.ndarray) -> tuple[int, ...]:
    """The period in rows of columns (T, d) at equal steps, NaN = missing, and a longer one, if any.

    A longer one is a season of the means over the shorter one, as a week is of days.
    """
    found = _find(values)
    if len(found) != 1:
        return found
    period = found[0]
    whole = values[: len(values) // period * period].reshape(-1, period, values.shape[1])
    seen = ~np.isnan(whole)
    with np.errstate(invalid="ignore"):
        means = np.where(seen, whole, 0.0).sum(1) / seen.sum(1)
    return (period, *(times * period for times in _find(means)[:1]))


def _find(values: np.ndarray) -> tuple[int, ...]:
    """The period with the most evidence, if a column confirms it, after a part that has its own."""
    rows = len(values)
    columns = [c for v in values.T if (c := _Column.of(v)) is not None][:COLUMNS]
    periods = _candidates(rows)
    if not columns or not periods:
        return ()
    tail = RISK / (len(periods) * len(columns) * len(WAVES))

    def evidence(period: int) -> float:
        return sum(max(0.0, c.evidence(period, tail)[0]) for c in columns)

    best = max(periods, key=evidence)
    near = best * best // (2 * max(WAVES) * rows) + 1
    best = max(range(max(2, best - near), min(best + near, rows // CYCLES) + 1), key=evidence)
    if not any(c.confirms(best, tail) for c in columns):
        return ()
    total = evidence(best)
    parts = {p: evidence(p) / total for p in range(2, best // 2 + 1) if best % p == 0}
    for part, share in parts.items():
        if share >= AS_GOOD:
            return (part,)
    short = {p: share for p, share in parts.items() if p * SCALE <= best and share >= OWN}
    return (max(short, key=lambda p: short[p]), best) if short else (best,)


def _candidates(rows: int) -> list[int]:
    """All short periods, and long ones as densely as so many rows can tell them apart."""
    periods, p = [], 2
    while rows >= SHORTEST and CYCLES * p <= rows:
        periods.append(p)
        p += max(1, p * p // (2 * max(WAVES) * rows))
    return periods


def _chi_square(degrees: int, tail: float) -> float:
    """What chi-square exceeds with probability `tail`, by Wilson and Hilferty."""
    part = 2.0 / (9.0 * degrees)
    return degrees * (1.0 - part + NormalDist().inv_cdf(1.0 - tail) * part**0.5) ** 3


class _Column:
    """One column without its trend, explained by lags; rows with a missing value are left out."""

    def __init__(self, column: np.ndarray):
        t = np.arange(len(column))
        ramp = np.vander(2.0 * t / len(t) - 1.0, TREND)
        seen = ~np.isnan(column)
        column = column - ramp @ np.linalg.lstsq(ramp[seen], column[seen])[0]
        plain = np.stack([np.roll(column, lag) for lag in range(1, LAGS + 1)] + [column], 1)[LAGS:]
        seen = ~np.isnan(plain).any(1)
        self.t, self.x, self.y = t[LAGS:][seen], plain[seen, :-1], plain[seen, -1]

    @classmethod
    def of(cls, column: np.ndarray) -> "_Column | None":
        """The column in standard units without its far ends; None if there is nothing in it."""
        seen = column[~np.isnan(column)]
        if len(seen) < SHORTEST:
            return None
        column = np.clip(column, *np.quantile(seen, (0.005, 0.995)))
        size = np.nanstd(column)
        if not size > 1e-9 * float(np.abs(seen).max()):
            return None
        found = cls((column - np.nanmean(column)) / size)
        return found if len(found.y) >= SHORTEST else None

    def evidence(self, period: int, tail: float) -> tuple[float, int]:
        """By how much the best number of waves exceeds what chance may do, and that number."""
        most = min(max(WAVES), max(1, (period - 1) // 2))
        counts = [*(h for h in WAVES if h < most), most]
        waves = self._waves(period, counts[-1])
        inputs = np.concatenate([self.x, waves, self.y[:, None]], 1)
        moments = inputs.T @ inputs + np.diag(self._prior(inputs.shape[1]))
        # The last row of the factor says how much each input, after those before it, explains.
        last = np.linalg.cholesky(moments)[-1] ** 2
        left = last.sum() - np.cumsum(last[:-1])
        found = []
        for h in counts:
            degrees = min(2 * h, waves.shape[1])
            free = max(len(self.y) - LAGS - TREND - degrees, 0)
            gain = free * float(np.log(left[LAGS - 1] / left[LAGS - 1 + degrees]))
            found.append((gain - _chi_square(degrees, tail), h))
        return max(found)

    def confirms(self, period: int, tail: float) -> bool:
        """Whether there is evidence, and the season of each half helps in the other one."""
        beyond, count = self.evidence(period, tail)
        if beyond <= 0.0:
            return False
        both = np.concatenate([self.x, self._waves(period, count)], 1)
        return self._crossed(both) < (1.0 - WORTH) * self._crossed(self.x)

    def _prior(self, size: int) -> list[float]:
        return [RIDGE * len(self.y)] * LAGS + [1e-9] * (size - LAGS)

    def _waves(self, period: int, count: int) -> np.ndarray:
        """Cosine and sine of each wave, side by side."""
        angle = 2.0 * np.pi / period * np.arange(period)
        place = self.t[:, None] * np.arange(1, count + 1) % period
        if period == 2:
            return np.cos(angle)[place]
        pairs = np.stack([np.cos(angle)[place], np.sin(angle)[place]], -1)
        return pairs.reshape(len(self.t), -1)

    def _crossed(self, x: np.ndarray) -> float:
        """Squared error in each half of what the other half says."""
        half, total = self.t < np.median(self.t), 0.0
        prior = np.diag(self._prior(x.shape[1]))
        for fit in (half, ~half):
            weights = np.linalg.solve(x[fit].T @ x[fit] + prior, x[fit].T @ self.y[fit])
            error = self.y[~fit] - x[~fit] @ weights
            total += float(error @ error + weights[:LAGS] @ weights[:LAGS] * prior[0, 0])
        return total
