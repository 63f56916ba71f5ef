"""Experts mixed column by column and horizon by horizon, with weights that follow their log scores.

    log w_j <- keep log w_j + log p_j(y) (up to a constant),    p(y) = sum_j w_j p_j(y),
    p_j(y) = t_nu((g_j(y) - loc_j) / (c_j dev_j)) g_j'(y) / (c_j dev_j)

The experts are the components, the nonlinear path, exponential smoothing, the season alone, the
short regression and the last value. Horizons are the rows since a column was last seen, in bins 1,
2-3, 4-7, ..: each has its own weights and widths c, learned from gaps and from forecasts under way,
so that a forecast rests on what those of its length achieved.
Mean and interval come from one distribution: its quantiles are weighted means of the experts'.

The mean is at last pulled towards the short regression and the last value (`pull.py`).
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from rmcvi.contract import Band, Prediction
from rmcvi.core import tree
from rmcvi.core.student import log_density, nodes, quantile, upper_tail
from rmcvi.learners.seasonal.pull import SIMPLE, Pull
from rmcvi.learners.seasonal.record import Record
from rmcvi.learners.seasonal.settings import Settings
from rmcvi.learners.seasonal.units import LocationScale, from_asinh, log_slope, to_asinh
from rmcvi.learners.seasonal.walk import RandomWalk

BINS = 10
"""Horizons from 1 to 512 rows; beyond, the last bin serves."""
KEEP = 0.99
"""Discount of old scores, per value at horizon 1."""
GAP = 12.0
"""Nats that an expert can be behind: it comes back within so many rows if it is better by one."""
CAP = 6.0
"""Nats that one value may weigh."""
LEAD = 3.0
"""Nats by which the last value leads when it has just been confirmed at a new level."""
NODES = 15
"""Quantiles whose average is the mean."""
FEW = 6.0
"""Values that the prior of a width counts for."""
SLOW_WIDTH, SLOW_COVER = 0.01, 0.01
"""Least rates of the widths and of the interval's coverage."""
WIDEST, COVER = 3.0, 1.0
"""Bounds of the logarithms of both."""


class Experts(eqx.Module):
    """What each expert predicts of a row: location and deviation in its own units."""

    laws: LocationScale
    asinh: tuple[bool, ...] = eqx.field(static=True)
    valid: Bool[Array, "e dy"]
    place: Float[Array, "dy"]
    """Of each column's horizon among the bins: 0 for the next row, k in the middle of bin k."""

    @property
    def bins(self) -> Int[Array, "dy"]:
        """The bin of each column's horizon."""
        return jnp.floor(self.place + 0.5).astype(int)

    @property
    def here(self) -> Bool[Array, "bins dy"]:
        """True at each column's bin. Few numbers are chosen faster by masks than by indices."""
        return jnp.arange(BINS)[:, None] == self.bins[None]

    @property
    def simple(self) -> tuple[Float[Array, "dy"], Float[Array, "dy"]]:
        """What the season (or, where there is none, the last value) and the last value say."""
        last, season = self.laws.location[-1], self.laws.location[-SIMPLE - 1]
        return jnp.where(self.valid[-SIMPLE - 1], season, last), last

    def transformed(
        self, change: Callable[..., Array], values: Float[Array, "*e dy"], scale: Float[Array, "dy"]
    ) -> Float[Array, "e dy"]:
        """Values, the same or each expert's own, with `change` for experts in asinh units."""
        rows = jnp.broadcast_to(values, self.valid.shape)
        # Only theirs are worked out: which ones they are is known when the program is compiled.
        return jnp.stack([change(v, scale, a) for v, a in zip(rows, self.asinh, strict=True)])


class Skill(eqx.Module):
    """How well the experts have done, by horizon and column, or `at` one horizon a column."""

    scores: Float[Array, "e *bins dy"]
    """Discounted log scores; the best has 0."""
    width: Float[Array, "e *bins dy"]
    """Logarithm of c."""
    cover: Float[Array, "*bins dy"]
    """Logarithm of the factor by which the interval is widened to cover its level."""
    count: Float[Array, "*bins dy"]
    """Values behind them."""
    pull: Pull
    record: Record

    @classmethod
    def unknown(cls, experts: int, size: int) -> "Skill":
        """Nothing seen."""
        nothing, one = jnp.zeros((experts, BINS, size)), jnp.zeros((BINS, size))
        pull, record = Pull.unknown(BINS, size), Record.empty(BINS, size)
        return cls(nothing, nothing, one, one, pull, record)

    def at(self, experts: Experts) -> "Skill":
        """At the experts' horizons."""

        def pick(values: Array) -> Array:
            here = jnp.broadcast_to(experts.here, values.shape)
            return jnp.sum(jnp.where(here, values, 0.0), -2)

        return jax.tree.map(pick, self)

    def between(self, experts: Experts) -> "Skill":
        """At the experts' horizons, with a share of the nearest other bin: no jumps from one bin to
        the next. The next row, of which more experts speak, has a bin that no other row shares.
        """
        share = jnp.maximum(1.0 - jnp.abs(jnp.arange(BINS)[:, None] - experts.place[None]), 0.0)
        return jax.tree.map(lambda v: jnp.sum(jnp.broadcast_to(share, v.shape) * v, -2), self)

    def put(self, new: "Skill", taught: Bool[Array, "bins dy"]) -> "Skill":
        """With what is `new` at one horizon a column, where it was `taught`."""

        def put(old: Array, new: Array) -> Array:
            return jnp.where(jnp.broadcast_to(taught, old.shape), new[..., None, :], old)

        both = jax.tree.map(put, self, new)
        # Where little is known of a horizon, its widths go with those of the next row.
        moved = jnp.where(taught[0], new.width - self.width[:, 0], 0.0)
        further = jnp.arange(BINS)[:, None] > 0
        follows = jnp.where(further, FEW / (FEW + _pace(BINS)[:, None] * self.count), 0.0)
        width = jnp.clip(both.width + follows[None] * moved[:, None], -WIDEST, WIDEST)
        return eqx.tree_at(lambda s: s.width, both, width)

    def weights(self, experts: Experts) -> Float[Array, "e dy"]:
        """Weights w of the experts, at their horizons."""
        return jax.nn.softmax(jnp.where(experts.valid, self.scores, -jnp.inf), 0)

    def deviation(self, experts: Experts) -> Float[Array, "e dy"]:
        """The deviations c dev; 1 where there is no such expert."""
        return jnp.where(experts.valid, experts.laws.deviation * jnp.exp(self.width), 1.0)

    def mixed(
        self, experts: Experts, scale: Float[Array, "dy"], walk: RandomWalk, nu: int, half: float
    ) -> "Mixed":
        """The distribution with an interval of `half` deviations, nothing far beyond the range."""
        weights, deviation = self.weights(experts), self.deviation(experts)
        location = jnp.where(experts.valid, experts.laws.location, 0.0)
        nearby, beyond = _range(walk, 1.0), _range(walk, 10.0)

        def at(nodes: Float[Array, "n dy"], bounds: tuple[Array, Array]) -> Float[Array, "n dy"]:
            g = location[None] + nodes[:, None] * deviation[None]
            value = jax.vmap(lambda g: experts.transformed(from_asinh, g, scale))(g)
            bounded = jnp.clip(value, *(bound[None, None] for bound in bounds))
            used = jnp.where((weights > 0.0)[None], bounded, 0.0)
            return jnp.sum(weights[None] * used, 1)

        pieces = jnp.asarray(nodes(NODES, nu), location.dtype)[:, None]
        mean = jnp.mean(at(jnp.broadcast_to(pieces, (NODES, len(scale))), nearby), 0)
        wider = half * jnp.exp(self.cover)
        low, high = at(jnp.stack([-wider, wider]), beyond)
        # Squares decide whether the last value is pulled to as it came, also if it was doubted.
        latest = jnp.where(jnp.isnan(walk.candidate), location[-1], walk.candidate)
        simple = jnp.clip(location[-SIMPLE:].at[-1].set(latest), *(v[None] for v in nearby))
        away = jnp.where(experts.valid[-SIMPLE:], simple - mean[None], 0.0)
        pulled = mean + jnp.sum(self.pull.shares() * away, 0)
        band = Band(pulled, jnp.minimum(low, pulled), jnp.maximum(high, pulled))
        return Mixed(band, weights, deviation, mean, away)

    def learn(
        self,
        experts: Experts,
        mixed: "Mixed",
        errors: Float[Array, "e dy"],
        logs: Float[Array, "e dy"],
        y: Float[Array, "dy"],
        nu: int,
        level: float,
    ) -> "Skill":
        """At the experts' horizons, after a row with these errors and log densities."""
        # A forecast has some 2^bin values in its bin, which are far from independent: for weights
        # they count as one. Widths and coverage, which average them, learn from more.
        share, pace = 2.0**-experts.bins, _pace(BINS)[experts.bins]
        best = jnp.max(jnp.where(experts.valid, logs, -jnp.inf), 0)
        logs = jnp.maximum(logs - best[None], -CAP)
        keep = 1.0 - (1.0 - KEEP) * share
        gain = share[None] * jnp.where(experts.valid, logs, 0.0)
        scores = keep[None] * self.scores + gain
        # An expert that says nothing is not the best of them, whatever it once was.
        best = jnp.max(jnp.where(experts.valid, scores, -jnp.inf), 0)
        rate = pace * jnp.maximum(1.0 / (pace * self.count + FEW), SLOW_WIDTH)
        ratio = errors**2
        surprise = jnp.clip((nu + 1.0) * ratio / (nu + ratio) - 1.0, -1.0, nu)
        width = self.width + 0.5 * rate[None] * jnp.where(experts.valid, surprise, 0.0)
        inside = (y >= mixed.band.low) & (y <= mixed.band.high)
        cover = self.cover + pace * SLOW_COVER * (level - inside)
        return Skill(
            jnp.clip(scores - best[None], -GAP, 0.0),
            jnp.clip(width, -WIDEST, WIDEST),
            jnp.clip(cover, -COVER, COVER),
            self.count + 1.0,
            self.pull.learn(y - mixed.mean, mixed.away, self.count, share),
            # Before the first value nobody knew anything.
            tree.where(
                self.count > 0.0,
                self.record.add(y, mixed.band.mean, inside, experts.simple),
                self.record,
            ),
        )

    def trust_last(self, which: Bool[Array, "dy"]) -> "Skill":
        """In columns whose last two values are at a new level, the last value leads."""
        last = jnp.arange(self.scores.shape[0]) == self.scores.shape[0] - 1
        first = jnp.arange(BINS) == 0
        place = last[:, None, None] & first[None, :, None] & which[None, None]
        scores = jnp.where(place, LEAD, self.scores)
        return eqx.tree_at(lambda s: s.scores, self, scores)


class Mixed(eqx.Module):
    """The experts' distributions as one."""

    band: Band
    weights: Float[Array, "e dy"]
    deviation: Float[Array, "e dy"]
    """Their deviations c dev."""
    mean: Float[Array, "dy"]
    """m, before it is pulled."""
    away: Float[Array, "2 dy"]
    """Distances of the simple experts from it."""


class Scored(eqx.Module):
    """A prediction, whether the value was far out, and the experts' skill at the row's horizon."""

    prediction: Prediction
    log_densities: Float[Array, "dy"]
    """Of each value; 0 where there is none."""
    far: Bool[Array, "dy"]
    skill: Skill


def score(
    skill: Skill,
    experts: Experts,
    y: Float[Array, "dy"],
    scale: Float[Array, "dy"],
    walk: RandomWalk,
    settings: Settings,
    level: float,
) -> Scored:
    """Predict the row, and learn how the experts fared.

    Args:
        skill: of the experts.
        experts: what they say of the row.
        y: the row.
        scale: of asinh units.
        walk: the last values.
        settings: degrees of freedom, and the gate beyond which a value is far out.
        level: probability of the interval.
    """
    nu, seen = settings.degrees, ~jnp.isnan(y)
    filled = jnp.where(seen, y, walk.last)
    mixed = skill.between(experts).mixed(
        experts, scale, walk, nu, quantile(0.5 * (1.0 + level), nu)
    )
    errors = experts.transformed(to_asinh, filled, scale) - experts.laws.location
    errors = jnp.where(experts.valid, jnp.clip(errors / mixed.deviation, -1e4, 1e4), 0.0)
    slopes = experts.transformed(log_slope, filled, scale)
    logs = log_density(errors, nu) - jnp.log(mixed.deviation) + slopes
    density = jax.nn.logsumexp(jnp.where(experts.valid, logs, -jnp.inf), 0, mixed.weights)
    density = jnp.where(seen, density, 0.0)
    tails = upper_tail(jnp.stack([errors, -errors]), nu)
    p_value = jnp.minimum(1.0, 2.0 * jnp.min(jnp.sum(mixed.weights[None] * tails, 1), 0))
    far = seen & (p_value < 2.0 * upper_tail(jnp.asarray(settings.gate), nu))
    prediction = Prediction(
        mean=mixed.band.mean,
        low=mixed.band.low,
        high=mixed.band.high,
        log_score=jnp.where(jnp.any(seen), jnp.sum(density), jnp.nan),
        p_value=jnp.where(seen, p_value, jnp.nan),
    )
    learned = skill.at(experts).learn(experts, mixed, errors, logs, y, nu, level)
    return Scored(prediction, density, far, learned)


def _pace(bins: int) -> Float[Array, "bins"]:
    """What a value counts for in widths and coverage: the root of 1 / the bin's length."""
    return 2.0 ** (-0.5 * jnp.arange(bins))


def _range(walk: RandomWalk, room: float) -> tuple[Float[Array, "dy"], Float[Array, "dy"]]:
    """Where values may lie: `room` margins beyond those seen; not below 0 if none was."""
    margin, some = room * walk.margin, walk.count > 0.0
    low = jnp.where(some, walk.low - margin, -jnp.inf)
    high = jnp.where(some, walk.high + margin, jnp.inf)
    return jnp.where(some & (walk.low >= 0.0), jnp.maximum(low, 0.0), low), high
