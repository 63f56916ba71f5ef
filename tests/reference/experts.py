"""One column of the seasonal learner without its components, in plain numbers.

The oracle of `walk`, `experts` and `trial` in `rmcvi.learners.seasonal`; `seasonal` uses it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls
from scipy.stats import t as student

NU, GATE = 6, 15.0
NODES = student.ppf((np.arange(15) + 0.5) / 15, NU)


def bend(y, scale, bent: bool):
    """The value in the units of an expert."""
    return scale * np.arcsinh(y / scale) if bent else y


def unbend(g, scale, bent: bool):
    """And back."""
    return scale * np.sinh(np.clip(g / scale, -20, 20)) if bent else g


@dataclass
class LastValue:
    """The last value, how far it goes in a row, and whether values far out have lasted."""

    last: float = 0.0
    variance: float = 1.0
    quantum: float = np.inf
    low: float = np.inf
    high: float = -np.inf
    count: int = 0
    gap: float = 0.0
    repeats: int = 0
    candidate: float | None = None
    base: float = 0.0
    lasts: float = 0.0
    doubts: int = 0

    def wait(self) -> None:
        self.gap = min(self.gap + 1, 4096) if self.count else 1

    @property
    def finest(self) -> float:
        grain = self.quantum / 4 if self.quantum < np.inf else 0.0
        return max(grain, 1e-7 * abs(self.last) + 1e-30)

    @property
    def deviation(self) -> float:
        return max(np.sqrt(self.variance), self.finest) if self.count else 1.0

    def bounds(self, room: float) -> tuple[float, float]:
        """Where a prediction may lie."""
        if not self.count:
            return -np.inf, np.inf
        margin = room * (0.1 * (self.high - self.low) + 3 * self.deviation)
        low = self.low - margin
        return max(low, 0.0) if self.low >= 0 else low, self.high + margin

    def confirmed(self, y: float) -> bool:
        return self.candidate is not None and abs(y - self.candidate) <= GATE * self.deviation

    def belief(self, y: float, far: bool) -> float:
        return self.lasts if far and not self.confirmed(y) else 1.0

    def learn(self, y: float, far: bool) -> None:
        if np.isnan(y):
            return
        early, unit, confirmed = self.count < 8, self.deviation, self.confirmed(y)
        lasts = self.lasts
        change = (y - self.last) / (unit * np.sqrt(self.gap))
        if self.candidate is not None and confirmed:
            change = (y - self.candidate) / unit
        square = min(change**2, 1e8 if early else 25.0)
        rate = max(1 / (self.count + 1), 0.03)
        variance = max(unit**2 * (1 + rate * (square - 1)), 1e-30)
        if self.candidate is not None:
            kept = np.clip((y - self.base) / (self.candidate - self.base), 0, 1)
            self.lasts += (kept - self.lasts) / min(self.doubts + 2, 30)
            self.doubts += 1
        self.variance = variance if self.count else min(0.01 * y**2 + 1e-30, 1e30)
        if self.count and y != self.last:
            self.quantum = min(self.quantum, abs(y - self.last))
        self.repeats = self.repeats + 1 if y == self.last else 0
        if far and not confirmed and not early:
            self.candidate, self.base = y, self.last
            self.last = self.last + lasts * (y - self.last)
        else:
            if self.count:
                self.low += 1e-4 * (self.last - self.low)
                self.high += 1e-4 * (self.last - self.high)
            self.low, self.high = min(self.low, y), max(self.high, y)
            self.candidate, self.last = None, y
        self.count, self.gap = self.count + 1, 0


class Small:
    """A regression around a forecast that needs none, in units of a scale; covariance form."""

    def __init__(self, start: list[float], prior: list[float]) -> None:
        self.most = np.square(prior)
        self.w, self.P, self.v = np.array(start), np.diag(self.most), 1.0

    def change(self, rows: list[float], unit: float) -> float:
        """What inputs add to the base, in raw units."""
        whole = np.nan_to_num(np.array(rows) / unit)
        self.unit, self.usual = unit, np.abs(whole).max() <= 100
        self.phi = np.clip(whole, -100, 100)
        self.lever = float(self.phi @ self.P @ self.phi)
        self.deviation = float(unit * np.sqrt(self.v + self.lever))
        return float(unit * np.clip(self.w @ self.phi, -100, 100))

    def teach(self, error: float, count: int) -> None:
        e = error / self.unit
        if not self.usual or abs(e) > 100:
            return
        g, total = self.P @ self.phi, 0.998 * self.v + self.lever
        self.w = self.w + g * e / total
        P = (self.P - np.outer(g, g) / total) / 0.998
        c = np.sqrt(np.minimum(1, self.most / np.diag(P)))
        self.P = P * np.outer(c, c)
        pace = max(1 / (count + 6), 0.002)
        self.v = np.clip(self.v + pace * (e**2 - self.v), 0.0025, 1e4)


class Short(Small):
    """Five coefficients of one column on its own changes, season and level."""

    def __init__(self) -> None:
        super().__init__([0.0] * 5, [0.6, 0.3, 0.3, 0.3, 0.3])
        self.before, self.season, self.level, self.scale = [0.0, 0.0], np.nan, 0.0, 0.0

    def say(self, walk: LastValue, season: float) -> "Opinion | None":
        """The next value, unless too little is known or it is not the next."""
        (y2, y3), last = self.before, walk.last
        rows = [last - y2, y2 - y3, season - last, season - self.season, self.level - last]
        self.mean = last + self.change(rows, max(self.scale, walk.finest))
        self.silent = walk.count < 3 or walk.gap >= 2
        return None if self.silent else Opinion(self.mean, self.deviation)

    def learn(self, y: float, walk: LastValue, far: bool, season: float) -> None:
        """Before `walk` learns the value."""
        if np.isnan(y):
            self.season = season
            return
        if not (self.silent or far or walk.repeats >= 24):
            self.teach(y - self.mean, walk.count)
        most = 3 * self.scale if self.scale else np.inf
        away = np.clip(y - self.level, -most, most)
        pace = max(1 / (walk.count + 1), 0.02)
        self.level += pace * away
        change = min(abs(y - walk.last), most) if walk.count else 0.0
        if change > 0:
            self.scale = self.scale + pace * (change - self.scale) if self.scale else change
        self.before = [walk.last, self.before[0]]
        if far and walk.confirmed(y):
            self.level, self.before = y, [y, y]
        self.season = season


class Smooth(Small):
    """Level, trend and season of one column, in raw or in asinh units."""

    def __init__(self, bent: bool) -> None:
        super().__init__([0.0, 0.0, 1.0], [0.3] * 3)
        self.bent, self.count = bent, 0
        self.fast = self.slow = self.trend = self.last = self.scale = 0.0

    def say(self, offset: float, gap: float) -> None:
        """The next value; `offset` is what the season adds."""
        rows = [self.last - self.fast, self.slow - self.fast, self.trend]
        unit = max(self.scale, 1e-7 * abs(self.last) + 1e-30)
        self.offset, self.mean = offset, offset + self.fast + self.change(rows, unit)
        self.silent = self.count < 3 or gap >= 2
        told = Opinion(self.mean, self.deviation, self.bent)
        self.opinion = None if self.silent else told

    def learn(self, y: float, scale: float, far: bool, confirmed: bool, stuck: bool) -> None:
        """A value that was seen, of a column that is known."""
        g = bend(y, scale, self.bent)
        x = g - self.offset
        if not (far or stuck):
            if not self.silent:
                self.teach(g - self.mean, self.count)
            n, s = self.count + 1, self.scale if self.scale else np.inf
            change = x - self.last if self.count else 0.0
            self.fast += max(1 / n, 0.3) * np.clip(x - self.fast, -10 * s, 10 * s)
            self.slow += max(1 / n, 0.05) * np.clip(x - self.slow, -10 * s, 10 * s)
            self.trend += max(1 / n, 0.05) * np.clip(change - self.trend, -3 * s, 3 * s)
            if self.scale and change:
                new = np.clip(abs(change) - self.scale, -3 * s, 3 * s)
                self.scale += max(1 / n, 0.02) * new
            self.scale = self.scale or abs(change)
            self.last, self.count = x, n
        if confirmed:
            self.fast = self.slow = self.last = x


def nearest(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The minimum of x'Ax / 2 - b'x where x >= 0 and its sum is at most 1."""
    root, heavy = np.linalg.cholesky(A).T, 1e6
    rows = np.block([[root, np.zeros((2, 1))], [heavy * np.ones((1, 3))]])
    return nnls(rows, [*np.linalg.solve(root.T, b), heavy])[0][:2]


@dataclass
class Opinion:
    """What an expert says of the next value, in its own units."""

    location: float
    deviation: float
    bent: bool = False


@dataclass
class Mixture:
    """The opinions of those experts that have one, weighed."""

    who: list[int]
    weights: np.ndarray
    deviations: np.ndarray
    opinions: list[Opinion]
    scale: float
    mean: float
    """Before it is pulled towards the last two experts."""
    away: np.ndarray
    """Of which these are the distances; 0 if one says nothing."""
    band: tuple[float, float, float]

    def errors(self, y: float) -> np.ndarray:
        g = [bend(y, self.scale, o.bent) - o.location for o in self.opinions]
        return np.clip(np.array(g) / self.deviations, -1e4, 1e4)

    def logs(self, y: float) -> np.ndarray:
        slopes = [-np.log(np.hypot(1, y / self.scale)) if o.bent else 0.0 for o in self.opinions]
        return student.logpdf(self.errors(y), NU) - np.log(self.deviations) + slopes

    def log_density(self, y: float) -> float:
        return float(np.log(self.weights @ np.exp(self.logs(y))))

    def far(self, y: float) -> bool:
        r = self.errors(y)
        p = 2 * min(self.weights @ student.sf(r, NU), self.weights @ student.sf(-r, NU))
        return bool(p < 2 * student.sf(GATE, NU))


class Record:
    """How the experts have fared in one column, horizon by horizon."""

    def __init__(self, experts: int):
        self.scores, self.width = np.zeros((10, experts)), np.zeros((10, experts))
        self.cover, self.count = np.zeros(10), np.zeros(10)
        self.squares, self.products = np.zeros((10, 2, 2)), np.zeros((10, 2))
        self.square = np.zeros(10)
        self.moved = np.zeros(experts)

    @staticmethod
    def bin(horizon: float) -> int:
        return min(int(np.log2(max(horizon, 1)) + 1e-4), 9)

    def near(self, values: np.ndarray, horizon: float) -> np.ndarray:
        """By lines between the middles of the bins; the next row stands alone."""
        if horizon < 2 - 1e-4:
            return values[0]
        middle = np.clip(np.log2(horizon) - 0.5 + 1e-4, 1, 9)
        k = min(int(middle), 8)
        return values[k] + (middle - k) * (values[k + 1] - values[k])

    def mix(
        self, said: list[Opinion | None], scale: float, at: LastValue, horizon: float, level: float
    ) -> Mixture:
        who = [j for j, opinion in enumerate(said) if opinion is not None]
        opinions = [opinion for opinion in said if opinion is not None]
        scores = self.near(self.scores, horizon)[who]
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        wide = np.array([o.deviation for o in opinions]) * np.exp(
            self.near(self.width, horizon)[who]
        )

        def quantile(q, room: float):
            low, high = at.bounds(room)
            total = 0.0 * q
            for w, o, sd in zip(weights, opinions, wide, strict=True):
                total += w * np.clip(unbend(o.location + q * sd, scale, o.bent), low, high)
            return total

        mean = np.mean(quantile(NODES, 1.0))
        sums = self.near(self.squares, horizon), self.near(self.products, horizon)
        shares = nearest(sums[0] + 20 * np.eye(2), sums[1])
        ends = at.bounds(1.0)
        places = [None if o is None else o.location for o in said[-2:]]
        if at.candidate is not None:
            places[-1] = at.candidate  # as it came, also if it was doubted
        away = np.array([0.0 if v is None else np.clip(v, *ends) - mean for v in places])
        pulled = float(mean + shares @ away)
        half = student.ppf(0.5 + level / 2, NU) * np.exp(self.near(self.cover, horizon))
        ends = float(quantile(-half, 10.0)), float(quantile(half, 10.0))
        band = pulled, min(ends[0], pulled), max(ends[1], pulled)
        return Mixture(who, weights, wide, opinions, scale, float(mean), away, band)

    def learn(self, mixture: Mixture, y: float, horizon: float, level: float) -> None:
        k, who = self.bin(horizon), mixture.who
        logs = mixture.logs(y)
        behind = np.zeros(self.scores.shape[1])  # who says nothing keeps up with the best
        behind[who] = np.maximum(logs - logs.max(), -6)
        pace = 1 / np.sqrt(2**k)
        scores = (1 - 0.01 / 2**k) * self.scores[k] + behind / 2**k
        self.scores[k] = np.clip(scores - scores[mixture.who].max(), -12, 0)
        square = mixture.errors(y) ** 2
        surprise = np.clip((NU + 1) * square / (NU + square) - 1, -1, NU)
        rate = pace * max(1 / (pace * self.count[k] + 6), 0.01)
        before = self.width[k].copy()
        self.width[k, who] = np.clip(before[who] + 0.5 * rate * surprise, -3, 3)
        if k == 0:
            self.moved = self.width[0] - before
        _, low, high = mixture.band
        missed = level - (low <= y <= high)
        self.cover[k] = np.clip(self.cover[k] + 0.01 * missed / np.sqrt(2**k), -1, 1)
        unit, fade = np.sqrt(self.square[k]) or np.inf, 1 - 0.0005 / 2**k
        error = np.clip((y - mixture.mean) / unit, -20, 20)
        away = np.clip(mixture.away / unit, -20, 20)
        if self.count[k] >= 24:
            self.squares[k] = fade * self.squares[k] + np.outer(away, away) / 2**k
            self.products[k] = fade * self.products[k] + away * error / 2**k
        square = (y - mixture.mean - mixture.away[-1]) ** 2
        if self.square[k] > 0:
            square = min(square, 10 * self.square[k])
        pace = max(1 / (self.count[k] + 1), 0.001 / 2**k)
        self.square[k] += pace * (square - self.square[k])
        self.count[k] += 1

    def settle(self) -> None:
        """After a row: widths of further ones go with that of the next, the less the more known."""
        for k in range(1, 10):
            share = 6 / (6 + self.count[k] / np.sqrt(2**k))
            self.width[k] = np.clip(self.width[k] + share * self.moved, -3, 3)
        self.moved = np.zeros_like(self.moved)


def length_of_trial(number: int) -> int:
    """8, 16, 8, 32, 8, 16, 8, 64, ..: eight times the largest power of two that divides it."""
    length = 8
    while number % 2 == 0 and length < 8 * 64:
        number, length = number // 2, length * 2
    return length
