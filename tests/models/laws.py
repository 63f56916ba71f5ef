"""Laws written again with NumPy and SciPy: densities, draws, and what draws must look like."""

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

NORMAL: Any = stats.multivariate_normal  # its stub takes no matrix


class Law(NamedTuple):
    """mean + factor @ e, with independent coordinates e of the law `noise`."""

    mean: np.ndarray
    factor: np.ndarray
    noise: Any = stats.norm

    @property
    def scale(self) -> np.ndarray:
        """Deviation of each coordinate."""
        return np.sqrt(np.diag(self.factor @ self.factor.T))

    def points(self, rng: np.random.Generator, num: int) -> np.ndarray:
        """Where to compare densities."""
        return self.mean + 2.0 * rng.normal(size=(num, self.mean.size))

    def near(self) -> np.ndarray:
        """A value that is easily drawn."""
        return self.mean + np.resize([0.3, -0.2, 0.4], self.mean.size)

    def log_prob(self, v: np.ndarray) -> float:
        """By change of variables."""
        white = np.linalg.solve(self.factor, v - self.mean)
        return float(np.sum(self.noise.logpdf(white)) - np.linalg.slogdet(self.factor)[1])

    def marginal_log_prob(self, v: np.ndarray, seen: np.ndarray) -> float:
        """Of what is seen."""
        covariance = (self.factor @ self.factor.T)[np.ix_(seen, seen)]
        if self.noise is stats.norm:
            return NORMAL.logpdf(v[seen], self.mean[seen], covariance)
        scale = np.sqrt(np.diag(covariance))
        return float(np.sum(self.noise.logpdf((v[seen] - self.mean[seen]) / scale) - np.log(scale)))

    def sample(self, rng: np.random.Generator, num: int) -> np.ndarray:
        """Independent rows."""
        white = self.noise.rvs(size=(num, self.mean.size), random_state=rng)
        return self.mean + white @ self.factor.T

    def uniforms(self, draws: np.ndarray) -> np.ndarray:
        """Draws as independent uniforms."""
        return self.noise.cdf(np.linalg.solve(self.factor, (draws - self.mean).T).T)


class Independent(NamedTuple):
    """Coordinates of different laws: SciPy's, frozen."""

    laws: tuple[Any, ...]

    @property
    def mean(self) -> np.ndarray:
        """Coordinate by coordinate."""
        return np.array([law.mean() for law in self.laws])

    @property
    def scale(self) -> np.ndarray:
        """Standard deviations."""
        return np.array([law.std() for law in self.laws])

    def points(self, rng: np.random.Generator, num: int) -> np.ndarray:
        """Draws."""
        return self.sample(rng, num)

    def near(self) -> np.ndarray:
        """The medians."""
        return np.array([law.median() for law in self.laws], float)

    def log_prob(self, v: np.ndarray) -> float:
        """Their sum."""
        return self.marginal_log_prob(v, np.ones(len(v), bool))

    def marginal_log_prob(self, v: np.ndarray, seen: np.ndarray) -> float:
        """Of what is seen."""
        return sum(_log_prob(self.laws[k], float(v[k])) for k in np.flatnonzero(seen))

    def sample(self, rng: np.random.Generator, num: int) -> np.ndarray:
        """Independent rows."""
        columns = [law.rvs(size=num, random_state=rng) for law in self.laws]
        return np.stack(columns, 1).astype(float)

    def uniforms(self, draws: np.ndarray) -> np.ndarray:
        """Draws as uniforms; a count is spread over the jump of its distribution function."""
        rng = np.random.default_rng(3)
        columns = zip(self.laws, draws.T, strict=True)
        return np.stack([_uniform(law, v, rng.random(len(v))) for law, v in columns], 1)


class OnTheCircle(NamedTuple):
    """A normal angle modulo 2 pi, `location` being the angle that is not wrapped."""

    location: float
    deviation: float

    def mean(self) -> float:
        """As the model gives it."""
        return self.location

    def std(self) -> float:
        """Before it is wrapped."""
        return self.deviation

    def median(self) -> float:
        """In [-pi, pi)."""
        return float(_wrap(self.location))

    def logpdf(self, angle: float) -> float:
        """Every turn counts."""
        turned = angle + 2.0 * np.pi * np.arange(-9, 10)
        return float(np.log(np.sum(stats.norm.pdf(turned, self.location, self.deviation))))

    def rvs(self, size: int, random_state: np.random.Generator) -> np.ndarray:
        """Draws."""
        return _wrap(random_state.normal(self.location, self.deviation, size))

    def cdf(self, angle: np.ndarray) -> np.ndarray:
        """Of the way round from the mean; the deviation is small here."""
        return stats.norm.cdf(_wrap(angle - self.location) / self.deviation)


def _wrap(angle: Any) -> Any:
    return np.mod(angle + np.pi, 2.0 * np.pi) - np.pi


def _log_prob(law: Any, value: float) -> float:
    return float(law.logpmf(value) if _counts(law) else law.logpdf(value))


def _counts(law: Any) -> bool:
    return isinstance(getattr(law, "dist", None), stats.rv_discrete)


def _uniform(law: Any, values: np.ndarray, between: np.ndarray) -> np.ndarray:
    if not _counts(law):
        return law.cdf(values)
    below = law.cdf(values - 1)
    return below + between * (law.cdf(values) - below)
